// Writing while targets are dead, silent, flapping or replaced in their rows:
// it finishes in time, and what is new has all its chunks on targets that live.
#include <algorithm>

#include "client/blob/blob_writer.h"
#include "client/checkpoint/sets.h"
#include "client/core/status_report.h"
#include "client/file/extents.h"
#include "client/file/open.h"
#include "client/file/open_file.h"
#include "client/names/resolve.h"
#include "client/verify/stripe_check.h"
#include "tests/support/co_assert.h"
#include "tests/unit/client/cluster_fixture.h"
#include "tests/unit/client/stripe_problems.h"

namespace cairn::client {
namespace {

using format::TargetId;
using format::TargetState;

constexpr char kFile[] = "/file";

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

io::Task<absl::StatusOr<std::unique_ptr<OpenFile>>> CreateFile(Core* core) {
  OpenOptions options;
  options.write = true;
  options.create = true;
  co_return co_await OpenOnLoop(core, kFile, options);
}

class DegradedWriteTest : public ClusterTest {
 protected:
  void Make(const Shape& shape, uint64_t seed, uint64_t timeout_ms = 60'000) {
    sim::ClusterOptions options;
    options.seed = seed;
    options.scheme = shape.scheme;
    options.targets = shape.targets;
    options.client_timeout_ms = timeout_ms;
    options.meta.rebuild.balance = false;  // Rows are as the tests say.
    MakeCluster(options);
    MakeModel(seed, 4 * format::kMiB);
  }
  TargetState StateOf(uint32_t target) {
    return cluster_->meta()
        ->service()
        ->map()
        ->FindTarget(TargetId(target))
        ->state;
  }
  void SleepUntil(uint32_t target, TargetState state) {
    for (int i = 0; i < 600 && StateOf(target) != state; ++i) {
      cluster_->Sleep(100 * io::kMillisecond);
    }
    ASSERT_EQ(StateOf(target), state);
  }
  std::vector<std::string> ProblemsOfSet(sim::SimClient* client,
                                         uint32_t ranks) {
    return cluster_->Await(
        client::ProblemsOfSet(client->core(), kSetPath, ranks));
  }
  uint64_t StripesMoved() {
    uint64_t moved = 0;
    for (const Rank& rank : ranks_) {
      moved += rank.client->core()->counters()->stripes_moved;
    }
    return moved;
  }
  // The next map, as a rebuild makes it: one row in `one_in` has another target
  // in its first place, which has none of the old chunks.
  format::ClusterMap MapWithOtherTargets(uint32_t one_in) {
    format::ClusterMap next = *cluster_->meta()->service()->map();
    next.epoch = format::Epoch(next.epoch.value + 1);
    format::Pool& pool = next.pools.begin()->second;
    for (uint32_t pg = 0; pg < pool.pg_count; pg += one_in) {
      const std::span<const TargetId> row = pool.PgTargets(pg);
      for (const auto& [id, target] : next.targets) {
        if (std::find(row.begin(), row.end(), id) != row.end()) continue;
        pool.pg_targets[pg * pool.scheme.shards()] = id;
        break;
      }
    }
    return next;
  }
  void ChangeAllRows() {
    ASSERT_OK(cluster_->Await(
        cluster_->meta()->service()->ReplaceMap(MapWithOtherTargets(1))));
  }
  uint32_t RanksCommitted() {
    sim::SimClient* const client = cluster_->NewClient("observer");
    const auto sets = cluster_->Await(
        FetchSets(client->core(), "/ckpt", true, client->core()->Deadline()));
    EXPECT_OK(sets);
    return sets.ok() && !sets->empty() ? sets->front().committed_ranks : 0;
  }
};

class DegradedWriteShapesTest : public DegradedWriteTest,
                                public ::testing::WithParamInterface<Shape> {};

TEST_P(DegradedWriteShapesTest, SaveWhileATargetIsDeadHasAllItsChunks) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed);
    const uint32_t dead = 1 + static_cast<uint32_t>(seed) % GetParam().targets;
    cluster_->KillTarget(dead);
    StartSaves(2);
    ExpectAllSaved();
    sim::SimClient* const reader = cluster_->NewClient("reader");
    EXPECT_THAT(ProblemsOfSet(reader, 2), ::testing::IsEmpty());
    // None of it needs the dead one: any other may be lost, too.
    for (uint32_t other = 1; other <= GetParam().targets; ++other) {
      if (other == dead) continue;
      cluster_->KillTarget(other);
      EXPECT_OK(Load(reader));
      ASSERT_OK(cluster_->Await(cluster_->StartTarget(other)));
    }
  }
}

// Without a word, in the middle of the save, and it never comes back.
TEST_P(DegradedWriteShapesTest, SaveFinishesThoughATargetLosesPowerUnderIt) {
  uint64_t moved = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed);
    StartSaves(2);
    cluster_->Sleep(seed * 5 * io::kMillisecond);
    sim::CrashOptions silent;
    silent.half_open = true;
    cluster_->CrashTarget(1 + static_cast<uint32_t>(seed) % GetParam().targets,
                          silent);
    ExpectAllSaved();
    moved += StripesMoved();
    EXPECT_OK(Load(cluster_->NewClient("reader"), 2));
  }
  EXPECT_GT(moved, 0u);
}

TEST_P(DegradedWriteShapesTest, SaveIsNotHeldUpByATargetThatIsDownAlready) {
  Make(GetParam(), 1);
  cluster_->KillTarget(2);
  SleepUntil(2, TargetState::kDown);
  const io::TimeNs started = cluster_->world()->NowNs();
  StartSaves(2);
  ExpectAllSaved();
  EXPECT_LT(cluster_->world()->NowNs() - started, 3 * io::kSecond);
  EXPECT_EQ(StripesMoved(), 0u);
}

TEST_P(DegradedWriteShapesTest, SaveFinishesWhileATargetFlaps) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed);
    MakeModel(seed, 12 * format::kMiB);
    StartSaves(3);
    for (int i = 0; i < 10; ++i) {
      cluster_->KillTarget(1);
      cluster_->Sleep(cluster_->random()->Between(1, 4000) * io::kMillisecond);
      ASSERT_OK(cluster_->Await(cluster_->StartTarget(1)));
      cluster_->Sleep(cluster_->random()->Between(1, 100) * io::kMillisecond);
    }
    ExpectAllSaved();
    sim::SimClient* const reader = cluster_->NewClient("reader");
    EXPECT_OK(Load(reader, 2));
    EXPECT_THAT(ProblemsOfSet(reader, 3), ::testing::IsEmpty());
  }
}

// A rebuild that switches rows under a save: nothing that was put in an old row
// is counted.
TEST_P(DegradedWriteShapesTest, RowsThatChangeUnderASaveAreWrittenAgain) {
  uint64_t moved = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(GetParam(), seed);
    StartSaves(2);
    cluster_->Sleep(seed * 8 * io::kMillisecond);
    ChangeAllRows();
    // Who had committed by then has a chunk of each stripe in an old row.
    const bool committed = RanksCommitted() > 0;
    ExpectAllSaved();
    moved += StripesMoved();
    if (committed) continue;
    sim::SimClient* const reader = cluster_->NewClient("reader");
    EXPECT_THAT(ProblemsOfSet(reader, 2), ::testing::IsEmpty());
    EXPECT_OK(Load(reader, 2));
  }
  EXPECT_GT(moved, 0u);
}

INSTANTIATE_TEST_SUITE_P(Schemes, DegradedWriteShapesTest,
                         ::testing::Values(Shape{"rs:2+1", 5},
                                           Shape{"replicate:2", 3}),
                         [](const auto& param) {
                           std::string name = param.param.scheme;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

io::Task<void> WriteAndSync(Core* core, const std::vector<uint8_t>* bytes) {
  auto file = co_await CreateFile(core);
  CO_ASSERT_OK(file);
  for (uint64_t done = 0; done < bytes->size(); done += 50'000) {
    const auto part = std::span(*bytes).subspan(
        done, std::min<uint64_t>(50'000, bytes->size() - done));
    const absl::Status written = co_await (*file)->Pwrite(done, part);
    CO_ASSERT_OK(written);
  }
  const absl::Status synced = co_await (*file)->Fsync();
  co_await (*file)->Finish();
  CO_ASSERT_OK(synced);
}

io::Task<void> ExpectContent(Core* core, const std::vector<uint8_t>* bytes) {
  OpenOptions options;
  auto file = co_await OpenOnLoop(core, kFile, options);
  CO_ASSERT_OK(file);
  std::vector<uint8_t> found(bytes->size() + 1);
  const absl::StatusOr<uint64_t> read = co_await (*file)->Pread(0, found);
  co_await (*file)->Finish();
  CO_ASSERT_OK(read);
  found.resize(*read);
  EXPECT_TRUE(found == *bytes);
}

io::Task<bool> Done(io::Task<void> task) {
  co_await std::move(task);
  co_return true;
}

TEST_F(DegradedWriteTest, FileWrittenWhileATargetIsDeadHasAllItsChunks) {
  Make({"rs:2+1", 4}, 1);
  cluster_->KillTarget(3);
  const std::vector<uint8_t> bytes = SomeBytes(3 * format::kMiB, 7);
  sim::SimClient* const client = cluster_->NewClient("writer");
  cluster_->Await(Done(WriteAndSync(client->core(), &bytes)));
  cluster_->Await(Done(ExpectContent(client->core(), &bytes)));
  EXPECT_THAT(cluster_->Await(ProblemsOf(client->core(), kFile)),
              ::testing::IsEmpty());
}

// Written under one map, committed under the next.
struct Interrupted {
  Core* core;
  const std::vector<uint8_t>* bytes;
  sim::SimCluster* cluster;
  format::ClusterMap next;
};

io::Task<void> WriteAcrossAChange(Interrupted* work) {
  auto file = co_await CreateFile(work->core);
  CO_ASSERT_OK(file);
  // Whole stripes are durable when this returns, and not committed.
  const absl::Status written = co_await (*file)->Pwrite(0, *work->bytes);
  CO_ASSERT_OK(written);
  format::ClusterMap next = work->next;
  const absl::Status replaced =
      co_await work->cluster->meta()->service()->ReplaceMap(std::move(next));
  CO_ASSERT_OK(replaced);
  const absl::Status synced = co_await (*file)->Fsync();
  co_await (*file)->Finish();
  CO_ASSERT_OK(synced);
}

TEST_F(DegradedWriteTest, CommitUnderAChangedRowIsWrittenAgainAndTaken) {
  for (const char* scheme : {"rs:2+1", "replicate:2"}) {
    SCOPED_TRACE(scheme);
    Make({scheme, 5}, 1);
    const std::vector<uint8_t> bytes = SomeBytes(2 * format::kMiB, 3);
    sim::SimClient* const client = cluster_->NewClient("writer");
    // Every other row: the stripes of the rest stay where they are.
    const format::ClusterMap next = MapWithOtherTargets(2);
    const format::Pool& pool = next.pools.begin()->second;
    Interrupted work{client->core(), &bytes, cluster_.get(), next};
    cluster_->Await(Done(WriteAcrossAChange(&work)));
    const uint64_t stripes = bytes.size() / pool.stripe_bytes();
    const uint64_t moved = client->core()->counters()->stripes_moved;
    EXPECT_GT(moved, 0u);
    EXPECT_LT(moved, stripes);
    sim::SimClient* const reader = cluster_->NewClient("reader");
    EXPECT_THAT(cluster_->Await(ProblemsOf(reader->core(), kFile)),
                ::testing::IsEmpty());
    cluster_->Await(Done(ExpectContent(reader->core(), &bytes)));
  }
}

// What a later write covered must not come back when the stripe below it is
// written again.
TEST_F(DegradedWriteTest, LaterWritesStayOnTopWhenStripesMove) {
  Make({"replicate:2", 4}, 2);
  sim::SimClient* const client = cluster_->NewClient("writer");
  BlobWriter writer(client->core(), format::PoolId(1),
                    format::TrafficClass::kInteractive, nullptr);
  const std::vector<uint8_t> low = SomeBytes(writer.stripe_bytes(), 1);
  const std::vector<uint8_t> high = SomeBytes(10'000, 2);
  const io::TimeNs deadline = client->core()->Deadline();
  ConstGather first(1, std::span<const uint8_t>(low));
  ASSERT_OK(cluster_->Await(writer.Start(first, 0, {}, deadline)));
  ConstGather second(1, std::span<const uint8_t>(high));
  ASSERT_OK(cluster_->Await(writer.Start(second, 40'000, {}, deadline)));
  ASSERT_OK(cluster_->Await(writer.Settle(deadline)));
  EXPECT_EQ(writer.epoch(), format::Epoch(1));
  const std::vector<format::Extent> before = writer.extents();
  ASSERT_EQ(before.size(), 3u);
  ChangeAllRows();
  cluster_->Sleep(io::kSecond);
  ASSERT_OK(cluster_->Await(client->core()->RefreshMap(deadline)));
  ASSERT_OK(cluster_->Await(writer.Settle(deadline)));
  EXPECT_EQ(writer.epoch(), format::Epoch(2));
  const std::vector<format::Extent> after = writer.extents();
  ASSERT_EQ(after.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(after[i].file_offset, before[i].file_offset);
    EXPECT_EQ(after[i].length, before[i].length);
    EXPECT_GT(after[i].blob_offset, before[1].blob_offset);
  }
  ASSERT_OK(cluster_->Await(writer.Drain()));
}

TEST_F(DegradedWriteTest, WithoutASpareTargetTheErrorNamesTheOneThatIsDown) {
  Make({"rs:2+1", 3}, 1, 25'000);
  cluster_->KillTarget(2);
  StartSaves(1);
  AwaitSaves();
  EXPECT_THAT(*ranks_[0].saved,
              StatusIs(absl::StatusCode::kDeadlineExceeded, "target 2 ("));
  EXPECT_THAT(std::string(ranks_[0].saved->message()), HasSubstr(") is down"));
}

// Full redundancy does not need the map's blessing: all chunks are there.
TEST_F(DegradedWriteTest, WithoutASpareTargetASaveGoesOnWhenItIsBack) {
  Make({"rs:2+1", 3}, 1);
  StartSaves(1);
  cluster_->Sleep(10 * io::kMillisecond);
  cluster_->KillTarget(2);
  cluster_->Sleep(15 * io::kSecond);
  ASSERT_EQ(StateOf(2), TargetState::kDown);
  ASSERT_OK(cluster_->Await(cluster_->StartTarget(2)));
  const io::TimeNs back = cluster_->world()->NowNs();
  ExpectAllSaved();
  EXPECT_LT(cluster_->world()->NowNs() - back, 3 * io::kSecond);
  EXPECT_THAT(ProblemsOfSet(cluster_->NewClient("reader"), 1),
              ::testing::IsEmpty());
}

// It hears the metadata service, but is not heard: no round trip, so it is
// down, though it would go on sending for ever.
TEST_F(DegradedWriteTest, TargetThatIsNotHeardIsDownThoughItHears) {
  Make({"replicate:2", 3}, 1);
  sim::Network* const network = cluster_->world()->network();
  network->Cut(cluster_->TargetNode(2), cluster_->meta_node());
  SleepUntil(2, TargetState::kDown);
  network->Heal(cluster_->TargetNode(2), cluster_->meta_node());
  SleepUntil(2, TargetState::kUp);
  network->Cut(cluster_->meta_node(), cluster_->TargetNode(3));
  SleepUntil(3, TargetState::kDown);
  EXPECT_EQ(StateOf(1), TargetState::kUp);
}

// A client that cannot reach one target, which everybody else can: it goes
// around it, and the target stays up.
TEST_F(DegradedWriteTest, ClientThatCannotReachATargetGoesAroundIt) {
  Make({"rs:2+1", 5}, 1);
  StartSaves(1);
  cluster_->world()->network()->Partition(ranks_[0].client->env()->node(),
                                          cluster_->TargetNode(4));
  ExpectAllSaved();
  EXPECT_EQ(StateOf(4), TargetState::kUp);
  sim::SimClient* const reader = cluster_->NewClient("reader");
  EXPECT_THAT(ProblemsOfSet(reader, 1), ::testing::IsEmpty());
}

TEST_F(DegradedWriteTest, StatusNamesTheTargetThatIsDownAndSinceWhen) {
  Make({"replicate:2", 3}, 1);
  sim::SimClient* const client = cluster_->NewClient("operator");
  cluster_->Sleep(30 * io::kSecond);
  auto status =
      cluster_->Await(ReportStatus(client->core(), client->core()->Deadline()));
  ASSERT_OK(status);
  EXPECT_TRUE(status->healthy);
  EXPECT_GE(status->targets[1].in_state_ms, 25'000u);
  cluster_->KillTarget(2);
  SleepUntil(2, TargetState::kDown);
  status =
      cluster_->Await(ReportStatus(client->core(), client->core()->Deadline()));
  ASSERT_OK(status);
  EXPECT_FALSE(status->healthy);
  EXPECT_EQ(status->brake, "");
  EXPECT_EQ(status->targets[1].state, "down");
  EXPECT_THAT(status->targets[1].problem, HasSubstr("no answer for 1"));
  EXPECT_LT(status->targets[1].in_state_ms, 2'000u);
  EXPECT_EQ(status->targets[0].state, "up");
  EXPECT_EQ(status->targets[0].problem, "");
}

// Reads ask a target that is down last: no time is lost on it.
TEST_F(DegradedWriteTest, LoadDoesNotWaitForATargetThatIsDown) {
  Make({"rs:2+1", 4}, 1);
  StartSaves(2);
  ExpectAllSaved();
  sim::CrashOptions silent;
  silent.half_open = true;
  cluster_->CrashTarget(2, silent);
  SleepUntil(2, TargetState::kDown);
  sim::SimClient* const reader = cluster_->NewClient("reader");
  const io::TimeNs started = cluster_->world()->NowNs();
  EXPECT_OK(Load(reader, 2));
  EXPECT_LT(cluster_->world()->NowNs() - started, 2 * io::kSecond);
}

}  // namespace
}  // namespace cairn::client
