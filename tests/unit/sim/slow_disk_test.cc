// Disks that are slow or hang, through the Env.
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"
#include "tests/support/co_assert.h"

namespace cairn::sim {
namespace {

using ::cairn::testing::StatusIs;

constexpr size_t kSize = 4096;

struct Outcome {
  bool done = false;
  absl::Status status;
  io::TimeNs took = 0;
};

io::Task<void> OpenInto(SimEnv* env, std::unique_ptr<io::File>* file) {
  io::OpenOptions options;
  options.write = true;
  options.create = true;
  auto opened = co_await env->OpenFile("/f", options);
  CO_ASSERT_OK(opened);
  *file = *std::move(opened);
}

io::Task<void> CloseFile(io::File* file) {
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
}

io::Task<void> WriteInto(SimEnv* env, io::File* file, Outcome* outcome) {
  const std::vector<uint8_t> bytes(kSize, 1);
  const io::TimeNs start = env->NowNs();
  outcome->status = co_await file->WriteAt(0, bytes);
  outcome->took = env->NowNs() - start;
  outcome->done = true;
}

io::Task<void> SyncInto(io::File* file, Outcome* outcome) {
  outcome->status = co_await file->Sync();
  outcome->done = true;
}

io::Task<void> StatInto(SimEnv* env, Outcome* outcome) {
  const auto info = co_await env->Stat("/f");
  outcome->status = info.status();
  outcome->done = true;
}

class SlowDiskTest : public ::testing::Test {
 protected:
  explicit SlowDiskTest(uint64_t seed = 1)
      : world_({.seed = seed}),
        node_(world_.AddNode()),
        env_(world_.Start(node_)),
        gate_(&world_) {
    world_.Run(OpenInto(env_, &file_));
  }
  ~SlowDiskTest() override {
    world_.UnhangDisk(node_);
    world_.RunUntilIdle();
    world_.Run(CloseFile(file_.get()));
    file_.reset();
  }
  io::TimeNs TimeOfAWrite() {
    Outcome outcome;
    world_.Run(WriteInto(env_, file_.get(), &outcome));
    EXPECT_OK(outcome.status);
    return outcome.took;
  }
  void Pass(io::TimeNs duration) { world_.RunUntil(world_.NowNs() + duration); }

  World world_;
  const NodeId node_;
  SimEnv* const env_;
  io::Gate gate_;
  std::unique_ptr<io::File> file_;
};

TEST_F(SlowDiskTest, SlowDiskTakesItsFactorUntilThePeriodEnds) {
  const DiskOptions options;
  world_.SlowDisk(node_, 100, io::kSecond);
  EXPECT_GE(TimeOfAWrite(), 100 * options.latency_ns_min);
  EXPECT_GE(TimeOfAWrite(), 100 * options.latency_ns_min);
  EXPECT_EQ(world_.faults().of(FaultKind::kSlowDisk), 1u) << "one period";
  Pass(io::kSecond);
  EXPECT_LE(TimeOfAWrite(), 2 * options.latency_ns_max);
}

TEST_F(SlowDiskTest, LaterSlowPeriodIsNotEndedByAnEarlierOne) {
  const DiskOptions options;
  world_.SlowDisk(node_, 10, io::kSecond);
  world_.SlowDisk(node_, 100, 10 * io::kSecond);
  Pass(2 * io::kSecond);
  EXPECT_GE(TimeOfAWrite(), 100 * options.latency_ns_min);
}

TEST_F(SlowDiskTest, SlowDiskThatNobodyUsesIsNotCounted) {
  world_.SlowDisk(node_, 10, io::kSecond);
  Pass(2 * io::kSecond);
  TimeOfAWrite();
  EXPECT_EQ(world_.faults().of(FaultKind::kSlowDisk), 0u);
}

TEST_F(SlowDiskTest, DrawnSlownessHitsSingleOperations) {
  const DiskOptions options;
  DiskFaultRates rates;
  rates.slow = 4;
  rates.slow_factor = 1000;
  world_.disk(node_)->set_fault_rates(rates);
  uint64_t slow = 0;
  for (int i = 0; i < 100; ++i) {
    slow += TimeOfAWrite() >= 1000 * options.latency_ns_min ? 1u : 0u;
  }
  EXPECT_GT(slow, 10u);
  EXPECT_LT(slow, 50u);
  EXPECT_EQ(world_.faults().of(FaultKind::kSlowDisk), slow);
}

TEST_F(SlowDiskTest, OperationsOnAHungDiskFinishOnlyWhenItGoesOn) {
  Outcome write;
  Outcome sync;
  Outcome stat;
  gate_.Spawn(SyncInto(file_.get(), &sync));  // Under way when it hangs.
  world_.HangDisk(node_);
  gate_.Spawn(WriteInto(env_, file_.get(), &write));
  gate_.Spawn(StatInto(env_, &stat));
  Pass(1000 * io::kSecond);
  EXPECT_FALSE(write.done || sync.done || stat.done);
  EXPECT_EQ((*world_.disk(node_)->Stat("/f"))->size_bytes, 0u)
      << "a device that hangs takes no bytes";
  EXPECT_EQ(world_.faults().of(FaultKind::kHungDisk), 3u);
  world_.UnhangDisk(node_);
  world_.RunUntilIdle();
  EXPECT_TRUE(write.done && sync.done && stat.done);
  EXPECT_OK(write.status);
  EXPECT_OK(sync.status);
  EXPECT_EQ((*world_.disk(node_)->Stat("/f"))->size_bytes, kSize);
}

TEST_F(SlowDiskTest, HangWithADurationEndsByItself) {
  world_.HangDisk(node_, 5 * io::kSecond);
  const io::TimeNs took = TimeOfAWrite();
  EXPECT_GE(took, 5 * io::kSecond - io::kMillisecond);
  EXPECT_LE(took, 6 * io::kSecond);
}

TEST_F(SlowDiskTest, KilledProcessUnwindsFromAHungDisk) {
  Outcome write;
  world_.HangDisk(node_);
  gate_.Spawn(WriteInto(env_, file_.get(), &write));
  Pass(io::kSecond);
  world_.Kill(env_);
  world_.RunUntilIdle();
  EXPECT_THAT(write.status, StatusIs(absl::StatusCode::kUnavailable, "dead"));
  SimEnv* const next = world_.Start(node_);
  Outcome stat;
  gate_.Spawn(StatInto(next, &stat));
  Pass(io::kSecond);
  EXPECT_FALSE(stat.done) << "the disk still hangs";
  world_.UnhangDisk(node_);
  world_.RunUntilIdle();
  EXPECT_OK(stat.status);
}

TEST_F(SlowDiskTest, PowerCycleEndsAHang) {
  Outcome write;
  world_.HangDisk(node_);
  gate_.Spawn(WriteInto(env_, file_.get(), &write));
  Pass(io::kSecond);
  world_.Crash(node_);
  world_.RunUntilIdle();
  EXPECT_THAT(write.status, StatusIs(absl::StatusCode::kUnavailable, "dead"));
  Outcome stat;
  world_.Run(StatInto(world_.Start(node_), &stat));
  EXPECT_OK(stat.status);
}

}  // namespace
}  // namespace cairn::sim
