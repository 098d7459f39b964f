// The half of FileWriter that edits contents.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/file/open.h"
#include "tests/sim/campaign/file_writer.h"

namespace cairn::sim {

using io::Task;

namespace {
constexpr uint64_t kEditsMax = 8;
}  // namespace

Task<bool> FileWriter::EditFile() {
  Edit edit;
  edit.name = DrawName();
  const bool opened = co_await OpenFor(&edit);
  if (!opened) co_return !owner_->directory->names.pending();
  bool usable = true;
  const uint64_t edits = 1 + Below(kEditsMax);
  for (uint64_t i = 0; i < edits && usable; ++i) {
    usable = co_await EditOnce(&edit);
  }
  // As a close; after an error, once more: it must not say that all is well.
  if (usable || (edit.ask_again && Below(2) == 0)) {
    (void)co_await Fsync(&edit);
  }
  co_await edit.handle->Finish();
  co_return !edit.file->content.pending();
}

Task<bool> FileWriter::OpenFor(Edit* edit) {
  LedgerDirectory* const directory = owner_->directory;
  const Names& names = directory->names.current();
  const auto found = names.find(edit->name);
  const bool creates = found == names.end();
  if (creates) {
    edit->file = context_->files->NewFile();
    Names next = names;
    next[edit->name] = edit->file;
    directory->names.Begin(std::move(next), now());
  } else {
    edit->file = found->second;
    edit->local = *edit->file->content.current();
  }
  client::OpenOptions options;
  options.write = true;
  options.create = creates;
  options.exclusive = creates && Below(2) == 0;
  const io::TimeNs started = now();
  auto opened =
      co_await client::OpenOnLoop(client_->core(), PathOf(edit->name), options);
  const std::string what = PathOf(edit->name) + ": open for writing";
  if (opened.ok()) {
    edit->handle = *std::move(opened);
    if (creates) co_return Finish(started, opened.status(), what);
    co_return true;
  }
  if (client_->alive()) {
    JudgeError(*context_, started, opened.status(), what);
  }
  co_return false;
}

Task<bool> FileWriter::EditOnce(Edit* edit) {
  switch (Below(8)) {
    case 0:
      co_return co_await Append(edit);
    case 1:
      co_return co_await Truncate(edit);
    case 2:
      co_return co_await Fsync(edit);
    case 3:
      co_return co_await Read(edit);
    default:
      co_return co_await Write(edit);
  }
}

Task<bool> FileWriter::Write(Edit* edit) {
  const uint64_t max = context_->tunables->files.file_bytes;
  const uint64_t size = 1 + Below(Below(2) == 0 ? 600 : max);
  const uint64_t sequential = Below(2) == 0 ? edit->local.size() : Below(max);
  const uint64_t offset = std::min(sequential, max);
  const std::vector<uint8_t> bytes =
      BytesAt(edit->file->id, ++edit->file->steps, offset, size);
  const io::TimeNs started = now();
  const absl::Status written = co_await edit->handle->Pwrite(offset, bytes);
  if (!written.ok()) {
    if (client_->alive()) {
      JudgeError(*context_, started, written, PathOf(edit->name) + ": write");
    }
    co_return false;
  }
  if (edit->local.size() < offset + size) edit->local.resize(offset + size);
  std::ranges::transform(
      bytes, edit->local.begin() + static_cast<std::ptrdiff_t>(offset),
      [](uint8_t byte) { return static_cast<char>(byte); });
  edit->dirty = true;
  co_return true;
}

void FileWriter::BeginPublish(Edit* edit) {
  if (!edit->dirty || *edit->file->content.newest() == edit->local) return;
  edit->file->content.Begin(std::make_shared<const std::string>(edit->local),
                            now());
}

bool FileWriter::EndPublish(Edit* edit, io::TimeNs started,
                            const absl::Status& status,
                            const std::string& what) {
  if (status.ok()) {
    edit->file->content.ReachedLast(now());
    edit->dirty = false;
    ++context_->operations;
    return true;
  }
  if (client_->alive()) {
    JudgeError(*context_, started, status,
               absl::StrCat(PathOf(edit->name), ": ", what));
  }
  return false;
}

Task<bool> FileWriter::Fsync(Edit* edit) {
  BeginPublish(edit);
  const io::TimeNs started = now();
  const absl::Status status = co_await edit->handle->Fsync();
  co_return EndPublish(edit, started, status, "fsync");
}

// Publishes what was written before, and then itself: two steps.
Task<bool> FileWriter::Append(Edit* edit) {
  BeginPublish(edit);
  const uint64_t size = 1 + Below(5000);
  const uint64_t offset = edit->local.size();
  const std::vector<uint8_t> bytes =
      BytesAt(edit->file->id, ++edit->file->steps, offset, size);
  edit->local.append(bytes.begin(), bytes.end());
  edit->dirty = true;
  BeginPublish(edit);
  const io::TimeNs started = now();
  const absl::StatusOr<uint64_t> at = co_await edit->handle->Append(bytes);
  if (at.ok() && *at != offset) {
    context_->judge->Violation(absl::StrCat(
        PathOf(edit->name), ": appended at ", *at, " to a file of ", offset));
  }
  co_return EndPublish(edit, started, at.status(), "append");
}

Task<bool> FileWriter::Truncate(Edit* edit) {
  const uint64_t size = Below(edit->local.size() + edit->local.size() / 4 + 10);
  if (size == edit->local.size()) co_return true;
  BeginPublish(edit);
  edit->local.resize(size);
  edit->dirty = true;
  BeginPublish(edit);
  const io::TimeNs started = now();
  const absl::Status status = co_await edit->handle->Truncate(size);
  // A truncation is no write: it does not stick to the handle.
  edit->ask_again = status.ok();
  co_return EndPublish(edit, started, status, "truncate");
}

// One's own writes are read back; that publishes them.
Task<bool> FileWriter::Read(Edit* edit) {
  const bool dirty = edit->dirty;
  BeginPublish(edit);
  const uint64_t offset = Below(edit->local.size() + 10);
  std::vector<uint8_t> bytes(1 + Below(edit->local.size() + 100), 0xa5);
  const uint64_t asked = bytes.size();
  const io::TimeNs started = now();
  const absl::StatusOr<uint64_t> got =
      co_await edit->handle->Pread(offset, bytes);
  if (!got.ok()) {
    if (!client_->alive()) co_return false;
    if (!context_->files->MayBeFreed(*edit->file, started)) {
      JudgeError(*context_, started, got.status(),
                 PathOf(edit->name) + ": reading it back");
    }
    co_return false;
  }
  bytes.resize(*got);
  const size_t newest = edit->file->content.size() - 1;
  const FileMatch match{edit->file, newest};
  ++context_->loads;
  if (!FileLedger::Agrees(match, offset, bytes, asked)) {
    context_->judge->Violation(
        absl::StrCat(PathOf(edit->name), " reads back wrong at ", offset, ": ",
                     FileLedger::Difference(match, offset, bytes)));
  }
  if (dirty) {
    edit->file->content.ReachedLast(now());
    edit->dirty = false;
  }
  co_return true;
}

}  // namespace cairn::sim
