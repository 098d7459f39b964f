// What may be deleted is deleted in the end, and nothing else ever is.
#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

using Code = absl::StatusCode;

class GarbageTest : public MetaTest {
 protected:
  GarbageTest() : GarbageTest(1) {}
  explicit GarbageTest(uint64_t seed) : MetaTest(seed) {
    file_ = MakeFile(kRoot, "f");
    blob_ = AllocateBlobs(session_, 1)[0];
  }
  bool Deleted(uint64_t blob) {
    return orders_.deleted.contains(format::BlobId(blob));
  }
  uint64_t file_ = 0;
  uint64_t blob_ = 0;
};

TEST_F(GarbageTest, UnlinkedFilesBlobIsDeletedOnAllItsTargetsAfterTheGrace) {
  ASSERT_OK(Write(file_, 0, 100, blob_));
  ASSERT_OK(Unlink(kRoot, "f"));
  RunPasses();
  EXPECT_FALSE(Deleted(blob_));
  EXPECT_OK(GetExtents(file_, 0, 100));  // Readers that have it open go on.
  SleepAndRunPasses();
  ASSERT_TRUE(Deleted(blob_));
  EXPECT_EQ(orders_.deleted[format::BlobId(blob_)].size(), 3u);
  EXPECT_EQ(KeysOf(format::KeyKind::kBlob), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kGarbage), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kReference), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kExtent), 0u);
}

TEST_F(GarbageTest, BlobThatAnotherFileSharesStays) {
  ASSERT_OK(Write(file_, 0, 100, blob_));
  const uint64_t clone = MakeFile(kRoot, "clone");
  ASSERT_OK(Write(clone, 0, 10, blob_, 50));
  ASSERT_OK(Unlink(kRoot, "f"));
  ASSERT_OK(CloseSession(session_));
  SleepAndRunPasses();
  EXPECT_FALSE(Deleted(blob_));
  session_ = OpenSession("later", 1);
  ASSERT_OK(Unlink(kRoot, "clone"));
  SleepAndRunPasses();
  EXPECT_TRUE(Deleted(blob_));
}

TEST_F(GarbageTest, OverwrittenBlobIsDeletedAlthoughItsWriterLives) {
  const uint64_t second = AllocateBlobs(session_, 1)[0];
  ASSERT_OK(Write(file_, 0, 100, blob_));
  ASSERT_OK(Write(file_, 0, 100, second));
  SleepAndRunPasses();
  EXPECT_TRUE(Deleted(blob_));
  EXPECT_FALSE(Deleted(second));
  // The writer learns it, should it go on with that blob.
  EXPECT_THAT(Write(file_, 100, 10, blob_, 100),
              StatusIs(Code::kAborted, "reclaimed"));
}

TEST_F(GarbageTest, BlobBeingWrittenIsLeftAlone) {
  SleepAndRunPasses();
  EXPECT_FALSE(Deleted(blob_));
  EXPECT_OK(Write(file_, 0, 100, blob_));
}

TEST_F(GarbageTest, BlobThatIsReferredToAgainIsLeftAlone) {
  const uint64_t second = AllocateBlobs(session_, 1)[0];
  ASSERT_OK(Write(file_, 0, 100, blob_));
  ASSERT_OK(Write(file_, 0, 100, second));
  ASSERT_OK(Write(file_, 200, 100, blob_));  // Within the grace.
  SleepAndRunPasses();
  EXPECT_FALSE(Deleted(blob_));
}

// The entry of the first release comes due just after the second one, when
// readers may have the extents still.
TEST_F(GarbageTest, BlobReleasedAgainIsKeptForAWholeGraceFromThen) {
  const uint64_t second = AllocateBlobs(session_, 1)[0];
  ASSERT_OK(Write(file_, 0, 100, blob_));
  ASSERT_OK(Write(file_, 0, 100, second));
  ASSERT_OK(Write(file_, 200, 100, blob_));
  Sleep(400 * io::kMillisecond);  // Of 500.
  ASSERT_OK(Write(file_, 200, 100, second, 200));
  Sleep(200 * io::kMillisecond);
  RunPasses();
  EXPECT_FALSE(Deleted(blob_));
  SleepAndRunPasses();
  EXPECT_TRUE(Deleted(blob_));
  EXPECT_EQ(KeysOf(format::KeyKind::kGarbage), 0u);
}

TEST_F(GarbageTest, DeadSessionsUnreferencedBlobsAreDeleted) {
  const std::vector<uint64_t> blobs = AllocateBlobs(session_, 3);
  ASSERT_OK(Write(file_, 0, 100, blobs[1]));
  ASSERT_OK(CloseSession(session_));
  SleepAndRunPasses();
  EXPECT_TRUE(Deleted(blobs[0]));
  EXPECT_FALSE(Deleted(blobs[1]));
  EXPECT_TRUE(Deleted(blobs[2]));
}

TEST_F(GarbageTest, OrderIsRepeatedUntilEveryTargetConfirmed) {
  ASSERT_OK(Write(file_, 0, 100, blob_));
  ASSERT_OK(Unlink(kRoot, "f"));
  orders_.failing.insert(format::TargetId(2));
  SleepAndRunPasses();
  EXPECT_EQ(KeysOf(format::KeyKind::kBlob), 1u);
  EXPECT_EQ(KeysOf(format::KeyKind::kGarbage), 1u);
  Restart();  // A doomed blob stays doomed.
  orders_.failing.clear();
  SleepAndRunPasses();  // The restart set the service clock back a little:
  SleepAndRunPasses();  // the pause before the next order may be longer.
  EXPECT_EQ(orders_.deleted[format::BlobId(blob_)].size(), 3u);
  EXPECT_EQ(KeysOf(format::KeyKind::kBlob), 0u);
}

TEST_F(GarbageTest, JumpOfTheServiceClockIsNotMadeByARestart) {
  ASSERT_OK(Unlink(kRoot, "f"));
  for (int i = 0; i < 5; ++i) {
    Restart();
    RunPasses();
  }
  EXPECT_OK(GetAttr(file_));  // No service time has passed.
}

TEST_F(GarbageTest, BackgroundLoopsDoItAll) {
  ASSERT_OK(Write(file_, 0, 100, blob_));
  ASSERT_OK(Unlink(kRoot, "f"));
  meta_->Start();
  Sleep(10 * io::kSecond);
  EXPECT_TRUE(Deleted(blob_));
  EXPECT_EQ(KeysOf(format::KeyKind::kTrash), 0u);
}

TEST_F(GarbageTest, CountOfFilesFollowsWhatHappensDuringTheScan) {
  MakeFile(kRoot, "g");
  Restart();
  meta_->Start();
  MakeFile(kRoot, "h");
  ASSERT_OK(Unlink(kRoot, "f"));
  Sleep(io::kSecond);
  ASSERT_OK(Unlink(kRoot, "h"));
  const auto status = Await(meta_->ClusterStatus(wire::ClusterStatusRequest()));
  ASSERT_OK(status);
  EXPECT_EQ(status->files(), 1u);
  EXPECT_EQ(status->sessions(), 1u);
  EXPECT_EQ(status->targets_size(), 3);
}

// Random writers, clones and removals, with faults and restarts: at every
// moment, no file may refer to a blob that a target was told to delete.
class GarbageProperty : public GarbageTest,
                        public ::testing::WithParamInterface<uint64_t> {
 protected:
  GarbageProperty() : GarbageTest(GetParam()), random_(GetParam()) {}

  void CheckNoReferenceToDeleted() {
    for (const auto& [key, value] : disk_.pairs) {
      if (key[0] != static_cast<char>(format::KeyKind::kExtent)) continue;
      const auto extent = format::DecodeRecord<store::Extent>(key, value.value);
      ASSERT_FALSE(Deleted(extent->blob()))
          << format::ToString(format::BlobId(extent->blob()));
    }
  }
  std::string AnyName() { return absl::StrCat("n", random_.Between(0, 4)); }
  void WriteStep() {
    wire::CreateRequest create = CreateRequest(kRoot, AnyName());
    create.set_open_existing(true);
    const auto opened = Await(meta_->names().Create(std::move(create)));
    ASSERT_OK(opened);
    // Old blobs too: some are gone by now, and that must be said.
    const uint64_t blob = blobs_[random_.Between(0, blobs_.size() - 1)];
    const absl::Status written =
        Write(opened->attributes().inode(), random_.Between(0, 50),
              random_.Between(1, 50), blob, random_.Between(0, 50));
    if (!written.ok()) {
      EXPECT_EQ(written.code(), Code::kAborted) << written;
    }
  }
  void Step() {
    switch (random_.Between(0, 7)) {
      case 0:
        (void)Unlink(kRoot, AnyName());
        break;
      case 1:
        blobs_.push_back(AllocateBlobs(session_, 1)[0]);
        break;
      case 2:
        ASSERT_OK(CloseSession(session_));
        session_ = OpenSession("again", ++nonce_);
        blobs_.push_back(AllocateBlobs(session_, 1)[0]);
        break;
      case 3:
        Sleep(random_.Between(1, 900) * io::kMillisecond);
        RunPasses();
        break;
      case 4:
        if (random_.OneIn(4)) Restart();
        break;
      default:
        WriteStep();
    }
  }

  sim::Random random_;
  std::vector<uint64_t> blobs_{blob_};
  uint64_t nonce_ = 100;
};

TEST_P(GarbageProperty, NoReferencedBlobIsEverOrderedDeleted) {
  SCOPED_TRACE(absl::StrCat("seed ", GetParam()));
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("step ", i));
    Step();
    CheckNoReferenceToDeleted();
  }
  for (int i = 0; i < 5; ++i) (void)Unlink(kRoot, absl::StrCat("n", i));
  ASSERT_OK(CloseSession(session_));
  SleepAndRunPasses();
  SleepAndRunPasses();
  // Nothing leaks.
  EXPECT_EQ(KeysOf(format::KeyKind::kBlob), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kGarbage), 0u);
  EXPECT_EQ(orders_.deleted.size(), blobs_.size());
}

INSTANTIATE_TEST_SUITE_P(Seeds, GarbageProperty,
                         ::testing::Range<uint64_t>(1, 7));

}  // namespace
}  // namespace cairn::server
