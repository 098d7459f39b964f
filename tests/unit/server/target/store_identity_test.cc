// Which directories are made targets, and which are opened as one.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/target/chunk_store.h"
#include "server/target/superblock_file.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/target/store_harness.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;

TEST(FormatTarget, IdentityReadsBack) {
  SimTarget target;
  ASSERT_OK(target.Format());
  const auto identity =
      Await(&target.world, ReadTargetIdentity(target.env, "/t"));
  ASSERT_OK(identity);
  EXPECT_EQ(identity->cluster_id, TestIdentity().cluster_id);
  EXPECT_EQ(identity->target_id, TestIdentity().target_id);
  EXPECT_EQ(identity->disk_generation, TestIdentity().disk_generation);
}

TEST(FormatTarget, FormattedTargetIsNotFormattedAgain) {
  SimTarget target;
  ASSERT_OK(target.Format());
  ASSERT_OK(target.Open());
  const TestChunk chunk(MakeChunkId(1), 1000);
  ASSERT_OK(target.Put(chunk));
  ASSERT_OK(target.Close());
  EXPECT_THAT(target.Format(),
              StatusIs(absl::StatusCode::kAlreadyExists, "target already"));
  ASSERT_OK(target.Open());
  EXPECT_OK(target.Read(chunk));
}

TEST(FormatTarget, DirectoryWithOtherFilesIsLeftAlone) {
  SimTarget target;
  ASSERT_OK(Await(&target.world, target.env->MakeDirectory("/t")));
  ASSERT_OK(Await(&target.world, target.env->MakeDirectory("/t/thesis")));
  EXPECT_THAT(target.Format(),
              StatusIs(absl::StatusCode::kAlreadyExists, "thesis"));
  const auto names = Await(&target.world, target.env->ListDirectory("/t"));
  ASSERT_OK(names);
  EXPECT_THAT(*names, ::testing::ElementsAre("thesis"));
}

TEST(FormatTarget, OptionsThatCannotBeTouchNothing) {
  SimTarget target;
  FormatOptions options = TestFormat(format::IndexKind::kLog);
  options.slab_bytes = 12345;
  EXPECT_THAT(Await(&target.world, FormatTarget(target.env, "/t", options)),
              StatusIs(absl::StatusCode::kInvalidArgument, "slab"));
  const auto info = Await(&target.world, target.env->Stat("/t"));
  ASSERT_OK(info);
  EXPECT_FALSE(info->has_value());
}

TEST(FormatTarget, RocksDbInTheSimulatorIsRefused) {
  SimTarget target;
  EXPECT_THAT(Await(&target.world,
                    FormatTarget(target.env, "/t",
                                 TestFormat(format::IndexKind::kRocksDb))),
              StatusIs(absl::StatusCode::kInvalidArgument, "simulator"));
}

TEST(FormatTarget, CapacityZeroTakesTheDiskButForTheIndexsShare) {
  sim::WorldOptions world;
  world.disk.capacity_bytes = 320 * format::kMiB;
  SimTarget target(world);
  FormatOptions options = TestFormat(format::IndexKind::kLog);
  options.capacity_bytes = 0;
  ASSERT_OK(Await(&target.world, FormatTarget(target.env, "/t", options)));
  ASSERT_OK(target.Open());
  EXPECT_LE(target.store->stats().capacity_bytes, 310 * format::kMiB);
  EXPECT_GE(target.store->stats().capacity_bytes, 300 * format::kMiB);
}

TEST(FormatTarget, PrewrittenSlabsAreWholeAndWritten) {
  SimTarget target;
  FormatOptions options = TestFormat(format::IndexKind::kLog);
  options.prewrite = true;
  ASSERT_OK(Await(&target.world, FormatTarget(target.env, "/t", options)));
  for (const char* slab : {"/t/slab-000000", "/t/slab-000002"}) {
    const auto info = Await(&target.world, target.env->Stat(slab));
    ASSERT_OK(info);
    ASSERT_TRUE(info->has_value());
    EXPECT_EQ((*info)->size_bytes, 4 * format::kMiB);
  }
  ASSERT_OK(target.Open());
  EXPECT_EQ(target.store->stats().used_bytes, 0u);
}

TEST(OpenTarget, DirectoryWithoutSuperblockIsNotATarget) {
  SimTarget target;
  EXPECT_THAT(target.Open(),
              StatusIs(absl::StatusCode::kNotFound, "not a target"));
  ASSERT_OK(Await(&target.world, target.env->MakeDirectory("/t")));
  EXPECT_THAT(target.Open(),
              StatusIs(absl::StatusCode::kNotFound, "Format it first"));
}

TEST(OpenTarget, ForeignClusterIsRefused) {
  SimTarget target;
  ASSERT_OK(target.Format());
  TargetIdentity other = TestIdentity();
  other.cluster_id.bytes.fill(0x77);
  EXPECT_THAT(target.Open(other),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "belongs to cluster c1c1"));
}

TEST(OpenTarget, SwappedDiskIsRefused) {
  SimTarget target;
  ASSERT_OK(target.Format());
  TargetIdentity other = TestIdentity();
  other.target_id = format::TargetId(4);
  EXPECT_THAT(target.Open(other),
              StatusIs(absl::StatusCode::kFailedPrecondition, "is target 3"));
}

TEST(OpenTarget, OldCopyOfTheDiskIsRefused) {
  SimTarget target;
  ASSERT_OK(target.Format());
  TargetIdentity newer = TestIdentity();
  ++newer.disk_generation;
  EXPECT_THAT(target.Open(newer),
              StatusIs(absl::StatusCode::kFailedPrecondition, "generation 5"));
  newer.disk_generation = 0;  // Any.
  EXPECT_OK(target.Open(newer));
}

TEST(OpenTarget, NewerFormatIsRefused) {
  SimTarget target;
  ASSERT_OK(target.Format());
  const auto decoded = Await(&target.world, ReadSuperblock(target.env, "/t"));
  ASSERT_OK(decoded);
  std::string file = format::EncodeSuperblock(decoded->superblock);
  format::StoreLe(file.data() + 8, uint32_t{format::kSuperblockVersion + 1});
  format::StoreLe(file.data() + 4088,
                  format::Xxh3(format::AsBytes(file).first(4088)));
  target.Rewrite("/t/superblock", 0, file);
  EXPECT_THAT(target.Open(),
              StatusIs(absl::StatusCode::kFailedPrecondition, "newer"));
}

TEST(OpenTarget, SuperblockOfVersion1IsOpenedAndRewrittenWithAnAdmission) {
  SimTarget target;
  ASSERT_OK(target.Format());
  const auto decoded = Await(&target.world, ReadSuperblock(target.env, "/t"));
  ASSERT_OK(decoded);
  std::string file = format::EncodeSuperblock(decoded->superblock);
  for (uint32_t copy = 0; copy < format::kSuperblockCopies; ++copy) {
    char* const at = file.data() + copy * format::kSuperblockBytes;
    format::StoreLe(at + 8, uint32_t{1});
    const format::ConstBytes sealed(reinterpret_cast<const uint8_t*>(at), 4088);
    format::StoreLe(at + 4088, format::Xxh3(sealed));
  }
  target.Rewrite("/t/superblock", 0, file);
  ASSERT_OK(target.Open());
  EXPECT_EQ(target.store->identity().admission, 0u);
  ASSERT_OK(Await(&target.world, target.store->SetAdmission(4)));
  ASSERT_OK(target.Close());
  ASSERT_OK(target.Open());
  EXPECT_EQ(target.store->identity().admission, 4u);
}

// Whatever the power loss takes, it is the old number or the new one, and the
// new one if SetAdmission() said OK.
TEST(OpenTarget, AdmissionThatWasAcknowledgedSurvivesALossOfPower) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    sim::WorldOptions world;
    world.seed = seed;
    SimTarget target(world);
    ASSERT_OK(target.Format());
    ASSERT_OK(target.Open());
    ASSERT_OK(Await(&target.world, target.store->SetAdmission(7)));
    if (seed % 2 == 0) {
      sim::DiskFault fault;
      fault.op = sim::DiskOp::kSync;
      fault.nth = 1;
      target.disk()->Fail(fault);
      EXPECT_FALSE(Await(&target.world, target.store->SetAdmission(8)).ok());
      EXPECT_EQ(target.store->identity().admission, 7u);
    }
    target.world.Crash(target.node);
    (void)target.Close();
    target.env = target.world.Start(target.node);
    ASSERT_OK(target.Open());
    const uint64_t admission = target.store->identity().admission;
    EXPECT_TRUE(admission == 7 || (seed % 2 == 0 && admission == 8))
        << admission;
  }
}

TEST(OpenTarget, DirectoryInUseByAnotherProcessIsRefused) {
  SimTarget target;
  ASSERT_OK(target.Format());
  ASSERT_OK(target.Open());
  sim::SimEnv* const second = target.world.Start(target.node);
  EXPECT_THAT(
      Await(&target.world, ChunkStore::Open(second, "/t", TestIdentity())),
      StatusIs(absl::StatusCode::kFailedPrecondition, "another process"));
  EXPECT_OK(target.Put(TestChunk(MakeChunkId(1), 100)));
  ASSERT_OK(target.Close());
  auto opened =
      Await(&target.world, ChunkStore::Open(second, "/t", TestIdentity()));
  ASSERT_OK(opened);
  EXPECT_OK(Await(&target.world, (*opened)->Close()));
}

}  // namespace
}  // namespace cairn::server
