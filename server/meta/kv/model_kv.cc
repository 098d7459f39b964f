#include "server/meta/kv/model_kv.h"

#include <algorithm>
#include <utility>

#include "format/base/fault_points.h"
#include "server/meta/kv/kv_rules.h"

namespace cairn::server {
namespace {

absl::Status CrashedError() {
  return absl::UnavailableError("metadata store crashed");
}

void ApplyWrite(std::map<std::string, KvValue>* pairs, const KvWrite& write,
                uint64_t sequence) {
  if (!write.value) {
    pairs->erase(write.key);
    return;
  }
  KvValue& slot = (*pairs)[write.key];
  slot.value = *write.value;
  slot.version = sequence;
}

}  // namespace

ModelKv::ModelKv(io::Executor* executor, ModelKvDisk* disk,
                 ModelKvOptions options)
    : executor_(executor),
      disk_(disk),
      options_(std::move(options)),
      pairs_(disk->pairs),
      sequence_(disk->sequence),
      durable_(executor),
      gate_(executor) {}

ModelKv::~ModelKv() { CAIRN_CHECK(closed_); }

io::Task<absl::StatusOr<std::optional<KvValue>>> ModelKv::Get(std::string key) {
  if (crashed_.cancelled()) co_return CrashedError();
  CAIRN_CO_RETURN_IF_ERROR(CheckKvKey(key));
  if (CAIRN_FAULT_POINT("meta.kv.slow_get")) {
    CAIRN_CO_RETURN_IF_ERROR(co_await Linger());
  }
  std::optional<KvValue> found;
  const auto it = pairs_.find(key);
  if (it != pairs_.end()) found = it->second;
  co_return found;
}

io::Task<absl::StatusOr<std::vector<KvPair>>> ModelKv::Scan(std::string begin,
                                                            std::string end,
                                                            uint32_t limit) {
  if (crashed_.cancelled()) co_return CrashedError();
  if (CAIRN_FAULT_POINT("meta.kv.slow_scan")) {
    CAIRN_CO_RETURN_IF_ERROR(co_await Linger());
  }
  std::vector<KvPair> found;
  for (auto it = pairs_.lower_bound(begin);
       it != pairs_.end() && it->first < end && found.size() < limit; ++it) {
    found.push_back({it->first, it->second.value, it->second.version});
  }
  co_return found;
}

io::Task<absl::Status> ModelKv::Linger() {
  const auto in_flight = gate_.Enter();
  co_await io::SleepFor(executor_, options_.commit_delay_ns, &crashed_);
  if (crashed_.cancelled()) co_return CrashedError();
  co_return absl::OkStatus();
}

bool ModelKv::Holds(const KvCommit& commit) const {
  for (const KvExpect& expect : commit.expect) {
    const auto it = pairs_.find(expect.key);
    const uint64_t version = it == pairs_.end() ? 0 : it->second.version;
    if (version != expect.version) return false;
  }
  return std::ranges::all_of(
      commit.expect_empty, [this](const KvExpectEmpty& range) {
        const auto it = pairs_.lower_bound(range.begin);
        return it == pairs_.end() || it->first >= range.end;
      });
}

io::Task<absl::StatusOr<uint64_t>> ModelKv::Commit(KvCommit commit) {
  CAIRN_CHECK(!closed_);
  const auto in_flight = gate_.Enter();
  const auto fault = faults_.find(++commits_);
  if (crashed_.cancelled()) co_return CrashedError();
  CAIRN_CO_RETURN_IF_ERROR(CheckKvCommit(commit));
  if (!Holds(commit)) {
    co_return absl::AbortedError("an expected key has changed");
  }
  const bool faulty = fault != faults_.end();
  const ModelKvFault kind = faulty ? fault->second : ModelKvFault::kAbort;
  if (faulty && kind == ModelKvFault::kAbort) {
    co_return absl::AbortedError("injected conflict");
  }
  if (faulty && kind == ModelKvFault::kUnknownLost) {
    co_await io::SleepFor(executor_, options_.commit_delay_ns, &crashed_);
    co_return absl::UnavailableError("injected: the outcome is unknown");
  }
  const uint64_t sequence =
      commit.writes.empty() ? sequence_ : Apply(std::move(commit.writes));
  CAIRN_CO_RETURN_IF_ERROR(co_await Durable(sequence));
  if (faulty) {
    co_return absl::UnavailableError("injected: the outcome is unknown");
  }
  co_return sequence;
}

uint64_t ModelKv::Apply(std::vector<KvWrite> writes) {
  ++sequence_;
  for (const KvWrite& write : writes) ApplyWrite(&pairs_, write, sequence_);
  pending_.push_back({sequence_, std::move(writes)});
  StartFlush();
  return sequence_;
}

void ModelKv::StartFlush() {
  if (flushing_) return;
  flushing_ = true;
  gate_.Spawn(Flush());
}

io::Task<void> ModelKv::Flush() {
  while (!pending_.empty()) {
    const size_t group = pending_.size();  // Later ones go with the next.
    co_await io::SleepFor(executor_, options_.commit_delay_ns, &crashed_);
    // Not the sleep's result: its timer may have fired before the crash.
    if (crashed_.cancelled()) break;
    for (size_t i = 0; i < group; ++i) Persist(std::move(pending_[i]));
    pending_.erase(pending_.begin(),
                   pending_.begin() + static_cast<std::ptrdiff_t>(group));
    if (options_.on_durable) options_.on_durable(disk_->sequence);
    durable_.WakeAll();
  }
  flushing_ = false;
}

void ModelKv::Persist(Pending pending) {
  CAIRN_CHECK(pending.sequence > disk_->sequence);
  for (const KvWrite& write : pending.writes) {
    ApplyWrite(&disk_->pairs, write, pending.sequence);
  }
  disk_->sequence = pending.sequence;
}

io::Task<absl::Status> ModelKv::Durable(uint64_t sequence) {
  while (disk_->sequence < sequence) {
    if (crashed_.cancelled()) co_return CrashedError();
    co_await durable_.Wait();
  }
  // Durable, but the process that would say so is gone.
  if (crashed_.cancelled()) co_return CrashedError();
  co_return absl::OkStatus();
}

io::Task<absl::Status> ModelKv::AwaitDurable(uint64_t sequence) {
  CAIRN_CHECK(!closed_);
  const auto in_flight = gate_.Enter();
  if (sequence > sequence_) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("sequence ", sequence, " was never given out"));
  }
  co_return co_await Durable(sequence);
}

io::Task<absl::Status> ModelKv::SkipTo(uint64_t sequence) {
  CAIRN_CHECK(!closed_);
  const auto in_flight = gate_.Enter();
  if (crashed_.cancelled()) co_return CrashedError();
  if (sequence < sequence_) {
    co_return absl::InvalidArgumentError("a sequence never moves back");
  }
  if (sequence > sequence_) {
    sequence_ = sequence;
    pending_.push_back({sequence, {}});
    StartFlush();
  }
  co_return co_await Durable(sequence);
}

io::Task<absl::Status> ModelKv::Close() {
  closed_ = true;
  co_await gate_.Close();
  co_return absl::OkStatus();
}

void ModelKv::InjectFault(uint64_t commit_number, ModelKvFault fault) {
  CAIRN_CHECK(commit_number > commits_);
  faults_[commit_number] = fault;
}

void ModelKv::Crash(uint64_t keep) {
  if (crashed_.cancelled()) return;
  const size_t kept = std::min<size_t>(keep, pending_.size());
  for (size_t i = 0; i < kept; ++i) Persist(std::move(pending_[i]));
  pending_.clear();
  crashed_.Cancel();
  durable_.WakeAll();
}

}  // namespace cairn::server
