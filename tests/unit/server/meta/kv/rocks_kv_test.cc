// What RocksKv does beside the conformance suite: refusals, a failing disk and
// a full one.
#include "server/meta/kv/rocks_kv.h"

#include <signal.h>
#include <sys/resource.h>

#include "gmock/gmock.h"
#include "tests/conformance/kv/kv_subject.h"
#include "tests/support/status_matchers.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;

KvCommit Write(std::string key, std::optional<std::string> value) {
  KvCommit commit;
  commit.writes.push_back({std::move(key), std::move(value)});
  return commit;
}

class RocksKvTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<RocksKv>> Open(RocksKvOptions options) {
    return Await(env_.get(),
                 RocksKv::Open(env_.get(), dir_ / "kv", std::move(options)));
  }
  std::unique_ptr<RocksKv> Create(RocksKvOptions options = {}) {
    options.create = true;
    auto kv = Open(std::move(options));
    EXPECT_OK(kv);
    return *std::move(kv);
  }
  absl::Status Commit(RocksKv* kv, KvCommit commit) {
    return Await(env_.get(), kv->Commit(std::move(commit))).status();
  }
  void Close(std::unique_ptr<RocksKv> kv) {
    EXPECT_OK(Await(env_.get(), kv->Close()));
  }

  const TempDir dir_;
  std::unique_ptr<io::RealEnv> env_ = NewEnv();
};

TEST_F(RocksKvTest, MissingStoreIsNotMadeByTheWay) {
  EXPECT_THAT(Open({}), StatusIs(absl::StatusCode::kNotFound, "no metadata"));
  EXPECT_THAT(Open({}), StatusIs(absl::StatusCode::kNotFound, "no metadata"));
}

TEST_F(RocksKvTest, StoreOfAnotherClusterIsRefused) {
  Close(Create());
  RocksKvOptions other;
  other.cluster.bytes[0] = 1;
  EXPECT_THAT(Open(other), StatusIs(absl::StatusCode::kFailedPrecondition,
                                    "belongs to cluster"));
  other.create = true;
  EXPECT_THAT(Open(other), StatusIs(absl::StatusCode::kFailedPrecondition,
                                    "belongs to cluster"));
}

TEST_F(RocksKvTest, SecondOpenOfAStoreInUseIsRefused) {
  std::unique_ptr<RocksKv> kv = Create();
  EXPECT_THAT(Open({}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 "in use by another process"));
  Close(std::move(kv));
  Close(Create());
}

TEST_F(RocksKvTest, DurableSequencesAreReportedInOrder) {
  std::vector<uint64_t> reported;
  RocksKvOptions options;
  options.on_durable = [&reported](uint64_t sequence) {
    reported.push_back(sequence);
  };
  std::unique_ptr<RocksKv> kv = Create(std::move(options));
  std::vector<io::Task<absl::StatusOr<uint64_t>>> tasks;
  for (int i = 0; i < 100; ++i) {
    tasks.push_back(kv->Commit(Write(absl::StrCat(i), "v")));
  }
  AwaitAll(env_.get(), std::move(tasks));
  ASSERT_FALSE(reported.empty());
  EXPECT_TRUE(std::ranges::is_sorted(reported));
  EXPECT_EQ(reported.back(), 100u);
  EXPECT_LT(reported.size(), 50u);  // Grouped, not one by one.
  Close(std::move(kv));
}

TEST_F(RocksKvTest, BelowTheReserveOnlyWhatDeletesIsTaken) {
  std::unique_ptr<RocksKv> kv = Create();
  ASSERT_OK(Commit(kv.get(), Write("a", "1")));
  ASSERT_OK(Commit(kv.get(), Write("b", "1")));
  Close(std::move(kv));
  const auto space = Await(env_.get(), env_->Space(dir_.path()));
  ASSERT_OK(space);

  RocksKvOptions low;  // The disk has less than this, but more than half.
  low.reserve_bytes = space->free_bytes + space->free_bytes / 2;
  kv = Create(low);
  EXPECT_THAT(Commit(kv.get(), Write("c", "1")),
              StatusIs(absl::StatusCode::kResourceExhausted, "bytes free"));
  KvCommit move = Write("a", std::nullopt);
  move.writes.push_back({"trash", "a"});
  EXPECT_OK(Commit(kv.get(), move));
  EXPECT_OK(Await(env_.get(), kv->SkipTo(50)));
  Close(std::move(kv));

  RocksKvOptions lower;
  lower.reserve_bytes = space->free_bytes * 3;
  kv = Create(lower);
  move.writes[0].key = "b";
  EXPECT_THAT(Commit(kv.get(), move),
              StatusIs(absl::StatusCode::kResourceExhausted, ""));
  EXPECT_OK(Commit(kv.get(), Write("b", std::nullopt)));
  EXPECT_OK(Commit(kv.get(), KvCommit{}));
  Close(std::move(kv));
}

// Lets no file of this process grow past `bytes`, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) {
    old_handler_ = signal(SIGXFSZ, SIG_IGN);
    CAIRN_CHECK(getrlimit(RLIMIT_FSIZE, &old_) == 0);
    rlimit now = old_;
    now.rlim_cur = bytes;
    CAIRN_CHECK(setrlimit(RLIMIT_FSIZE, &now) == 0);
  }
  ~FileSizeLimit() {
    CAIRN_CHECK(setrlimit(RLIMIT_FSIZE, &old_) == 0);
    signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

TEST_F(RocksKvTest, FailedWriteStopsTheStoreAndLosesNothingAcknowledged) {
  std::unique_ptr<RocksKv> kv = Create();
  ASSERT_OK(Commit(kv.get(), Write("kept", "1")));
  std::vector<absl::StatusOr<uint64_t>> results;
  {
    const FileSizeLimit full(4096);
    std::vector<io::Task<absl::StatusOr<uint64_t>>> tasks;
    for (int i = 0; i < 20; ++i) {
      tasks.push_back(
          kv->Commit(Write(absl::StrCat("k", i), std::string(9000, 'v'))));
    }
    results = AwaitAll(env_.get(), std::move(tasks));
  }
  for (const auto& result : results) {
    EXPECT_THAT(result,
                StatusIs(absl::StatusCode::kUnavailable, "stays stopped"));
  }
  // The limit is gone, but what the disk has is unknown: no way but reopening.
  EXPECT_THAT(Commit(kv.get(), Write("late", "1")),
              StatusIs(absl::StatusCode::kUnavailable, "stays stopped"));
  EXPECT_THAT(Await(env_.get(), kv->Get("kept")),
              StatusIs(absl::StatusCode::kUnavailable, "stays stopped"));
  EXPECT_THAT(Await(env_.get(), kv->Scan("a", "z", 1)),
              StatusIs(absl::StatusCode::kUnavailable, "stays stopped"));
  EXPECT_THAT(Await(env_.get(), kv->AwaitDurable(kv->sequence())),
              StatusIs(absl::StatusCode::kUnavailable, "stays stopped"));
  EXPECT_OK(Await(env_.get(), kv->AwaitDurable(1)));
  (void)Await(env_.get(), kv->Close());

  kv = Create();
  EXPECT_TRUE(Await(env_.get(), kv->Get("kept"))->has_value());
  EXPECT_OK(Commit(kv.get(), Write("after", "1")));
  Close(std::move(kv));
}

}  // namespace
}  // namespace cairn::server
