// What a chunk store promises while its disk is well.
#include "server/target/local_store.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/target/store_harness.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;
using format::kKiB;
using format::kMiB;
using ::testing::SizeIs;

class LocalStoreTest : public ::testing::Test {
 protected:
  LocalStoreTest() {
    CAIRN_CHECK(target_.Format().ok());
    CAIRN_CHECK(target_.Open().ok());
  }
  absl::Status Reopen() {
    CAIRN_RETURN_IF_ERROR(target_.Close());
    return target_.Open();
  }
  SimTarget target_;
};

TEST_F(LocalStoreTest, ChunksOfEverySizeReadBackAlsoAfterReopening) {
  std::vector<TestChunk> chunks;
  uint32_t stripe = 0;
  for (uint64_t size : {uint64_t{1}, uint64_t{4096}, 64 * kKiB - 1, 64 * kKiB,
                        64 * kKiB + 1, uint64_t{70000}, 4 * kMiB}) {
    chunks.emplace_back(MakeChunkId(42, stripe++), size);
  }
  for (const TestChunk& chunk : chunks) ASSERT_OK(target_.Put(chunk));
  for (int round = 0; round < 2; ++round) {
    for (const TestChunk& chunk : chunks) {
      const auto read = target_.Read(chunk);
      ASSERT_OK(read);
      EXPECT_TRUE(*read == format::AsText(chunk.bytes()));
    }
    ASSERT_OK(Reopen());
  }
}

TEST_F(LocalStoreTest, RangeGivesTheWholeBlocksThatCoverIt) {
  const TestChunk chunk(MakeChunkId(1), 300 * kKiB);
  ASSERT_OK(target_.Put(chunk));
  const auto read =
      Await(&target_.world,
            target_.store->Read(kPg, chunk.id, 100 * kKiB, 100 * kKiB));
  ASSERT_OK(read);
  EXPECT_EQ(read->first_block, 1u);
  const uint64_t covered = 3 * 64 * kKiB;  // Blocks 1, 2 and 3.
  EXPECT_TRUE(format::AsText(
                  format::ConstBytes(read->buffer->bytes()).first(covered)) ==
              format::AsText(chunk.bytes().subspan(64 * kKiB, covered)));
  EXPECT_EQ(read->record.block_checksums, chunk.record.block_checksums);
}

TEST_F(LocalStoreTest, RangesOutsideTheChunkAreRefused) {
  const TestChunk chunk(MakeChunkId(1), 1000);
  ASSERT_OK(target_.Put(chunk));
  const std::vector<std::pair<uint64_t, uint64_t>> ranges = {
      {0, 0}, {0, 1001}, {1000, 1}, {999, 2}, {~0ull, 2}, {1, ~0ull}};
  for (const auto& [offset, length] : ranges) {
    EXPECT_THAT(Await(&target_.world,
                      target_.store->Read(kPg, chunk.id, offset, length)),
                StatusIs(absl::StatusCode::kOutOfRange, "1000"));
  }
}

TEST_F(LocalStoreTest, UnknownChunkIsNotFoundAndNotAnError) {
  EXPECT_THAT(
      Await(&target_.world, target_.store->Read(kPg, MakeChunkId(9), 0, 10)),
      StatusIs(absl::StatusCode::kNotFound, "1:9/0/0"));
  const auto found =
      Await(&target_.world, target_.store->Find(kPg, MakeChunkId(9)));
  ASSERT_OK(found);
  EXPECT_FALSE(found->has_value());
}

TEST_F(LocalStoreTest, SamePutTwiceIsOkAndTakesSpaceOnce) {
  const TestChunk chunk(MakeChunkId(1), 100 * kKiB);
  ASSERT_OK(target_.Put(chunk));
  ASSERT_OK(target_.Put(chunk));
  EXPECT_EQ(target_.store->stats().chunks, 1u);
  EXPECT_EQ(target_.store->stats().used_bytes, chunk.allocated_bytes());
}

TEST_F(LocalStoreTest, OtherBytesUnderAStoredIdAreRefused) {
  const TestChunk chunk(MakeChunkId(1), 100 * kKiB);
  const TestChunk other(MakeChunkId(1), 100 * kKiB, 1);
  ASSERT_OK(target_.Put(chunk));
  EXPECT_THAT(target_.Put(other),
              StatusIs(absl::StatusCode::kAlreadyExists, "1:1/0/0"));
  const auto read = target_.Read(chunk);
  ASSERT_OK(read);
  EXPECT_TRUE(*read == format::AsText(chunk.bytes()));
}

io::Task<void> PutInto(ChunkStore* store, const TestChunk* chunk,
                       absl::Status* status) {
  *status = co_await PutChunk(store, chunk);
}

io::Task<void> ReadInto(ChunkStore* store, const TestChunk* chunk,
                        absl::StatusOr<ChunkStore::ReadResult>* result) {
  *result = co_await store->Read(kPg, chunk->id, 0, chunk->bytes().size());
}

io::Task<void> DeleteInto(ChunkStore* store, uint64_t blob, uint64_t sequence,
                          absl::StatusOr<ChunkStore::DeleteResult>* result) {
  std::vector<format::BlobId> blobs = {
      format::BlobId::Make(format::PoolId(1), blob)};
  *result = co_await store->DeleteBlobs(std::move(blobs), sequence);
}

TEST_F(LocalStoreTest, ConcurrentPutsOfOneIdStoreOneAndRefuseTheOther) {
  const TestChunk chunk(MakeChunkId(1), 100 * kKiB);
  const TestChunk other(MakeChunkId(1), 100 * kKiB, 1);
  io::Gate gate(&target_.world);
  absl::Status first, same, different;
  gate.Spawn(PutInto(target_.store.get(), &chunk, &first));
  gate.Spawn(PutInto(target_.store.get(), &chunk, &same));
  gate.Spawn(PutInto(target_.store.get(), &other, &different));
  target_.world.Run(gate.Close());
  EXPECT_OK(first);
  EXPECT_OK(same);
  EXPECT_THAT(different, StatusIs(absl::StatusCode::kAlreadyExists, ""));
  EXPECT_EQ(target_.store->stats().used_bytes, chunk.allocated_bytes());
}

TEST_F(LocalStoreTest, PutWhoseParametersDoNotFitIsRefused) {
  TestChunk chunk(MakeChunkId(1), 100 * kKiB);
  const ChunkRecord good = chunk.record;
  chunk.record.digest ^= 1;
  EXPECT_THAT(target_.Put(chunk),
              StatusIs(absl::StatusCode::kInvalidArgument, "digest"));
  chunk.record = good;
  chunk.record.block_checksums.pop_back();
  EXPECT_THAT(target_.Put(chunk),
              StatusIs(absl::StatusCode::kInvalidArgument, "checksums"));
  chunk.record = good;
  chunk.record.chunk_bytes = 50 * kKiB;
  EXPECT_THAT(target_.Put(chunk),
              StatusIs(absl::StatusCode::kInvalidArgument, "payload"));
  EXPECT_EQ(target_.store->stats().used_bytes, 0u);
}

TEST_F(LocalStoreTest, IdenticalReadsInFlightShareOneBuffer) {
  const TestChunk chunk(MakeChunkId(1), 100 * kKiB);
  ASSERT_OK(target_.Put(chunk));
  io::Gate gate(&target_.world);
  absl::StatusOr<ChunkStore::ReadResult> first, second;
  gate.Spawn(ReadInto(target_.store.get(), &chunk, &first));
  gate.Spawn(ReadInto(target_.store.get(), &chunk, &second));
  target_.world.Run(gate.Close());
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_EQ(first->buffer, second->buffer);
  EXPECT_EQ(target_.store->stats().gets, 2u);
}

TEST_F(LocalStoreTest, ChunkDeletedWhileItIsReadIsReadWhole) {
  // 12 MiB hold three of these: the fourth needs the deleted one's space.
  std::vector<TestChunk> chunks;
  for (uint64_t blob = 1; blob <= 4; ++blob) {
    chunks.emplace_back(MakeChunkId(blob), 4 * kMiB);
  }
  for (int i = 0; i < 3; ++i) ASSERT_OK(target_.Put(chunks[i]));
  io::Gate gate(&target_.world);
  absl::StatusOr<ChunkStore::ReadResult> read;
  absl::StatusOr<ChunkStore::DeleteResult> deleted;
  gate.Spawn(ReadInto(target_.store.get(), &chunks[0], &read));
  gate.Spawn(DeleteInto(target_.store.get(), 1, 0, &deleted));
  // The delete is done long before 4 MiB are read: the space is not free yet.
  while (target_.store->stats().chunks == 3) ASSERT_TRUE(target_.world.Step());
  EXPECT_EQ(target_.store->stats().used_bytes, 12 * kMiB);
  absl::Status put;
  gate.Spawn(PutInto(target_.store.get(), &chunks[3], &put));
  target_.world.Run(gate.Close());
  ASSERT_OK(read);
  EXPECT_TRUE(format::AsText(read->buffer->bytes()) ==
              format::AsText(chunks[0].bytes()));
  EXPECT_THAT(put, StatusIs(absl::StatusCode::kResourceExhausted, ""));
  read = absl::CancelledError();  // Gives the buffer back.
  EXPECT_OK(target_.Put(chunks[3]));
}

TEST_F(LocalStoreTest, DeleteErasesAllOfTheBlobAndNothingElse) {
  std::vector<TestChunk> doomed;
  for (uint32_t stripe = 0; stripe < 5; ++stripe) {
    doomed.emplace_back(MakeChunkId(2, stripe), 10 * kKiB);
  }
  const TestChunk before(MakeChunkId(1), 10 * kKiB);
  const TestChunk after(MakeChunkId(3), 10 * kKiB);
  ASSERT_OK(target_.Put(before));
  ASSERT_OK(target_.Put(after));
  for (const TestChunk& chunk : doomed) ASSERT_OK(target_.Put(chunk));
  const auto deleted = target_.Delete(2);
  ASSERT_OK(deleted);
  EXPECT_EQ(deleted->chunks, 5u);
  EXPECT_EQ(deleted->bytes, 50 * kKiB);
  ASSERT_OK(Reopen());
  for (const TestChunk& chunk : doomed) {
    EXPECT_THAT(target_.Read(chunk), StatusIs(absl::StatusCode::kNotFound, ""));
  }
  EXPECT_OK(target_.Read(before));
  EXPECT_OK(target_.Read(after));
  EXPECT_EQ(target_.store->stats().used_bytes, 2 * 12 * kKiB);
}

TEST_F(LocalStoreTest, ConcurrentDeletesOfOneBlobCountItOnce) {
  ASSERT_OK(target_.Put(TestChunk(MakeChunkId(2), 10 * kKiB)));
  io::Gate gate(&target_.world);
  absl::StatusOr<ChunkStore::DeleteResult> first, second;
  gate.Spawn(DeleteInto(target_.store.get(), 2, 0, &first));
  gate.Spawn(DeleteInto(target_.store.get(), 2, 0, &second));
  target_.world.Run(gate.Close());
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_EQ(first->chunks + second->chunks, 1u);
  EXPECT_EQ(target_.store->stats().used_bytes, 0u);
}

TEST_F(LocalStoreTest, DeleteOfRestoredOldMetadataIsRefused) {
  const TestChunk chunk(MakeChunkId(2), 10 * kKiB);
  ASSERT_OK(target_.Put(chunk, 100));
  EXPECT_THAT(target_.Delete(2, 99),
              StatusIs(absl::StatusCode::kFailedPrecondition, "restored"));
  ASSERT_OK(Reopen());  // The mark came along with the put's commit.
  EXPECT_THAT(target_.Delete(2, 99),
              StatusIs(absl::StatusCode::kFailedPrecondition, "restored"));
  EXPECT_OK(target_.Read(chunk));
  EXPECT_OK(target_.Delete(2, 100));
}

TEST_F(LocalStoreTest, MarkSeenByAReadIsDurableWithTheNextPut) {
  target_.store->NoteMetaSequence(50);
  ASSERT_OK(target_.Put(TestChunk(MakeChunkId(1), 10), 7));
  ASSERT_OK(Reopen());
  EXPECT_EQ(target_.store->stats().meta_sequence, 50u);
}

TEST_F(LocalStoreTest, DeleteOfNothingStillMakesItsMarkDurable) {
  ASSERT_OK(target_.Delete(77, 60));
  ASSERT_OK(Reopen());
  EXPECT_EQ(target_.store->stats().meta_sequence, 60u);
}

TEST_F(LocalStoreTest, ListGoesThroughTheGroupInPagesAndStopsAtItsEnd) {
  for (uint64_t blob : {5u, 3u, 9u}) {
    for (uint32_t stripe : {1u, 0u}) {
      ASSERT_OK(target_.Put(TestChunk(MakeChunkId(blob, stripe), 100)));
    }
  }
  const TestChunk stranger(MakeChunkId(4), 100);
  ASSERT_OK(Await(&target_.world,
                  target_.store->Put(kPg + 1, stranger.id, stranger.record,
                                     stranger.padded(), 0)));
  const format::PgId pg{format::PoolId(1), kPg};
  std::vector<format::ChunkId> seen;
  std::string cursor;
  int pages = 0;
  do {
    const auto page = Await(&target_.world, target_.store->List(pg, cursor, 4));
    ASSERT_OK(page);
    for (const ListedChunk& listed : page->chunks) {
      seen.push_back(listed.chunk);
      EXPECT_EQ(listed.record.chunk_bytes, 100u);
    }
    cursor = page->next;
    ++pages;
  } while (!cursor.empty());
  EXPECT_EQ(pages, 2);
  EXPECT_THAT(seen, SizeIs(6));
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST_F(LocalStoreTest, CursorOfAnotherGroupIsRefused) {
  format::ChunkKey key;
  key.pg = {format::PoolId(1), kPg + 1};
  key.chunk = MakeChunkId(1);
  const format::PgId pg{format::PoolId(1), kPg};
  for (const std::string& cursor :
       {format::EncodeChunkKey(key), std::string("junk")}) {
    EXPECT_THAT(Await(&target_.world, target_.store->List(pg, cursor, 4)),
                StatusIs(absl::StatusCode::kInvalidArgument, "cursor"));
  }
}

TEST_F(LocalStoreTest, FullTargetReadsOnAndTakesPutsAgainAfterADelete) {
  std::vector<TestChunk> chunks;
  for (uint64_t blob = 1; blob <= 4; ++blob) {
    chunks.emplace_back(MakeChunkId(blob), 4 * kMiB);
  }
  for (int i = 0; i < 3; ++i) ASSERT_OK(target_.Put(chunks[i]));
  EXPECT_THAT(target_.Put(chunks[3]),
              StatusIs(absl::StatusCode::kResourceExhausted, "12582912"));
  EXPECT_EQ(target_.store->stats().failed, "");
  for (int i = 0; i < 3; ++i) EXPECT_OK(target_.Read(chunks[i]));
  ASSERT_OK(target_.Delete(2));
  ASSERT_OK(target_.Put(chunks[3]));
  EXPECT_OK(target_.Read(chunks[3]));
  EXPECT_EQ(target_.store->stats().used_bytes, 12 * kMiB);
}

TEST_F(LocalStoreTest, SpaceUsedBeforeIsTakenBeforeFreshSpace) {
  const TestChunk first(MakeChunkId(1), 1 * kMiB);
  const TestChunk second(MakeChunkId(2), 1 * kMiB);
  ASSERT_OK(target_.Put(first));
  ASSERT_OK(target_.Put(second));
  ASSERT_OK(target_.Delete(1));
  ASSERT_OK(target_.Put(TestChunk(MakeChunkId(3), 1 * kMiB)));
  const auto slab_two =
      Await(&target_.world, target_.env->Stat("/t/slab-000001"));
  ASSERT_OK(slab_two);
  EXPECT_FALSE(slab_two->has_value());
  EXPECT_EQ(target_.store->stats().used_bytes, 2 * kMiB);
}

TEST_F(LocalStoreTest, ReopeningRaisesTheBootEpochAndKeepsTheCounts) {
  ASSERT_OK(target_.Put(TestChunk(MakeChunkId(1), 5000), 12));
  const StoreStats before = target_.store->stats();
  EXPECT_EQ(before.boot_epoch, 1u);
  EXPECT_EQ(before.put_bytes, 5000u);
  ASSERT_OK(Reopen());
  const StoreStats after = target_.store->stats();
  EXPECT_EQ(after.boot_epoch, 2u);
  EXPECT_EQ(after.chunks, before.chunks);
  EXPECT_EQ(after.used_bytes, before.used_bytes);
  EXPECT_EQ(after.capacity_bytes, before.capacity_bytes);
  EXPECT_EQ(after.meta_sequence, 12u);
}

TEST_F(LocalStoreTest, ManyConcurrentPutsAreAllThereAfterReopening) {
  std::vector<TestChunk> chunks;
  for (uint32_t stripe = 0; stripe < 200; ++stripe) {
    chunks.emplace_back(MakeChunkId(1, stripe), 20 * kKiB);
  }
  io::Gate gate(&target_.world);
  std::vector<absl::Status> statuses(chunks.size());
  for (size_t i = 0; i < chunks.size(); ++i) {
    gate.Spawn(PutInto(target_.store.get(), &chunks[i], &statuses[i]));
  }
  target_.world.Run(gate.Close());
  for (const absl::Status& status : statuses) ASSERT_OK(status);
  ASSERT_OK(Reopen());
  EXPECT_EQ(target_.store->stats().used_bytes, 200 * 20 * kKiB);
  for (const TestChunk& chunk : chunks) EXPECT_OK(target_.Read(chunk));
}

}  // namespace
}  // namespace cairn::server
