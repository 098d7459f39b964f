#include "format/path/errors.h"
#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

using Code = absl::StatusCode;

class ExtentsTest : public MetaTest {
 protected:
  ExtentsTest() : ExtentsTest(1) {}
  explicit ExtentsTest(uint64_t seed) : MetaTest(seed) {
    file_ = MakeFile(kRoot, "f");
    blobs_ = AllocateBlobs(session_, 4);
  }

  uint64_t file_ = 0;
  std::vector<uint64_t> blobs_;
};

TEST_F(ExtentsTest, InOrderWritesOfOneBlobAreOneRecord) {
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_OK(Write(file_, i * 100, 100, blobs_[0], i * 100));
  }
  const auto extents = GetExtents(file_, 0, 5000);
  ASSERT_OK(extents);
  ASSERT_EQ(extents->size(), 1u);
  EXPECT_EQ((*extents)[0].length(), 2000u);
  EXPECT_EQ(KeysOf(format::KeyKind::kExtent), 1u);
  EXPECT_EQ(GetAttr(file_)->size(), 2000u);
  EXPECT_EQ(GetAttr(file_)->allocated_bytes(), 2000u);
}

TEST_F(ExtentsTest, AnswerIsClippedToTheRangeAndTheSize) {
  ASSERT_OK(Write(file_, 100, 300, blobs_[0], 1000));
  const auto extents = GetExtents(file_, 150, 100);
  ASSERT_EQ(extents->size(), 1u);
  EXPECT_EQ((*extents)[0].file_offset(), 150u);
  EXPECT_EQ((*extents)[0].length(), 100u);
  EXPECT_EQ((*extents)[0].blob_offset(), 1050u);
  EXPECT_TRUE(GetExtents(file_, 0, 100)->empty());
  EXPECT_TRUE(GetExtents(file_, 400, 100)->empty());
}

TEST_F(ExtentsTest, AppendsOfManyWritersDoNotOverwriteEachOther) {
  std::vector<std::optional<absl::StatusOr<wire::CommitExtentsResponse>>> done(
      12);
  io::Gate gate(env_);
  for (size_t i = 0; i < done.size(); ++i) {
    wire::CommitExtentsRequest request = CommitRequest(file_);
    request.set_append(true);
    AddExtent(0, 10, blobs_[0], i * 1000, request.add_extents());
    gate.Spawn(
        StoreResult(meta_->extents().Commit(std::move(request)), &done[i]));
  }
  world_.Run(gate.Close());
  std::set<uint64_t> offsets;
  for (const auto& response : done) {
    ASSERT_OK(*response);
    offsets.insert((*response)->appended_at());
  }
  EXPECT_EQ(offsets.size(), done.size());
  EXPECT_EQ(GetAttr(file_)->size(), 10 * done.size());
  EXPECT_EQ(GetExtents(file_, 0, 1000)->size(), done.size());
}

// The PG row of a stripe of pool 1, and its bytes.
constexpr uint64_t kStripe = format::kChunkBytesMax;
uint32_t RowOf(const format::ClusterMap& map, uint64_t blob, uint32_t stripe) {
  return map.pools.begin()->second.PgOf(format::BlobId(blob), stripe);
}

TEST_F(ExtentsTest, CommitAcrossAChangeOfStatesIsTaken) {
  wire::CommitExtentsRequest request = CommitRequest(file_);
  AddExtent(0, 10, blobs_[0], 0, request.add_extents());
  format::ClusterMap next = *meta_->map();
  next.epoch = format::Epoch(2);
  next.targets[format::TargetId(1)].state = format::TargetState::kDown;
  ASSERT_OK(Await(meta_->ReplaceMap(next)));
  EXPECT_OK(Commit(request));
  // Addresses are no change of the map.
  meta_->SetTargetAddress(format::TargetId(2), "127.0.0.1:1");
  EXPECT_EQ(meta_->map()->epoch.value, 2u);
  Restart();
  EXPECT_EQ(meta_->map()->epoch.value, 2u);
}

TEST_F(ExtentsTest, CommitOfAStripeUnderAnOldRowIsRefusedByName) {
  wire::CommitExtentsRequest request = CommitRequest(file_);
  AddExtent(0, kStripe, blobs_[0], 7 * kStripe, request.add_extents());
  format::ClusterMap next = *meta_->map();
  const uint32_t pg = RowOf(next, blobs_[0], 7);
  next.epoch = format::Epoch(2);
  format::Pool& pool = next.pools.begin()->second;
  std::swap(pool.pg_targets[2 * pg], pool.pg_targets[2 * pg + 1]);
  ASSERT_OK(Await(meta_->ReplaceMap(next)));
  EXPECT_THAT(Commit(request),
              StatusIs(Code::kAborted, absl::StrCat("map changed: PG ", pg)));
  EXPECT_EQ(GetAttr(file_)->size(), 0u);
  Restart();  // The row's epoch is stored, too.
  *request.mutable_id() = NextId();
  EXPECT_THAT(Commit(request), StatusIs(Code::kAborted, "map changed"));
  *request.mutable_id() = NextId();
  request.set_epoch(2);
  EXPECT_OK(Commit(request));
}

TEST_F(ExtentsTest, CommitOfOtherRowsThanTheChangedOneIsTaken) {
  const format::ClusterMap before = *meta_->map();
  format::ClusterMap next = before;
  const uint32_t pg = RowOf(next, blobs_[0], 1);
  next.epoch = format::Epoch(2);
  format::Pool& pool = next.pools.begin()->second;
  std::swap(pool.pg_targets[2 * pg], pool.pg_targets[2 * pg + 1]);
  ASSERT_OK(Await(meta_->ReplaceMap(next)));
  // Of stripes 0 and 2, then of all from 2 to 4: the last is in row 1 again.
  wire::CommitExtentsRequest request = CommitRequest(file_);
  request.set_epoch(1);
  AddExtent(0, kStripe, blobs_[0], 0, request.add_extents());
  AddExtent(kStripe, kStripe, blobs_[0], 2 * kStripe, request.add_extents());
  EXPECT_OK(Commit(request));
  wire::CommitExtentsRequest longer = CommitRequest(file_);
  longer.set_epoch(1);
  AddExtent(0, 2 * kStripe, blobs_[0], 2 * kStripe, longer.add_extents());
  EXPECT_OK(Commit(longer));
  *longer.mutable_id() = NextId();
  longer.mutable_extents(0)->set_length(2 * kStripe + 1);
  EXPECT_THAT(Commit(longer), StatusIs(Code::kAborted, "map changed"));
}

TEST_F(ExtentsTest, CommitUnderAMapThatNeverWasIsRefused) {
  wire::CommitExtentsRequest request = CommitRequest(file_);
  AddExtent(0, 10, blobs_[0], 0, request.add_extents());
  request.set_epoch(2);
  EXPECT_THAT(Commit(request), StatusIs(Code::kAborted, "map changed"));
}

TEST_F(ExtentsTest, BlobOfAnotherSessionIsRefused) {
  const uint64_t other = OpenSession("other", 1);
  const uint64_t foreign = AllocateBlobs(other, 1)[0];
  EXPECT_THAT(Write(file_, 0, 10, foreign),
              StatusIs(Code::kAborted, "another session"));
  EXPECT_THAT(Write(file_, 0, 10, 12345), StatusIs(Code::kAborted, ""));
}

TEST_F(ExtentsTest, RangesOfAReferencedBlobMayBeSharedByOtherFiles) {
  ASSERT_OK(Write(file_, 0, 100, blobs_[0]));
  const uint64_t clone = MakeFile(kRoot, "clone");
  const uint64_t other = OpenSession("other", 1);
  wire::CommitExtentsRequest request = CommitRequest(clone);
  *request.mutable_id() = NextIdOf(other);
  AddExtent(0, 50, blobs_[0], 25, request.add_extents());
  EXPECT_OK(Commit(request));
}

TEST_F(ExtentsTest, ImpossibleExtentsAreRefused) {
  const uint64_t huge = ~uint64_t{0} - 5;
  EXPECT_THAT(Write(file_, 0, 0, blobs_[0]),
              StatusIs(Code::kInvalidArgument, ""));
  EXPECT_THAT(Write(file_, huge, 10, blobs_[0]),
              StatusIs(Code::kInvalidArgument, ""));
  EXPECT_THAT(Write(file_, 0, 10, blobs_[0], huge),
              StatusIs(Code::kInvalidArgument, ""));
  EXPECT_THAT(Write(file_, 0, 10, 0), StatusIs(Code::kInvalidArgument, ""));
  EXPECT_THAT(Write(kRoot, 0, 10, blobs_[0]),
              StatusIs(Code::kFailedPrecondition, format::kErrIsDirectory));
  EXPECT_THAT(Write(99999, 0, 10, blobs_[0]), StatusIs(Code::kNotFound, ""));
}

TEST_F(ExtentsTest, CommitThatTouchesHundredsOfRecordsSucceedsInParts) {
  // 300 records that do not merge.
  for (uint64_t i = 0; i < 300; i += 50) {
    wire::CommitExtentsRequest request = CommitRequest(file_);
    for (uint64_t j = i; j < i + 50; ++j) {
      AddExtent(j * 10, 10, blobs_[j % 2], j * 100, request.add_extents());
    }
    ASSERT_OK(Commit(std::move(request)));
  }
  EXPECT_EQ(KeysOf(format::KeyKind::kExtent), 300u);
  ASSERT_OK(Write(file_, 5, 2990, blobs_[2], 0));
  const auto extents = GetExtents(file_, 0, 10'000);
  ASSERT_EQ(extents->size(), 3u);
  EXPECT_EQ((*extents)[1].length(), 2990u);
  EXPECT_EQ(GetAttr(file_)->size(), 3000u);
  EXPECT_EQ(GetAttr(file_)->allocated_bytes(), 3000u);
}

TEST_F(ExtentsTest, TruncateOfAFragmentedFileShowsNoOldBytesAfterwards) {
  for (uint64_t i = 0; i < 200; i += 50) {
    wire::CommitExtentsRequest request = CommitRequest(file_);
    for (uint64_t j = i; j < i + 50; ++j) {
      AddExtent(j * 10, 10, blobs_[0], j * 100, request.add_extents());
    }
    ASSERT_OK(Commit(std::move(request)));
  }
  ASSERT_OK(Truncate(file_, 15));
  EXPECT_EQ(GetExtents(file_, 0, 10'000)->size(), 2u);
  // Growing again shows a hole, not what was there.
  ASSERT_OK(Truncate(file_, 2000));
  EXPECT_EQ(GetExtents(file_, 0, 10'000)->size(), 2u);
  EXPECT_EQ(KeysOf(format::KeyKind::kExtent), 2u);
  EXPECT_EQ(GetAttr(file_)->allocated_bytes(), 15u);
}

TEST_F(ExtentsTest, PagesOfExtentsCoverTheRange) {
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_OK(Write(file_, i * 10, 5, blobs_[0], i * 100));
  }
  EXPECT_EQ(GetExtents(file_, 0, 1000, 7)->size(), 40u);
  EXPECT_EQ(GetExtents(file_, 12, 20, 1)->size(), 3u);
}

// Every byte of a file says where in which blob it lies.
class ExtentsProperty : public ExtentsTest,
                        public ::testing::WithParamInterface<uint64_t> {
 protected:
  static constexpr uint64_t kSpace = 400;
  ExtentsProperty() : ExtentsTest(GetParam()), random_(GetParam()) {}

  void WriteSome() {
    wire::CommitExtentsRequest request = CommitRequest(file_);
    const uint64_t count = random_.Between(1, 6);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t offset = random_.Between(0, kSpace - 2);
      const uint64_t length = random_.Between(1, kSpace - 1 - offset);
      const uint64_t blob = blobs_[random_.Between(0, 3)];
      // Often a continuation, so that records merge.
      const uint64_t at = random_.OneIn(2) ? offset : random_.Between(0, 500);
      AddExtent(offset, length, blob, at, request.add_extents());
      for (uint64_t k = 0; k < length; ++k) {
        bytes_[offset + k] = {blob, at + k};
      }
      size_ = std::max(size_, offset + length);
    }
    ASSERT_OK(Commit(std::move(request)));
  }
  void TruncateSome() {
    const uint64_t size = random_.Between(0, kSpace - 1);
    ASSERT_OK(Truncate(file_, size));
    for (uint64_t k = size; k < kSpace; ++k) bytes_[k] = {0, 0};
    size_ = size;
  }
  void Compare() {
    std::vector<std::pair<uint64_t, uint64_t>> read(kSpace);
    const auto extents = GetExtents(file_, 0, kSpace, 3);
    ASSERT_OK(extents);
    uint64_t allocated = 0;
    for (const wire::Extent& extent : *extents) {
      allocated += extent.length();
      for (uint64_t k = 0; k < extent.length(); ++k) {
        auto& byte = read[extent.file_offset() + k];
        ASSERT_EQ(byte.first, 0u) << "extents overlap";
        byte = {extent.blob(), extent.blob_offset() + k};
      }
    }
    EXPECT_EQ(read, bytes_);
    EXPECT_EQ(GetAttr(file_)->size(), size_);
    EXPECT_EQ(GetAttr(file_)->allocated_bytes(), allocated);
  }
  // The reference counts are what the extents say.
  void CompareReferences() {
    std::map<uint64_t, uint64_t> expected;
    std::map<uint64_t, uint64_t> stored;
    for (const auto& [key, value] : disk_.pairs) {
      const auto parsed = format::ParseKey(key);
      if (!parsed.ok()) continue;
      if (parsed->kind == format::KeyKind::kExtent) {
        ++expected[format::DecodeRecord<store::Extent>(key, value.value)
                       ->blob()];
      } else if (parsed->kind == format::KeyKind::kReference) {
        stored[parsed->numbers[0]] =
            format::DecodeRecord<store::Reference>(key, value.value)->extents();
      }
    }
    EXPECT_EQ(stored, expected);
  }

  sim::Random random_;
  std::vector<std::pair<uint64_t, uint64_t>> bytes_{kSpace};
  uint64_t size_ = 0;
};

TEST_P(ExtentsProperty, FileReadsAsAByteArrayWouldWhateverIsCommitted) {
  SCOPED_TRACE(absl::StrCat("seed ", GetParam()));
  for (int i = 0; i < 150 && !HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("step ", i));
    if (i % 5 == 0) {
      kv_->InjectFault(kv_->commits() + random_.Between(1, 3),
                       static_cast<ModelKvFault>(random_.Between(0, 2)));
    }
    random_.OneIn(6) ? TruncateSome() : WriteSome();
    Compare();
    CompareReferences();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExtentsProperty,
                         ::testing::Range<uint64_t>(1, 7));

}  // namespace
}  // namespace cairn::server
