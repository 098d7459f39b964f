// A whole cluster that empties targets and takes new ones into its rows, under
// load: nothing is missing at any time, whoever dies meanwhile, and what was
// put under an old map is never counted.
#include <algorithm>

#include "client/core/status_report.h"
#include "client/file/open.h"
#include "client/file/open_file.h"
#include "format/cluster/membership.h"
#include "tests/support/co_assert.h"
#include "tests/unit/client/cluster_fixture.h"
#include "tests/unit/client/stripe_problems.h"

namespace cairn::client {
namespace {

using format::TargetChange;
using format::TargetId;
using format::TargetState;

constexpr char kFile[] = "/file";
constexpr char kOtherSet[] = "/ckpt/run1/step-200";
constexpr io::TimeNs kMovedWithin = 600 * io::kSecond;

struct Shape {
  const char* scheme;
  uint32_t targets;  // More than the scheme's shards.
};

std::vector<uint8_t> SomeBytes(uint64_t size, uint64_t seed) {
  sim::Random random(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next());
  return bytes;
}

io::Task<void> WriteParts(OpenFile* file, const std::vector<uint8_t>* bytes,
                          uint64_t from, uint64_t to) {
  const auto part = std::span(*bytes).subspan(from, to - from);
  const absl::Status written = co_await file->Pwrite(from, part);
  CO_ASSERT_OK(written);
}

class DrainTest : public ClusterTest,
                  public ::testing::WithParamInterface<Shape> {
 protected:
  void Make(const Shape& shape, uint64_t seed) {
    sim::ClusterOptions options;
    options.seed = seed;
    options.scheme = shape.scheme;
    options.targets = shape.targets;
    options.meta.orphan_grace_ms = 20'000;
    options.meta.garbage_retry_ms = 2'000;
    MakeCluster(options);
    MakeModel(seed, 3 * format::kMiB);
  }
  void Save() {
    StartSaves(2);
    ExpectAllSaved();
  }
  // In the background, under another name.
  void StartOtherSave() {
    CheckpointWriter::Options options = RankOptions(0, 1);
    options.path = kOtherSet;
    options.set_id = "step-200";
    StartSave(std::move(options));
  }
  server::MetaService* Service() { return cluster_->meta()->service(); }
  bool ServiceRuns() { return cluster_->MetaRuns() && Service() != nullptr; }
  void Change(uint32_t target, TargetChange change) {
    wire::ChangeTargetRequest request;
    request.set_target(target);
    request.set_change(static_cast<uint32_t>(change));
    ASSERT_OK(
        cluster_->Await(Service()->membership().Change(std::move(request))));
  }
  uint64_t RowsOf(uint32_t target) {
    const auto map = Service()->map();
    const auto& slots = map->pools.begin()->second.pg_targets;
    return static_cast<uint64_t>(
        std::count(slots.begin(), slots.end(), TargetId(target)));
  }
  bool IsEmpty(uint32_t target) { return ServiceRuns() && RowsOf(target) == 0; }
  std::string Report() {
    return Service()->rebuild().Report().ShortDebugString();
  }
  void AwaitEmpty(uint32_t target) {
    const io::TimeNs deadline = cluster_->world()->NowNs() + kMovedWithin;
    while (!IsEmpty(target)) {
      ASSERT_LT(cluster_->world()->NowNs(), deadline) << Report();
      cluster_->Sleep(io::kSecond);
    }
  }
  // All are up, and nothing is left to move.
  void AwaitBalanced() {
    const io::TimeNs deadline = cluster_->world()->NowNs() + kMovedWithin;
    cluster_->Sleep(10 * io::kSecond);
    while (true) {
      const wire::RebuildStatus report = Service()->rebuild().Report();
      if (report.shards_moving() + report.balance_left() == 0) return;
      ASSERT_LT(cluster_->world()->NowNs(), deadline) << Report();
      cluster_->Sleep(io::kSecond);
    }
  }
  std::vector<std::string> Problems() {
    sim::SimClient* const reader = cluster_->NewClient("reader");
    return cluster_->Await(ProblemsOfSet(reader->core(), kSetPath, 2));
  }
  // Any one target may be lost.
  void ExpectWhole() {
    EXPECT_THAT(Problems(), ::testing::IsEmpty());
    sim::SimClient* const reader = cluster_->NewClient("reader");
    for (uint32_t target = 1; target <= GetParam().targets; ++target) {
      cluster_->KillTarget(target);
      EXPECT_OK(Load(reader)) << "without target " << target;
      ASSERT_OK(cluster_->Await(cluster_->StartTarget(target)));
    }
  }
};

TEST_P(DrainTest, DrainedTargetHoldsNothingAndAllReadsBack) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed);
    Save();
    const uint32_t target = 1 + static_cast<uint32_t>(seed);
    ASSERT_GT(cluster_->store(target)->stats().chunks, 0u);
    Change(target, TargetChange::kDrain);
    StartOtherSave();
    AwaitEmpty(target);
    ExpectAllSaved();
    cluster_->Sleep(60 * io::kSecond);  // Grace times.
    EXPECT_EQ(cluster_->store(target)->stats().chunks, 0u);
    EXPECT_EQ(RowsOf(target), 0u);
    sim::SimClient* const reader = cluster_->NewClient("reader");
    EXPECT_THAT(cluster_->Await(ProblemsOfSet(reader->core(), kOtherSet, 1)),
                ::testing::IsEmpty());
    ExpectWhole();
    Change(target, TargetChange::kRemove);
  }
}

// Before and while rows move, every target may be lost, the one that is emptied
// as well.
TEST_P(DrainTest, TargetsThatDieMeanwhileCostNothing) {
  for (uint64_t seed = 3; seed <= 4; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed);
    Save();
    sim::SimClient* const reader = cluster_->NewClient("reader");
    Change(3, TargetChange::kDrain);
    for (int i = 0; i < 20 && !IsEmpty(3); ++i) {
      cluster_->Sleep(cluster_->random()->Between(1, 3000) * io::kMillisecond);
      const auto victim = static_cast<uint32_t>(
          cluster_->random()->Between(1, GetParam().targets));
      cluster_->CrashTarget(victim);
      EXPECT_OK(Load(reader)) << "without target " << victim;
      ASSERT_OK(cluster_->Await(cluster_->StartTarget(victim)));
    }
    AwaitEmpty(3);
    ExpectWhole();
  }
}

TEST_P(DrainTest, MetadataThatDiesAllTheTimeFinishesIt) {
  for (uint64_t seed = 5; seed <= 6; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed);
    Save();
    Change(2, TargetChange::kDrain);
    for (int i = 0; i < 15 && !IsEmpty(2); ++i) {
      cluster_->Sleep(cluster_->random()->Between(1, 4000) * io::kMillisecond);
      cluster_->KillMeta();
      ASSERT_OK(cluster_->Await(cluster_->StartMeta()));
    }
    AwaitEmpty(2);
    ExpectWhole();
    EXPECT_TRUE(Service()->map()->pools.begin()->second.closed_pgs.empty());
  }
}

// An empty target that is in service: as one that was just added.
TEST_P(DrainTest, EmptyTargetGetsItsShareWhileSavesGoOn) {
  Make(GetParam(), 7);
  Save();
  const uint64_t share = RowsOf(4);
  Change(4, TargetChange::kDrain);
  AwaitEmpty(4);
  cluster_->Sleep(60 * io::kSecond);
  ASSERT_EQ(cluster_->store(4)->stats().chunks, 0u);
  Change(4, TargetChange::kUndrain);
  StartOtherSave();
  bool whole = true;
  for (int i = 0; i < 10; ++i) {
    cluster_->Sleep(io::kSecond);
    whole = whole && Problems().empty();
  }
  EXPECT_TRUE(whole);
  AwaitBalanced();
  ExpectAllSaved();
  EXPECT_GE(RowsOf(4) + 1, share);
  EXPECT_GT(cluster_->store(4)->stats().chunks, 0u);
  EXPECT_TRUE(Service()->map()->pools.begin()->second.closed_pgs.empty());
  sim::SimClient* const reader = cluster_->NewClient("reader");
  EXPECT_THAT(cluster_->Await(ProblemsOfSet(reader->core(), kOtherSet, 1)),
              ::testing::IsEmpty());
  ExpectWhole();
}

struct Late {
  Core* core;
  const std::vector<uint8_t>* bytes;
  std::unique_ptr<OpenFile> file;
};

io::Task<bool> Begin(Late* late) {
  OpenOptions options;
  options.write = true;
  options.create = true;
  auto file = co_await OpenOnLoop(late->core, kFile, options);
  if (!file.ok()) co_return false;
  late->file = *std::move(file);
  co_await WriteParts(late->file.get(), late->bytes, 0,
                      late->bytes->size() / 2);
  co_return true;
}

io::Task<bool> End(Late* late) {
  co_await WriteParts(late->file.get(), late->bytes, late->bytes->size() / 2,
                      late->bytes->size());
  const absl::Status synced = co_await late->file->Fsync();
  co_await late->file->Finish();
  co_return synced.ok();
}

io::Task<bool> HasContent(Core* core, const std::vector<uint8_t>* bytes) {
  OpenOptions options;
  auto file = co_await OpenOnLoop(core, kFile, options);
  if (!file.ok()) co_return false;
  std::vector<uint8_t> found(bytes->size() + 1);
  const absl::StatusOr<uint64_t> read = co_await (*file)->Pread(0, found);
  co_await (*file)->Finish();
  if (!read.ok()) co_return false;
  found.resize(*read);
  co_return found == *bytes;
}

// The writer has the map of before all that, and puts more under it.
TEST_P(DrainTest, WhatWasPutUnderTheMapBeforeHasAllItsChunksOnceCommitted) {
  for (uint64_t seed = 8; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed);
    const std::vector<uint8_t> bytes = SomeBytes(6 * format::kMiB, seed);
    Late late{cluster_->NewClient("writer")->core(), &bytes, nullptr};
    ASSERT_TRUE(cluster_->Await(Begin(&late)));
    Change(2, TargetChange::kDrain);
    // Some rows have moved, one is moving.
    const uint64_t rows = RowsOf(2);
    for (int i = 0; i < 600 && RowsOf(2) > rows - seed % 3 * rows / 2; ++i) {
      cluster_->Sleep(100 * io::kMillisecond);
    }
    ASSERT_TRUE(cluster_->Await(End(&late)));
    AwaitEmpty(2);
    sim::SimClient* const reader = cluster_->NewClient("reader");
    EXPECT_TRUE(cluster_->Await(HasContent(reader->core(), &bytes)));
    EXPECT_THAT(cluster_->Await(ProblemsOf(reader->core(), kFile)),
                ::testing::IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, DrainTest,
                         ::testing::Values(Shape{"rs:2+1", 5},
                                           Shape{"replicate:2", 4}),
                         [](const auto& param) {
                           std::string name = param.param.scheme;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

TEST_F(ClusterTest, StatusTellsWhyATargetCannotBeEmptied) {
  sim::ClusterOptions options;
  options.scheme = "rs:2+1";
  options.targets = 3;
  MakeCluster(options);
  wire::ChangeTargetRequest request;
  request.set_target(2);
  request.set_change(static_cast<uint32_t>(TargetChange::kDrain));
  server::MetaService* const service = cluster_->meta()->service();
  ASSERT_OK(cluster_->Await(service->membership().Change(std::move(request))));
  cluster_->Sleep(10 * io::kSecond);
  sim::SimClient* const client = cluster_->NewClient("operator");
  const auto status =
      cluster_->Await(ReportStatus(client->core(), client->core()->Deadline()));
  ASSERT_OK(status);
  EXPECT_GT(status->rebuild.drain_left, 0u);
  ASSERT_EQ(status->rebuild.problems.size(), 1u);
  EXPECT_THAT(status->rebuild.problems[0], HasSubstr("add one"));
}

}  // namespace
}  // namespace cairn::client
