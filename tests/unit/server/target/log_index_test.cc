#include "server/target/log_index.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/target/group_commit.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/target/store_harness.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;
using format::IndexOp;

constexpr char kDir[] = "/index";
constexpr char kLog[] = "/index/log";

class LogIndexTest : public ::testing::Test {
 protected:
  LogIndexTest() : node_(world_.AddNode()), env_(world_.Start(node_)) {
    index_ = *Await(&world_, LogIndex::Create(env_, kDir));
    // Whoever makes the directory makes its name durable: here, the test.
    CAIRN_CHECK(Await(&world_, env_->SyncDirectory("/")).ok());
  }
  ~LogIndexTest() override { Close(); }

  void Close() {
    if (index_) {
      EXPECT_OK(Await(&world_, index_->Close()));
    }
    index_.reset();
  }
  absl::Status Reopen() {
    Close();
    auto opened = Await(&world_, LogIndex::Open(env_, kDir));
    if (opened.ok()) index_ = *std::move(opened);
    return opened.status();
  }
  absl::Status Put(std::string key, std::string value) {
    std::vector<IndexOp> ops = {{IndexOp::Kind::kPut, key, value}};
    return Await(&world_, index_->Commit(std::move(ops)));
  }
  std::string Get(std::string key) {
    auto value = Await(&world_, index_->Get(key));
    CAIRN_CHECK(value.ok());
    return value->value_or("(none)");
  }
  uint64_t LogBytes() {
    auto info = Await(&world_, env_->Stat(kLog));
    return (*info)->size_bytes;
  }

  sim::World world_{sim::WorldOptions()};
  sim::NodeId node_;
  sim::SimEnv* env_;
  std::unique_ptr<ChunkIndex> index_;
};

TEST_F(LogIndexTest, CommitSurvivesPowerLoss) {
  ASSERT_OK(Put("a", "1"));
  sim::CrashOptions drop_all;
  drop_all.unflushed = sim::Unflushed::kDropAll;
  world_.Crash(node_, drop_all);
  Close();
  env_ = world_.Start(node_);
  ASSERT_OK(Reopen());
  EXPECT_EQ(Get("a"), "1");
}

// The process sees it in the cache, where the failed flush left it.
TEST_F(LogIndexTest,
       FrameThatAnOpenFoundSurvivesPowerLossThoughItsFlushFailed) {
  ASSERT_OK(Put("a", "1"));
  sim::DiskFault fault;
  fault.op = sim::DiskOp::kDurable;
  world_.disk(node_)->Fail(fault);
  EXPECT_THAT(Put("b", "2"), StatusIs(absl::StatusCode::kDataLoss, "EIO"));
  world_.Kill(env_);
  Close();
  env_ = world_.Start(node_);
  ASSERT_OK(Reopen());
  EXPECT_EQ(Get("b"), "2");
  ASSERT_OK(Put("c", "3"));
  sim::CrashOptions drop_all;
  drop_all.unflushed = sim::Unflushed::kDropAll;
  world_.Crash(node_, drop_all);
  Close();
  env_ = world_.Start(node_);
  ASSERT_OK(Reopen());
  EXPECT_EQ(Get("b"), "2");
  EXPECT_EQ(Get("c"), "3");
}

TEST_F(LogIndexTest, TornTailIsDropped) {
  ASSERT_OK(Put("a", "1"));
  ASSERT_OK(Put("b", "2"));
  ASSERT_OK(world_.disk(node_)->CorruptFile(kLog, 4096 + 33));
  ASSERT_OK(Reopen());
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("b"), "(none)");
  EXPECT_EQ(LogBytes(), 4096u);
  ASSERT_OK(Put("c", "3"));
  ASSERT_OK(Reopen());
  EXPECT_EQ(Get("c"), "3");
}

TEST_F(LogIndexTest, DamageBeforeTheEndIsDataLoss) {
  for (const char* key : {"a", "b", "c"}) ASSERT_OK(Put(key, key));
  ASSERT_OK(world_.disk(node_)->CorruptFile(kLog, 4096 + 33));
  EXPECT_THAT(Reopen(), StatusIs(absl::StatusCode::kDataLoss, "byte 4096"));
}

TEST_F(LogIndexTest, MissingFrameIsDataLoss) {
  for (const char* key : {"a", "b", "c"}) ASSERT_OK(Put(key, key));
  for (uint64_t at : {0u, 8u, 16u, 32u}) {  // Wipe what tells a frame.
    ASSERT_OK(world_.disk(node_)->CorruptFile(kLog, at, 0xff));
  }
  EXPECT_THAT(Reopen(), StatusIs(absl::StatusCode::kDataLoss, "byte 0"));
}

TEST_F(LogIndexTest, MissingFileIsDataLossAndNotEmpty) {
  Close();
  ASSERT_OK(Await(&world_, env_->Remove(kLog)));
  EXPECT_THAT(Reopen(), StatusIs(absl::StatusCode::kDataLoss, "missing"));
}

TEST_F(LogIndexTest, LogOfMostlyDeadEntriesIsRewritten) {
  const std::string value(4000, 'v');
  for (int i = 0; i < 1200; ++i) ASSERT_OK(Put("same", value));
  ASSERT_OK(Put("other", "x"));
  EXPECT_LT(LogBytes(), 4u << 20);
  ASSERT_OK(Reopen());
  EXPECT_EQ(Get("same"), value);
  EXPECT_EQ(Get("other"), "x");
}

io::Task<void> CommitInto(GroupCommit* commits, std::string key,
                          std::vector<std::string>* applied,
                          absl::Status* status) {
  std::vector<IndexOp> ops;
  ops.push_back({IndexOp::Kind::kPut, key, key});
  std::function<void()> note = [applied, key] { applied->push_back(key); };
  *status = co_await commits->Commit(std::move(ops), std::move(note));
}

TEST_F(LogIndexTest, ChangesThatComeDuringACommitShareTheNext) {
  GroupCommit commits(env_, index_.get());
  io::Gate gate(env_);
  std::vector<std::string> applied;
  std::vector<absl::Status> statuses(20, absl::UnknownError("not yet"));
  for (size_t i = 0; i < statuses.size(); ++i) {
    gate.Spawn(CommitInto(&commits, std::string(1, static_cast<char>('a' + i)),
                          &applied, &statuses[i]));
  }
  world_.Run(gate.Close());
  for (const absl::Status& status : statuses) EXPECT_OK(status);
  EXPECT_EQ(commits.batches(), 2u);
  EXPECT_TRUE(std::is_sorted(applied.begin(), applied.end()));
  EXPECT_EQ(applied.size(), statuses.size());
  world_.Run(commits.Close());
}

TEST_F(LogIndexTest, FailedCommitFailsAllLaterOnesWithItsCause) {
  GroupCommit commits(env_, index_.get());
  io::Gate gate(env_);
  sim::DiskFault fault;
  fault.status = absl::DataLossError("first cause");
  world_.disk(node_)->Fail(fault);
  std::vector<std::string> applied;
  std::vector<absl::Status> statuses(3);
  for (size_t i = 0; i < statuses.size(); ++i) {
    gate.Spawn(CommitInto(&commits, "k", &applied, &statuses[i]));
  }
  world_.Run(gate.Close());
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, "first cause"));
  }
  EXPECT_TRUE(applied.empty());
  EXPECT_EQ(commits.batches(), 1u);
  world_.Run(commits.Close());
}

}  // namespace
}  // namespace cairn::server
