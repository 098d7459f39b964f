// Txn: one optimistic transaction on a KvEngine: collects what it read, with
// versions, and what it wants to write, and commits both.
//
//   Txn txn(kv);
//   CAIRN_CO_ASSIGN_OR_RETURN(auto inode, co_await txn.Get<store::Inode>(key));
//   ...
//   txn.Put(key, *inode);
//   ... co_await txn.Commit();
//
// Isolation: reads are of the newest state, not of a snapshot; the commit
//            succeeds only if everything that Get() returned is unchanged. A
//            body that sees something that cannot be returns Conflict(), and
//            its caller runs it again with a new Txn.
// Threads:   one loop. Lifetime: the engine outlives the Txn.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/meta/keys.h"
#include "format/meta/records.h"
#include "server/meta/kv/kv_engine.h"

namespace cairn::server {

// "What was read has changed: run the transaction again." Code kAborted, and
// told apart from other kAborted answers by IsConflict().
absl::Status Conflict();
bool IsConflict(const absl::Status& status);

class Txn {
 public:
  explicit Txn(KvEngine* kv) : kv_(kv) {}
  Txn(const Txn&) = delete;
  Txn& operator=(const Txn&) = delete;

  // Own writes first, then the store. The commit expects what this returned.
  // nullopt: absent. kDataLoss, kFailedPrecondition: DecodeRecord().
  template <typename Record>
  io::Task<absl::StatusOr<std::optional<Record>>> Get(std::string key) {
    const Bytes read = co_await GetBytes(key, true);
    co_return Decode<Record>(key, read);
  }
  // The same without the expectation: for what another expected key guards.
  template <typename Record>
  io::Task<absl::StatusOr<std::optional<Record>>> Peek(std::string key) {
    const Bytes read = co_await GetBytes(key, false);
    co_return Decode<Record>(key, read);
  }
  // Of the store only, and not expected.
  io::Task<absl::StatusOr<std::vector<KvPair>>> Scan(std::string begin,
                                                     std::string end,
                                                     uint32_t limit);

  template <typename Record>
  void Put(const std::string& key, const Record& record) {
    writes_[key] = format::EncodeRecord(key, record);
  }
  // `value` is sealed for `key` already.
  void PutRaw(const std::string& key, std::string value) {
    writes_[key] = std::move(value);
  }
  void Delete(const std::string& key) { writes_[key] = std::nullopt; }
  void Expect(const std::string& key, uint64_t version);
  void ExpectEmpty(format::KeyRange range);

  // Runs after the commit succeeded: for state in memory that mirrors it.
  void OnCommit(std::function<void()> hook) {
    hooks_.push_back(std::move(hook));
  }
  std::vector<std::function<void()>> TakeHooks() { return std::move(hooks_); }

  bool HasWrites() const { return !writes_.empty(); }
  // As the engine counts them against kKvOpsMax.
  uint64_t ops() const {
    return expect_.size() + expect_empty_.size() + writes_.size();
  }
  // One key was read twice and had changed in between.
  bool torn() const { return torn_; }
  // Answers made from what was read may be given once this is durable.
  uint64_t read_sequence() const { return read_sequence_; }

  // What a body that failed with `failure` answers: Conflict() if anything that
  // it read with expectation has changed since, because then it may have put
  // together what never was true at one time; otherwise `failure`.
  io::Task<absl::Status> Confirm(absl::Status failure);

  // The sequence; then the hooks have run. Conflict(): something expected has
  // changed. kUnavailable: the outcome is unknown; the hooks have not run.
  // Call at most once.
  io::Task<absl::StatusOr<uint64_t>> Commit();

 private:
  using Bytes = absl::StatusOr<std::optional<std::string>>;
  io::Task<Bytes> GetBytes(std::string key, bool expect);

  template <typename Record>
  static absl::StatusOr<std::optional<Record>> Decode(const std::string& key,
                                                      const Bytes& read) {
    if (!read.ok()) return read.status();
    if (!read->has_value()) return std::optional<Record>();
    CAIRN_ASSIGN_OR_RETURN(Record record,
                           format::DecodeRecord<Record>(key, **read));
    return std::optional<Record>(std::move(record));
  }

  KvEngine* const kv_;
  std::map<std::string, uint64_t> expect_;
  std::vector<KvExpectEmpty> expect_empty_;
  std::map<std::string, std::optional<std::string>> writes_;
  std::vector<std::function<void()>> hooks_;
  uint64_t read_sequence_ = 0;
  bool torn_ = false;  // One key was read with two versions.
};

}  // namespace cairn::server
