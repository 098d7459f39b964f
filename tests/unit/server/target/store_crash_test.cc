// A machine or its process dies at every event in turn: what was acknowledged
// is there, verified; nothing else is visible but whole chunks that were being
// put; and space is exactly what the visible chunks take.
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/target/local_store.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/target/store_harness.h"

namespace cairn::server {
namespace {

using format::kKiB;

constexpr uint64_t kDeletedBlob = 2;

enum class Death { kPower, kKill };

// What the outside knows happened before the death.
struct Acked {
  std::set<format::ChunkId> put;
  bool deleted = false;
  uint64_t meta_sequence = 0;
};

io::Task<void> PutOne(ChunkStore* store, const TestChunk* chunk,
                      uint64_t sequence, Acked* acked) {
  const absl::Status status = co_await PutChunk(store, chunk, sequence);
  if (!status.ok()) co_return;
  acked->put.insert(chunk->id);
  acked->meta_sequence = std::max(acked->meta_sequence, sequence);
}

// Puts four chunks at a time, then deletes a blob while it puts the last.
io::Task<void> Workload(io::Env* env, ChunkStore* store,
                        const std::vector<TestChunk>* chunks, Acked* acked) {
  io::Gate gate(env);
  for (size_t i = 0; i + 1 < chunks->size(); ++i) {
    gate.Spawn(PutOne(store, &(*chunks)[i], 10 + i, acked));
    if (i % 4 == 3) co_await gate.Close();
  }
  co_await gate.Close();
  gate.Spawn(PutOne(store, &chunks->back(), 50, acked));
  std::vector<format::BlobId> blobs = {
      format::BlobId::Make(format::PoolId(1), kDeletedBlob)};
  const auto deleted = co_await store->DeleteBlobs(std::move(blobs), 60);
  if (deleted.ok()) {
    acked->deleted = true;
    acked->meta_sequence = 60;
  }
  co_await gate.Close();
}

class StoreCrash : public ::testing::TestWithParam<Death> {
 protected:
  StoreCrash() {
    const uint64_t sizes[] = {4096,      70000, 1,         200 * kKiB,
                              64 * kKiB, 5000,  300 * kKiB};
    for (uint32_t i = 0; i < 7; ++i) {
      chunks_.emplace_back(MakeChunkId(1 + i % 3, i), sizes[i]);
    }
  }

  // Runs the workload for `events` events, then kills. False: it had ended.
  bool RunAndDie(SimTarget* target, uint64_t events, Acked* acked) {
    io::Gate gate(&target->world);
    gate.Spawn(Workload(target->env, target->store.get(), &chunks_, acked));
    for (uint64_t i = 0; i < events && gate.in_flight() > 0; ++i) {
      CAIRN_CHECK(target->world.Step());
    }
    const bool died_within = gate.in_flight() > 0;
    Die(target);
    target->world.Run(gate.Close());
    (void)target->Close();
    target->env = target->world.Start(target->node);
    return died_within;
  }

  void Die(SimTarget* target) {
    if (GetParam() == Death::kPower) {
      target->world.Crash(target->node);
    } else {
      target->world.Kill(target->env);
    }
  }

  const TestChunk* Known(format::ChunkId id) const {
    for (const TestChunk& chunk : chunks_) {
      if (chunk.id == id) return &chunk;
    }
    return nullptr;
  }

  void ExpectExactlyWhatWasPromised(SimTarget* target, const Acked& acked) {
    const format::PgId pg{format::PoolId(1), kPg};
    const auto list = Await(&target->world, target->store->List(pg, "", 1000));
    ASSERT_OK(list);
    uint64_t used = 0;
    std::set<format::ChunkId> visible;
    for (const ListedChunk& listed : list->chunks) {
      const TestChunk* const chunk = Known(listed.chunk);
      ASSERT_NE(chunk, nullptr);
      const auto read = target->Read(*chunk);
      ASSERT_OK(read);
      EXPECT_TRUE(*read == format::AsText(chunk->bytes()));
      used += chunk->allocated_bytes();
      visible.insert(listed.chunk);
    }
    for (const format::ChunkId id : acked.put) {
      // Whether a delete that was not acknowledged happened is not known.
      if (id.blob.sequence() == kDeletedBlob) continue;
      EXPECT_TRUE(visible.contains(id)) << ToString(id);
    }
    if (acked.deleted) {
      for (const format::ChunkId id : visible) {
        EXPECT_NE(id.blob.sequence(), kDeletedBlob);
      }
    }
    EXPECT_EQ(target->store->stats().used_bytes, used);
    EXPECT_EQ(target->store->stats().failed, "");
    EXPECT_GE(target->store->stats().meta_sequence, acked.meta_sequence);
  }

  std::vector<TestChunk> chunks_;
};

TEST_P(StoreCrash, AckedChunksSurviveDeathAtEveryEvent) {
  bool died_within = true;
  uint64_t cut = 0;
  for (; died_within; ++cut) {
    SCOPED_TRACE(absl::StrCat("died after event ", cut));
    sim::WorldOptions options;
    options.seed = 100 + cut;
    SimTarget target(options);
    ASSERT_OK(target.Format());
    ASSERT_OK(target.Open());
    Acked acked;
    died_within = RunAndDie(&target, cut, &acked);
    ASSERT_OK(target.Open());
    ExpectExactlyWhatWasPromised(&target, acked);
    // Every put can be repeated, and what is full of holes still works.
    for (const TestChunk& chunk : chunks_) ASSERT_OK(target.Put(chunk, 60));
    if (HasFailure()) return;
  }
  EXPECT_GT(cut, 30u) << "the workload is too short to prove anything";
}

// Opens until the event `events`, then dies. False: it was open before.
bool OpenAndDie(SimTarget* target, uint64_t events, Death death) {
  std::optional<absl::StatusOr<std::unique_ptr<ChunkStore>>> opened;
  io::Gate gate(&target->world);
  gate.Spawn(KeepResult(
      ChunkStore::Open(target->env, SimTarget::kDir, TestIdentity()), &opened));
  for (uint64_t i = 0; i < events && !opened; ++i) {
    CAIRN_CHECK(target->world.Step());
  }
  const bool died_within = !opened;
  if (death == Death::kPower) {
    target->world.Crash(target->node);
  } else {
    target->world.Kill(target->env);
  }
  target->world.Run(gate.Close());
  if (opened->ok()) (void)Await(&target->world, (**opened)->Close());
  target->env = target->world.Start(target->node);
  return died_within;
}

TEST_P(StoreCrash, RecoveryThatDiesAgainAndAgainLosesNothing) {
  SimTarget target;
  ASSERT_OK(target.Format());
  ASSERT_OK(target.Open());
  Acked acked;
  (void)RunAndDie(&target, 60, &acked);
  ASSERT_OK(target.disk()->CorruptFile("/t/superblock", 50));
  bool died_within = true;
  for (uint64_t cut = 0; died_within; ++cut) {
    SCOPED_TRACE(absl::StrCat("died after event ", cut, " of opening"));
    died_within = OpenAndDie(&target, cut, GetParam());
    ASSERT_OK(target.Open());
    ExpectExactlyWhatWasPromised(&target, acked);
    ASSERT_OK(target.Close());
    ASSERT_OK(target.disk()->CorruptFile("/t/superblock", 50));
    if (HasFailure()) return;
  }
}

TEST_P(StoreCrash, FormatThatDiesAtEveryEventIsNeverHalfATarget) {
  bool died_within = true;
  for (uint64_t cut = 0; died_within; ++cut) {
    SCOPED_TRACE(absl::StrCat("died after event ", cut));
    sim::WorldOptions options;
    options.seed = 200 + cut;
    SimTarget target(options);
    std::optional<absl::Status> formatted;
    io::Gate gate(&target.world);
    gate.Spawn(KeepResult(FormatTarget(target.env, SimTarget::kDir,
                                       TestFormat(format::IndexKind::kLog)),
                          &formatted));
    for (uint64_t i = 0; i < cut && !formatted; ++i) {
      CAIRN_CHECK(target.world.Step());
    }
    died_within = !formatted;
    Die(&target);
    target.world.Run(gate.Close());
    target.env = target.world.Start(target.node);
    const absl::Status opened = target.Open();
    if (died_within) {
      EXPECT_TRUE(opened.ok() || absl::IsNotFound(opened)) << opened;
    } else {
      EXPECT_OK(opened);
    }
    if (opened.ok()) {
      EXPECT_OK(target.Put(chunks_[0]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfPowerAndOfProcess, StoreCrash,
                         ::testing::Values(Death::kPower, Death::kKill),
                         [](const auto& info) {
                           return info.param == Death::kPower ? "PowerLoss"
                                                              : "Kill";
                         });

}  // namespace
}  // namespace cairn::server
