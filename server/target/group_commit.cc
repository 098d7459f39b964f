#include "server/target/group_commit.h"

#include <iterator>

#include "format/base/fault_points.h"
#include "format/base/status.h"
#include "server/target/limits.h"

namespace cairn::server {
namespace {

uint64_t BytesOf(const std::vector<format::IndexOp>& ops) {
  uint64_t bytes = 0;
  for (const format::IndexOp& op : ops) bytes += format::IndexOpBytes(op);
  return bytes;
}

}  // namespace

io::Task<absl::Status> GroupCommit::Commit(std::vector<format::IndexOp> ops,
                                           std::function<void()> applied) {
  CAIRN_CHECK(!ops.empty() && BytesOf(ops) <= kGroupCommitBytesMax);
  Change change(env_, std::move(ops), std::move(applied));
  waiting_.push_back(&change);
  if (!draining_) {
    draining_ = true;
    gate_.Spawn(Drain());
  }
  co_await change.done.Wait();
  co_return change.status;
}

io::Task<void> GroupCommit::Drain() {
  while (!waiting_.empty()) {
    const std::vector<Change*> batch = TakeBatch();
    CAIRN_SOMETIMES(batch.size() > 1, "target.commit.grouped");
    std::vector<format::IndexOp> ops;
    for (Change* change : batch) {
      std::move(change->ops.begin(), change->ops.end(),
                std::back_inserter(ops));
    }
    if (failed_.ok() && slabs_ != nullptr) {
      failed_ = co_await slabs_->SyncWritten();
    }
    if (failed_.ok()) {
      ++batches_;
      failed_ = co_await index_->Commit(std::move(ops));
    }
    for (Change* change : batch) {
      if (failed_.ok()) change->applied();
      change->status = failed_;
      change->done.Set();
    }
  }
  draining_ = false;
}

std::vector<GroupCommit::Change*> GroupCommit::TakeBatch() {
  std::vector<Change*> batch;
  uint64_t bytes = 0;
  const bool alone = CAIRN_FAULT_POINT("target.commit.batch_of_one");
  while (!waiting_.empty()) {
    bytes += BytesOf(waiting_.front()->ops);
    if (!batch.empty() && (alone || bytes > kGroupCommitBytesMax)) break;
    batch.push_back(waiting_.front());
    waiting_.pop_front();
  }
  return batch;
}

}  // namespace cairn::server
