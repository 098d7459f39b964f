// The faults that only the model can make on purpose.
#include "server/meta/kv/model_kv.h"

#include "gmock/gmock.h"
#include "tests/conformance/kv/kv_subject.h"
#include "tests/support/status_matchers.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;

class ModelKvFaults : public ::testing::Test {
 protected:
  ModelKvFaults() { Open(); }
  ~ModelKvFaults() override { Close(); }

  void Open() {
    kv_ = std::make_unique<ModelKv>(env_.get(), &disk_, Options());
  }
  void Close() {
    EXPECT_OK(Await(env_.get(), kv_->Close()));
    kv_.reset();
  }
  ModelKvOptions Options() {
    ModelKvOptions options;
    options.on_durable = [this](uint64_t sequence) { durable_ = sequence; };
    return options;
  }

  static KvCommit Write(std::string key) {
    KvCommit commit;
    commit.writes.push_back({std::move(key), "v"});
    return commit;
  }
  absl::Status Commit(std::string key) {
    return Await(env_.get(), kv_->Commit(Write(std::move(key)))).status();
  }
  bool Has(std::string key) {
    return Await(env_.get(), kv_->Get(std::move(key)))->has_value();
  }

  std::unique_ptr<io::RealEnv> env_ = NewEnv();
  ModelKvDisk disk_;
  uint64_t durable_ = 0;
  std::unique_ptr<ModelKv> kv_;
};

TEST_F(ModelKvFaults, InjectedConflictWritesNothingAndTheRetryPasses) {
  kv_->InjectFault(2, ModelKvFault::kAbort);
  EXPECT_OK(Commit("a"));
  EXPECT_THAT(Commit("b"), StatusIs(absl::StatusCode::kAborted, "injected"));
  EXPECT_FALSE(Has("b"));
  EXPECT_OK(Commit("b"));
  EXPECT_EQ(durable_, 2u);
}

TEST_F(ModelKvFaults, UnknownOutcomeMayBeEither) {
  kv_->InjectFault(1, ModelKvFault::kUnknownLost);
  kv_->InjectFault(2, ModelKvFault::kUnknownApplied);
  EXPECT_THAT(Commit("lost"), StatusIs(absl::StatusCode::kUnavailable, ""));
  EXPECT_THAT(Commit("kept"), StatusIs(absl::StatusCode::kUnavailable, ""));
  EXPECT_FALSE(Has("lost"));
  EXPECT_TRUE(Has("kept"));
  EXPECT_EQ(disk_.pairs.count("kept"), 1u);
}

struct Outcomes {
  std::vector<absl::Status> commits;
};

io::Task<void> Record(io::Task<absl::StatusOr<uint64_t>> commit,
                      Outcomes* outcomes) {
  outcomes->commits.push_back((co_await std::move(commit)).status());
}

// Three commits in flight when the process dies.
io::Task<void> CrashWithThree(ModelKv* kv, uint64_t keep, io::Gate* gate,
                              Outcomes* outcomes) {
  for (const char* key : {"a", "b", "c"}) {
    KvCommit commit;
    commit.writes.push_back({key, "v"});
    gate->Spawn(Record(kv->Commit(std::move(commit)), outcomes));
  }
  kv->Crash(keep);
  co_await gate->Close();
}

TEST_F(ModelKvFaults, CrashLosesOnlyWhatWasNotAcknowledged) {
  EXPECT_OK(Commit("acknowledged"));
  Outcomes outcomes;
  io::Gate gate(env_.get());
  env_->RunUntilDone(CrashWithThree(kv_.get(), 1, &gate, &outcomes));
  ASSERT_EQ(outcomes.commits.size(), 3u);
  for (const absl::Status& outcome : outcomes.commits) {
    EXPECT_THAT(outcome, StatusIs(absl::StatusCode::kUnavailable, "crashed"));
  }
  EXPECT_THAT(Commit("late"), StatusIs(absl::StatusCode::kUnavailable, ""));
  EXPECT_THAT(Await(env_.get(), kv_->Get("a")),
              StatusIs(absl::StatusCode::kUnavailable, ""));
  Close();
  Open();
  EXPECT_TRUE(Has("acknowledged"));
  EXPECT_TRUE(Has("a"));  // On the disk, although nobody was told.
  EXPECT_FALSE(Has("b"));
  EXPECT_FALSE(Has("c"));
  EXPECT_EQ(kv_->sequence(), 2u);
  EXPECT_OK(Commit("after"));
}

}  // namespace
}  // namespace cairn::server
