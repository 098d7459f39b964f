#include "server/target/log_index.h"

#include <algorithm>

#include "format/base/fault_points.h"
#include "format/base/limits.h"
#include "format/base/status.h"
#include "server/target/limits.h"

namespace cairn::server {
namespace {

using format::IndexOp;

// Rewriting pays from here on, and when most of the log is dead.
constexpr uint64_t kCompactBytesMin = 4 * format::kMiB;
constexpr uint64_t kCompactFactor = 4;

// True if a whole frame of `sequence` or later starts at a boundary in `bytes`.
bool HasLaterFrame(format::ConstBytes bytes, uint64_t sequence) {
  for (uint64_t at = 0; at < bytes.size(); at += format::kDiskAlignBytes) {
    const auto frame = format::DecodeIndexFrame(bytes.subspan(at));
    if (frame.ok() && frame->sequence >= sequence) return true;
  }
  return false;
}

}  // namespace

LogIndex::~LogIndex() { CAIRN_CHECK(!file_); }

io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> LogIndex::Create(
    io::Env* env, std::string dir) {
  CAIRN_CO_RETURN_IF_ERROR(co_await env->MakeDirectory(dir));
  std::unique_ptr<LogIndex> index(new LogIndex(env, dir));
  io::OpenOptions options;
  options.write = true;
  options.create = true;
  options.exclusive = true;
  CAIRN_CO_ASSIGN_OR_RETURN(index->file_,
                            co_await env->OpenFile(index->path(), options));
  absl::Status synced = co_await env->SyncDirectory(dir);
  if (!synced.ok()) {
    (void)co_await index->Close();  // The first failure is the one to tell.
    co_return synced;
  }
  co_return std::unique_ptr<ChunkIndex>(std::move(index));
}

io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> LogIndex::Open(
    io::Env* env, std::string dir) {
  std::unique_ptr<LogIndex> index(new LogIndex(env, std::move(dir)));
  io::OpenOptions options;
  options.write = true;
  absl::StatusOr<std::unique_ptr<io::File>> file =
      co_await env->OpenFile(index->path(), options);
  if (absl::IsNotFound(file.status())) {
    co_return absl::DataLossError(
        absl::StrCat("the index ", index->path(), " is missing"));
  }
  CAIRN_CO_RETURN_IF_ERROR(file);
  index->file_ = *std::move(file);
  absl::Status loaded = co_await index->Load();
  if (!loaded.ok()) {
    (void)co_await index->Close();  // The first failure is the one to tell.
    co_return Annotate(std::move(loaded), index->path());
  }
  co_return std::unique_ptr<ChunkIndex>(std::move(index));
}

io::Task<absl::Status> LogIndex::Load() {
  CAIRN_CO_ASSIGN_OR_RETURN(const uint64_t size, co_await file_->SizeBytes());
  const auto bytes = std::make_unique_for_overwrite<uint8_t[]>(size);
  const format::MutableBytes log{bytes.get(), size};
  CAIRN_CO_RETURN_IF_ERROR(co_await file_->ReadAt(0, log));
  CAIRN_CO_RETURN_IF_ERROR(Replay(log));
  if (end_ < size) {
    CAIRN_SOMETIMES(true, "target.log.torn_tail_dropped");
    CAIRN_CO_RETURN_IF_ERROR(co_await file_->Truncate(end_));
    CAIRN_CO_RETURN_IF_ERROR(co_await file_->Sync());
  }
  co_return co_await Harden(log);
}

// If the flush of the last frame, or of the log's name, failed, and the process
// was then restarted, the cache shows what the next loss of power takes away:
// to go on from there would be to vouch for it.
io::Task<absl::Status> LogIndex::Harden(format::ConstBytes log) {
  io::WriteOptions durable;
  durable.durable = true;
  const format::ConstBytes last = log.subspan(last_, end_ - last_);
  if (!last.empty()) {
    CAIRN_CO_RETURN_IF_ERROR(co_await file_->WriteAt(last_, last, durable));
  }
  co_return co_await env_->SyncDirectory(dir_);
}

absl::Status LogIndex::Replay(format::ConstBytes bytes) {
  while (end_ < bytes.size()) {
    const format::ConstBytes rest = bytes.subspan(end_);
    const auto frame = format::DecodeIndexFrame(rest);
    if (absl::IsFailedPrecondition(frame.status())) return frame.status();
    if (frame.ok() && frame->sequence == sequence_ + 1) {
      Apply(frame->ops);
      last_ = end_;
      end_ += frame->size_bytes;
      ++sequence_;
      continue;
    }
    if (HasLaterFrame(rest, sequence_ + 1)) {
      CAIRN_SOMETIMES(true, "target.log.damaged");
      return absl::DataLossError(
          absl::StrCat("damaged at byte ", end_, ", before its end"));
    }
    break;  // Torn by a crash.
  }
  return absl::OkStatus();
}

void LogIndex::Apply(const std::vector<IndexOp>& ops) {
  for (const IndexOp& op : ops) {
    const auto old = entries_.find(op.key);
    if (old != entries_.end()) {
      live_bytes_ -= old->first.size() + old->second.size();
      entries_.erase(old);
    }
    if (op.kind == IndexOp::Kind::kErase) continue;
    entries_.emplace(op.key, op.value);
    live_bytes_ += op.key.size() + op.value.size();
  }
}

io::Task<absl::StatusOr<std::vector<ChunkIndex::Entry>>> LogIndex::Scan(
    std::string after, uint32_t limit) {
  std::vector<Entry> page;
  for (auto it = entries_.upper_bound(after);
       it != entries_.end() && page.size() < limit; ++it) {
    page.push_back({it->first, it->second});
  }
  co_return page;
}

io::Task<absl::StatusOr<std::optional<std::string>>> LogIndex::Get(
    std::string key) {
  std::optional<std::string> value;
  const auto it = entries_.find(key);
  if (it != entries_.end()) value = it->second;
  co_return value;
}

io::Task<absl::Status> LogIndex::Commit(std::vector<IndexOp> ops) {
  CAIRN_CHECK(file_);
  const std::string frame = format::EncodeIndexFrame(sequence_ + 1, ops);
  io::WriteOptions durable;
  durable.durable = true;
  CAIRN_CO_RETURN_IF_ERROR(
      co_await file_->WriteAt(end_, format::AsBytes(frame), durable));
  end_ += frame.size();
  ++sequence_;
  Apply(ops);
  if (end_ > std::max(kCompactBytesMin, kCompactFactor * live_bytes_) ||
      CAIRN_FAULT_POINT("target.log.compacted_early")) {
    co_return co_await Compact();
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> LogIndex::Compact() {
  const std::string fresh_path = path() + ".new";
  io::OpenOptions options;
  options.write = true;
  options.create = true;
  options.truncate = true;
  CAIRN_CO_ASSIGN_OR_RETURN(std::unique_ptr<io::File> fresh,
                            co_await env_->OpenFile(fresh_path, options));
  absl::StatusOr<uint64_t> written = co_await WriteAll(fresh.get());
  absl::Status status = written.status();
  if (status.ok()) status = co_await fresh->Sync();
  if (status.ok()) status = co_await env_->Rename(fresh_path, path());
  if (status.ok()) status = co_await env_->SyncDirectory(dir_);
  std::swap(file_, fresh);
  absl::Status closed = co_await fresh->Close();
  CAIRN_CO_RETURN_IF_ERROR(status);
  end_ = *written;
  co_return closed;
}

io::Task<absl::StatusOr<uint64_t>> LogIndex::WriteAll(io::File* file) {
  uint64_t end = 0;
  uint64_t body_bytes = 0;
  std::vector<IndexOp> ops;
  sequence_ = 0;
  for (auto it = entries_.begin(); it != entries_.end();) {
    ops.push_back({IndexOp::Kind::kPut, it->first, it->second});
    body_bytes += format::IndexOpBytes(ops.back());
    ++it;
    if (body_bytes < kGroupCommitBytesMax && it != entries_.end()) continue;
    const std::string frame = format::EncodeIndexFrame(++sequence_, ops);
    CAIRN_CO_RETURN_IF_ERROR(
        co_await file->WriteAt(end, format::AsBytes(frame)));
    end += frame.size();
    ops.clear();
    body_bytes = 0;
  }
  co_return end;
}

io::Task<absl::Status> LogIndex::Close() {
  if (!file_) co_return absl::OkStatus();
  const std::unique_ptr<io::File> file = std::move(file_);
  co_return co_await file->Close();
}

}  // namespace cairn::server
