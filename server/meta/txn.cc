#include "server/meta/txn.h"

#include <algorithm>

namespace cairn::server {
namespace {
constexpr char kConflictPayload[] = "cairn/conflict";
}  // namespace

absl::Status Conflict() {
  absl::Status status =
      absl::AbortedError("metadata changed while it was being read");
  status.SetPayload(kConflictPayload, absl::Cord());
  return status;
}

bool IsConflict(const absl::Status& status) {
  return absl::IsAborted(status) &&
         status.GetPayload(kConflictPayload).has_value();
}

io::Task<Txn::Bytes> Txn::GetBytes(std::string key, bool expect) {
  const auto own = writes_.find(key);
  if (own != writes_.end()) {
    if (!own->second.has_value()) co_return std::optional<std::string>();
    co_return own->second;
  }
  absl::StatusOr<std::optional<KvValue>> read = co_await kv_->Get(key);
  if (!read.ok()) co_return read.status();
  const uint64_t version = read->has_value() ? (*read)->version : 0;
  // Absence may be the work of a delete that is newer than all we saw.
  read_sequence_ =
      std::max(read_sequence_, version != 0 ? version : kv_->sequence());
  if (expect) Expect(key, version);
  if (!read->has_value()) co_return std::optional<std::string>();
  co_return std::optional<std::string>(std::move((*read)->value));
}

io::Task<absl::StatusOr<std::vector<KvPair>>> Txn::Scan(std::string begin,
                                                        std::string end,
                                                        uint32_t limit) {
  absl::StatusOr<std::vector<KvPair>> pairs =
      co_await kv_->Scan(std::move(begin), std::move(end), limit);
  read_sequence_ = std::max(read_sequence_, kv_->sequence());
  co_return pairs;
}

void Txn::Expect(const std::string& key, uint64_t version) {
  const auto [place, added] = expect_.emplace(key, version);
  if (!added && place->second != version) torn_ = true;
}

void Txn::ExpectEmpty(format::KeyRange range) {
  expect_empty_.push_back({std::move(range.begin), std::move(range.end)});
}

io::Task<absl::Status> Txn::Confirm(absl::Status failure) {
  if (absl::IsUnavailable(failure) || IsConflict(failure)) co_return failure;
  if (torn_) co_return Conflict();
  // If nothing has changed when it is read again, all of it was true at once:
  // when the first reading ended.
  for (const auto& [key, version] : expect_) {
    absl::StatusOr<std::optional<KvValue>> read = co_await kv_->Get(key);
    if (!read.ok()) co_return read.status();
    if ((read->has_value() ? (*read)->version : 0) != version) {
      co_return Conflict();
    }
  }
  co_return failure;
}

io::Task<absl::StatusOr<uint64_t>> Txn::Commit() {
  if (torn_) co_return Conflict();
  KvCommit commit;
  for (auto& [key, version] : expect_) commit.expect.push_back({key, version});
  commit.expect_empty = std::move(expect_empty_);
  for (auto& [key, value] : writes_) {
    commit.writes.push_back({key, std::move(value)});
  }
  absl::StatusOr<uint64_t> sequence = co_await kv_->Commit(std::move(commit));
  if (absl::IsAborted(sequence.status())) co_return Conflict();
  if (!sequence.ok()) co_return sequence;
  for (const std::function<void()>& hook : TakeHooks()) hook();
  co_return sequence;
}

}  // namespace cairn::server
