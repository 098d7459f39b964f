// What a chunk store does when its disk is not well: damage is found and
// named, never passed on, and nothing else suffers.
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/target/local_store.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/target/store_harness.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;
using format::kKiB;
using format::kMiB;
using ::testing::HasSubstr;

constexpr char kSlab[] = "/t/slab-000000";

// Two chunks of 256 KiB: `first_` lies at 0, `second_` behind it.
class StoreDamage : public ::testing::Test {
 protected:
  StoreDamage()
      : first_(MakeChunkId(1), 256 * kKiB),
        second_(MakeChunkId(2), 256 * kKiB) {
    CAIRN_CHECK(target_.Format().ok());
    CAIRN_CHECK(target_.Open().ok());
    CAIRN_CHECK(target_.Put(first_).ok());
    CAIRN_CHECK(target_.Put(second_).ok());
  }
  absl::Status Reopen() {
    CAIRN_RETURN_IF_ERROR(target_.Close());
    return target_.Open();
  }
  void ExpectOnlyFirstIsLost() {
    EXPECT_THAT(target_.Read(first_),
                StatusIs(absl::StatusCode::kDataLoss, "chunk 1:1/0/0"));
    const auto read = target_.Read(second_);
    ASSERT_OK(read);
    EXPECT_TRUE(*read == format::AsText(second_.bytes()));
  }

  SimTarget target_;
  const TestChunk first_;
  const TestChunk second_;
};

TEST_F(StoreDamage, FlippedBitIsDataLossOfThatChunkOnly) {
  for (const uint64_t at : {0u, 65536u + 77u, 256u * 1024u - 1u}) {
    SCOPED_TRACE(at);
    ASSERT_OK(target_.disk()->CorruptFile(kSlab, at, 0x10));
    ExpectOnlyFirstIsLost();
    ASSERT_OK(target_.disk()->CorruptFile(kSlab, at, 0x10));  // And back.
    EXPECT_OK(target_.Read(first_));
  }
  EXPECT_EQ(target_.store->stats().corrupt_blocks, 3u);
}

TEST_F(StoreDamage, MessageNamesTargetBlockAndPlace) {
  ASSERT_OK(target_.disk()->CorruptFile(kSlab, 2 * 65536 + 5));
  const absl::Status status = target_.Read(first_).status();
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(HasSubstr("target 3"), HasSubstr("block 2"),
                               HasSubstr("131072"), HasSubstr(kSlab)));
}

TEST_F(StoreDamage, RangeBesideTheDamageIsStillServed) {
  ASSERT_OK(target_.disk()->CorruptFile(kSlab, 2 * 65536 + 5));
  EXPECT_OK(
      Await(&target_.world, target_.store->Read(kPg, first_.id, 0, 2 * 65536)));
  EXPECT_OK(Await(&target_.world,
                  target_.store->Read(kPg, first_.id, 3 * 65536, 10)));
  EXPECT_THAT(
      Await(&target_.world, target_.store->Read(kPg, first_.id, 2 * 65536, 1)),
      StatusIs(absl::StatusCode::kDataLoss, "block 2"));
}

TEST_F(StoreDamage, ZeroedBlockIsDataLossAndNeverZeros) {
  target_.Rewrite(kSlab, 65536, std::string(65536, '\0'));
  ExpectOnlyFirstIsLost();
}

TEST_F(StoreDamage, BlocksSwappedBetweenChunksAreDataLossOfBoth) {
  const std::string block_of_first(format::AsText(first_.bytes()), 0, 65536);
  const std::string block_of_second(format::AsText(second_.bytes()), 0, 65536);
  target_.Rewrite(kSlab, 0, block_of_second);
  target_.Rewrite(kSlab, 256 * kKiB, block_of_first);
  EXPECT_THAT(target_.Read(first_),
              StatusIs(absl::StatusCode::kDataLoss, "chunk 1:1/0/0"));
  EXPECT_THAT(target_.Read(second_),
              StatusIs(absl::StatusCode::kDataLoss, "chunk 1:2/0/0"));
}

TEST_F(StoreDamage, BlocksSwappedWithinAChunkAreDataLoss) {
  const std::string_view bytes = format::AsText(first_.bytes());
  target_.Rewrite(kSlab, 0, std::string(bytes.substr(65536, 65536)));
  target_.Rewrite(kSlab, 65536, std::string(bytes.substr(0, 65536)));
  ExpectOnlyFirstIsLost();
}

TEST_F(StoreDamage, OneBadReadIsMaskedByLookingAgain) {
  sim::DiskFault fault;
  fault.op = sim::DiskOp::kRead;
  target_.disk()->Fail(fault);
  const auto read = target_.Read(first_);
  ASSERT_OK(read);
  EXPECT_TRUE(*read == format::AsText(first_.bytes()));
  EXPECT_EQ(target_.store->stats().corrupt_blocks, 0u);
}

TEST_F(StoreDamage, SectorThatStaysUnreadableIsDataLossAndCounted) {
  sim::DiskFault fault;
  fault.op = sim::DiskOp::kRead;
  fault.times = 2;
  target_.disk()->Fail(fault);
  EXPECT_THAT(target_.Read(first_),
              StatusIs(absl::StatusCode::kDataLoss, "chunk 1:1/0/0"));
  EXPECT_EQ(target_.store->stats().corrupt_blocks, 1u);
  EXPECT_OK(target_.Read(first_));
}

TEST_F(StoreDamage, TruncatedSlabLosesWhatWasCutOffAndTakesNothingNew) {
  ASSERT_OK(target_.Close());
  target_.Truncate(kSlab, 256 * kKiB);
  ASSERT_OK(target_.Open());
  const auto read = target_.Read(first_);
  ASSERT_OK(read);
  EXPECT_TRUE(*read == format::AsText(first_.bytes()));
  EXPECT_THAT(target_.Read(second_),
              StatusIs(absl::StatusCode::kDataLoss, "chunk 1:2/0/0"));
  EXPECT_THAT(target_.Put(TestChunk(MakeChunkId(3), 10)),
              StatusIs(absl::StatusCode::kUnavailable, "slab-000000"));
  EXPECT_THAT(target_.store->stats().failed, HasSubstr("slab-000000"));
}

TEST_F(StoreDamage, MissingSlabIsDataLossOfItsChunks) {
  ASSERT_OK(target_.Close());
  ASSERT_OK(Await(&target_.world, target_.env->Remove(kSlab)));
  ASSERT_OK(target_.Open());
  EXPECT_THAT(target_.Read(first_),
              StatusIs(absl::StatusCode::kDataLoss, "missing"));
  EXPECT_THAT(target_.Delete(1),
              StatusIs(absl::StatusCode::kUnavailable, "slab-000000"));
}

TEST_F(StoreDamage, DamagedCopiesOfTheSuperblockAreRepairedWhileOneIsWhole) {
  for (uint32_t damaged = 1; damaged <= 3; ++damaged) {
    SCOPED_TRACE(damaged);
    ASSERT_OK(target_.Close());
    for (uint32_t copy = 0; copy < damaged; ++copy) {
      ASSERT_OK(target_.disk()->CorruptFile("/t/superblock",
                                            copy * 4096 + 40 + copy));
    }
    ASSERT_OK(target_.Open());
    EXPECT_OK(target_.Read(first_));
  }
  // All four are whole again: any three may go.
  ASSERT_OK(target_.Close());
  for (uint32_t copy = 1; copy < 4; ++copy) {
    ASSERT_OK(target_.disk()->CorruptFile("/t/superblock", copy * 4096));
  }
  ASSERT_OK(target_.Open());
}

TEST_F(StoreDamage, SuperblockWithoutAWholeCopyIsDataLoss) {
  ASSERT_OK(target_.Close());
  for (uint32_t copy = 0; copy < 4; ++copy) {
    ASSERT_OK(target_.disk()->CorruptFile("/t/superblock", copy * 4096 + 4095));
  }
  EXPECT_THAT(target_.Open(),
              StatusIs(absl::StatusCode::kDataLoss, "/t/superblock"));
  EXPECT_THAT(Await(&target_.world, ReadTargetIdentity(target_.env, "/t")),
              StatusIs(absl::StatusCode::kDataLoss, "superblock"));
}

TEST_F(StoreDamage, DamagedIndexIsDataLossAndNotAnEmptyTarget) {
  ASSERT_OK(target_.Close());
  ASSERT_OK(target_.disk()->CorruptFile("/t/index/log", 4096 + 60));
  EXPECT_THAT(target_.Open(), StatusIs(absl::StatusCode::kDataLoss, "index"));
}

TEST_F(StoreDamage, EmptiedIndexIsDataLossAndNotAnEmptyTarget) {
  ASSERT_OK(target_.Close());
  target_.Truncate("/t/index/log", 0);
  EXPECT_THAT(target_.Open(),
              StatusIs(absl::StatusCode::kDataLoss, "not empty but damaged"));
}

TEST_F(StoreDamage, TwoRecordsOfOnePlaceAreDataLoss) {
  ASSERT_OK(target_.Close());
  // A second record, whole by itself, that claims the place of `first_`.
  const TestChunk third(MakeChunkId(3), 256 * kKiB);
  format::ChunkKey key;
  key.pg = {format::PoolId(1), kPg};
  key.chunk = third.id;
  format::StoredChunk stored;
  stored.place = {0, 0, 256 * kKiB};
  stored.chunk_bytes = 256 * kKiB;
  stored.decoded_bytes = stored.chunk_bytes;
  stored.block_checksums = third.record.block_checksums;
  std::vector<format::IndexOp> ops;
  ops.push_back({format::IndexOp::Kind::kPut, format::EncodeChunkKey(key),
                 format::EncodeStoredChunk(key, stored)});
  auto index =
      Await(&target_.world,
            OpenIndex(target_.env, format::IndexKind::kLog, "/t/index"));
  ASSERT_OK(index);
  ASSERT_OK(Await(&target_.world, (*index)->Commit(std::move(ops))));
  ASSERT_OK(Await(&target_.world, (*index)->Close()));
  EXPECT_THAT(target_.Open(),
              StatusIs(absl::StatusCode::kDataLoss, "two records"));
}

io::Task<void> PutInto(ChunkStore* store, const TestChunk* chunk,
                       absl::Status* status) {
  *status = co_await PutChunk(store, chunk);
}

TEST_F(StoreDamage, FailedWriteFailsAllPutsInFlightAndLaterWithItsCause) {
  sim::DiskFault fault;
  fault.nth = 2;
  fault.status = absl::DataLossError("EIO of the slab");
  fault.path_contains = "slab";
  target_.disk()->Fail(fault);
  std::vector<TestChunk> chunks;
  for (uint32_t stripe = 0; stripe < 4; ++stripe) {
    chunks.emplace_back(MakeChunkId(9, stripe), 64 * kKiB);
  }
  io::Gate gate(&target_.world);
  std::vector<absl::Status> statuses(chunks.size());
  for (size_t i = 0; i < chunks.size(); ++i) {
    gate.Spawn(PutInto(target_.store.get(), &chunks[i], &statuses[i]));
  }
  target_.world.Run(gate.Close());
  int failed = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    // Those that were whole before the failure may have been acknowledged.
    if (statuses[i].ok()) continue;
    ++failed;
    EXPECT_THAT(statuses[i],
                StatusIs(absl::StatusCode::kUnavailable, "EIO of the slab"));
  }
  EXPECT_GE(failed, 1);
  EXPECT_THAT(target_.Put(TestChunk(MakeChunkId(10), 10)),
              StatusIs(absl::StatusCode::kUnavailable, "EIO of the slab"));
  EXPECT_THAT(target_.Delete(1),
              StatusIs(absl::StatusCode::kUnavailable, "EIO of the slab"));
  EXPECT_OK(target_.Read(first_));
  ASSERT_OK(Reopen());
  EXPECT_EQ(target_.store->stats().failed, "");
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (statuses[i].ok()) {
      EXPECT_OK(target_.Read(chunks[i]));
    }
  }
}

TEST_F(StoreDamage, FailedCommitOfTheIndexLatches) {
  sim::DiskFault fault;
  fault.status = absl::DataLossError("EIO of the index");
  fault.path_contains = "index";
  target_.disk()->Fail(fault);
  const TestChunk third(MakeChunkId(3), 10);
  EXPECT_THAT(target_.Put(third),
              StatusIs(absl::StatusCode::kUnavailable, "EIO of the index"));
  EXPECT_THAT(target_.Put(third),
              StatusIs(absl::StatusCode::kUnavailable, "EIO of the index"));
  EXPECT_THAT(target_.Read(third), StatusIs(absl::StatusCode::kNotFound, ""));
  EXPECT_OK(target_.Read(first_));
}

TEST_F(StoreDamage, FullFileSystemRefusesPutsAndReadsOn) {
  // Room for one more slab only, beside what is kept for the index.
  target_.disk()->set_capacity_bytes(target_.disk()->used_bytes() + 5 * kMiB);
  ASSERT_OK(target_.Put(TestChunk(MakeChunkId(3), 4 * kMiB)));
  const TestChunk fourth(MakeChunkId(4), 4 * kMiB);
  EXPECT_THAT(target_.Put(fourth),
              StatusIs(absl::StatusCode::kResourceExhausted, "file system"));
  EXPECT_EQ(target_.store->stats().failed, "");
  EXPECT_OK(target_.Read(first_));
  EXPECT_OK(target_.Put(TestChunk(MakeChunkId(5), 64 * kKiB)));
  ASSERT_OK(target_.Delete(3));
  EXPECT_OK(target_.Put(fourth));
}

// The next process sees the slab in the cache, where the failed flush left it.
TEST(StoreAfterAFailedFlush, SlabThatAnOpenFoundSurvivesPowerLoss) {
  SimTarget target;
  ASSERT_OK(target.Format());
  ASSERT_OK(target.Open());
  sim::DiskFault fault;
  fault.op = sim::DiskOp::kSync;
  fault.path_contains = "slab-";
  target.disk()->Fail(fault);
  const TestChunk chunk(MakeChunkId(1), 5000);
  EXPECT_THAT(target.Put(chunk),
              StatusIs(absl::StatusCode::kUnavailable, "EIO"));
  target.world.Kill(target.env);
  (void)target.Close();
  target.env = target.world.Start(target.node);
  ASSERT_OK(target.Open());
  ASSERT_OK(target.Put(chunk));
  sim::CrashOptions drop_all;
  drop_all.unflushed = sim::Unflushed::kDropAll;
  target.world.Crash(target.node, drop_all);
  (void)target.Close();
  target.env = target.world.Start(target.node);
  ASSERT_OK(target.Open());
  const absl::StatusOr<std::string> read = target.Read(chunk);
  ASSERT_OK(read);
  EXPECT_TRUE(*read == format::AsText(chunk.bytes()));
}

TEST(StoreOnAHangingDisk, StatusSaysSoWhileTheProcessAnswers) {
  sim::WorldOptions options;
  options.disk.latency_ns_min = options.disk.latency_ns_max = 40 * io::kSecond;
  options.disk.sync_ns_max = 40 * io::kSecond;
  SimTarget target(options);
  ASSERT_OK(target.Format());
  ASSERT_OK(target.Open());
  ASSERT_OK(target.Put(TestChunk(MakeChunkId(1), 100)));
  EXPECT_EQ(target.store->stats().failed, "");
  const TestChunk second(MakeChunkId(2), 100);
  io::Gate gate(&target.world);
  absl::Status status;
  gate.Spawn(PutInto(target.store.get(), &second, &status));
  target.world.RunUntil(target.world.NowNs() + 35 * io::kSecond);
  EXPECT_THAT(target.store->stats().failed, HasSubstr("hangs since 35 s"));
  target.world.Run(gate.Close());
  EXPECT_OK(status);
  EXPECT_EQ(target.store->stats().failed, "");
}

}  // namespace
}  // namespace cairn::server
