#include "client/blob/chunk_payload.h"

#include <algorithm>
#include <random>
#include <string>

#include "tests/support/scattered_bytes.h"
#include "tests/support/status_matchers.h"

namespace cairn::client {
namespace {

using format::ChunkId;
using format::kBlockBytes;
using testing::Flatten;
using testing::IsOk;
using testing::RandomBytes;
using testing::ScatteredBytes;
using testing::StatusIs;

constexpr ChunkId kChunk = {.blob = format::BlobId::Make(format::PoolId(1), 42),
                            .stripe = 3,
                            .shard = 2};

// The trailer of the range [offset, offset + bytes.size()) of kChunk: a status
// of 0, then a checksum for each block the range touches.
std::string TrailerOf(uint64_t offset, const std::string& bytes) {
  std::string trailer(8, '\0');
  for (uint64_t at = 0; at < bytes.size();) {
    const uint64_t block = (offset + at) / kBlockBytes;
    const uint64_t length = std::min<uint64_t>(
        bytes.size() - at, (block + 1) * kBlockBytes - offset - at);
    const uint64_t sum =
        format::BlockChecksum(kChunk, static_cast<uint32_t>(block),
                              format::AsBytes(bytes).subspan(at, length));
    trailer.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
    at += length;
  }
  return trailer;
}

// Everything the source hands out, with the rules for pieces checked.
std::string Drain(ChunkSource* source) {
  std::string sent;
  while (sent.size() < source->size_bytes()) {
    const auto piece = source->Next();
    const std::string bytes = Flatten(piece);
    EXPECT_GE(bytes.size(), 1u);
    EXPECT_LE(bytes.size(), io::kPieceBytes);
    EXPECT_LE(piece.size(), io::kPieceSpansMax);
    if (bytes.empty()) break;
    sent += bytes;
  }
  return sent;
}

void ExpectSendsAll(const std::string& bytes, const ConstGather& gather) {
  ChunkSource source(kChunk, &gather);
  EXPECT_EQ(source.size_bytes(), bytes.size());
  EXPECT_TRUE(Drain(&source) == bytes);
  const std::string trailer(format::AsText(source.Trailer()));
  EXPECT_EQ(trailer.size(), source.trailer_bytes());
  EXPECT_TRUE(trailer == TrailerOf(0, bytes));
}

TEST(ChunkSource, SendsScatteredBytesInOrderWithTheirChecksums) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 30; ++round) {
    const std::string bytes = RandomBytes(1 + random() % 300'000, &random);
    const ScatteredBytes memory(bytes, 1 + random() % 50, &random);
    ExpectSendsAll(bytes, memory.gather());
  }
}

TEST(ChunkSource, FullChunkIsSentInPieces) {
  std::mt19937_64 random(2);
  const std::string bytes = RandomBytes(format::kChunkBytesMax, &random);
  ExpectSendsAll(bytes, ConstGather(1, format::AsBytes(bytes)));
  const ScatteredBytes memory(bytes, 5, &random);
  ExpectSendsAll(bytes, memory.gather());
}

TEST(ChunkSource, ManyTinySpansTakeSeveralPieces) {
  std::mt19937_64 random(3);
  const std::string bytes = RandomBytes(3000, &random);
  ConstGather gather;
  for (size_t i = 0; i < 1000; ++i) {
    gather.push_back(format::AsBytes(bytes).subspan(3 * i, 3));
  }
  ExpectSendsAll(bytes, gather);
}

TEST(ChunkSource, BytesThatEndWithABlockHaveNoChecksumBehindIt) {
  std::mt19937_64 random(4);
  const std::string bytes = RandomBytes(2 * kBlockBytes, &random);
  const ConstGather gather(1, format::AsBytes(bytes));
  EXPECT_EQ(ChunkSource(kChunk, &gather).trailer_bytes(), 3 * 8u);
  ExpectSendsAll(bytes, gather);
}

// Feeds `bytes` to the sink as the network does, in pieces of its choice.
void Feed(ChunkSink* sink, const std::string& bytes) {
  uint64_t at = 0;
  while (at < bytes.size()) {
    const auto piece = sink->Next(bytes.size() - at);
    const uint64_t before = at;
    ASSERT_LE(piece.size(), io::kPieceSpansMax);
    for (const format::MutableBytes part : piece) {
      ASSERT_LE(part.size(), bytes.size() - at);
      std::copy_n(bytes.begin() + static_cast<int64_t>(at), part.size(),
                  part.begin());
      at += part.size();
    }
    ASSERT_GT(at, before);
    ASSERT_LE(at - before, io::kPieceBytes);
    sink->Arrived();
  }
}

// A sink for [offset, offset + size) of kChunk, and what arrives there.
struct Arrival {
  Arrival(uint64_t range_offset, uint64_t size, uint64_t seed)
      : random(seed),
        offset(range_offset),
        sent(RandomBytes(size, &random)),
        memory(std::string(size, '\0'), 20, &random),
        to(memory.mutable_gather()),
        sink(kChunk, offset, &to) {}
  absl::Status Receive(const std::string& bytes, const std::string& trailer) {
    CAIRN_RETURN_IF_ERROR(
        sink.Begin(bytes.size(), static_cast<uint32_t>(trailer.size()), ""));
    Feed(&sink, bytes);
    return sink.Finish(format::AsBytes(trailer));
  }
  std::mt19937_64 random;
  const uint64_t offset;
  const std::string sent;
  ScatteredBytes memory;
  const MutableGather to;
  ChunkSink sink;
};

TEST(ChunkSink, RangeArrivesInScatteredMemoryAndIsVerified) {
  std::mt19937_64 random(5);
  for (uint64_t round = 0; round < 30; ++round) {
    Arrival arrival(random() % 300'000, 1 + random() % 300'000, round);
    EXPECT_FALSE(arrival.sink.verified());
    ASSERT_OK(
        arrival.Receive(arrival.sent, TrailerOf(arrival.offset, arrival.sent)));
    EXPECT_TRUE(arrival.sink.verified());
    ASSERT_TRUE(arrival.memory.Flat() == arrival.sent) << "round " << round;
  }
}

TEST(ChunkSink, WholeLargeChunkArrivesInPieces) {
  Arrival arrival(0, format::kChunkBytesMax, 6);
  ASSERT_OK(arrival.Receive(arrival.sent, TrailerOf(0, arrival.sent)));
  EXPECT_TRUE(arrival.memory.Flat() == arrival.sent);
}

TEST(ChunkSink, SpansForTheNextPieceEndWithWhatIsStillToCome) {
  Arrival arrival(0, 1000, 7);
  ASSERT_OK(arrival.sink.Begin(1000, 16, ""));
  EXPECT_EQ(Flatten(arrival.sink.Next(10)).size(), 10u);
}

TEST(ChunkSink, RecordWithoutBytesIsVerifiedByItsEmptyTrailer) {
  const MutableGather nothing;
  ChunkSink sink(kChunk, 0, &nothing);
  ASSERT_OK(sink.Begin(0, 8, ""));
  ASSERT_OK(sink.Finish(format::AsBytes(TrailerOf(0, ""))));
  EXPECT_TRUE(sink.verified());
}

TEST(ChunkSink, OtherLengthThanAskedForIsDataLoss) {
  Arrival arrival(0, 1000, 8);
  EXPECT_THAT(arrival.sink.Begin(999, 16, ""),
              StatusIs(absl::StatusCode::kDataLoss,
                       "chunk 1:42/3/2: got 999 bytes, not the 1000"));
  EXPECT_THAT(arrival.sink.Begin(1001, 16, ""),
              StatusIs(absl::StatusCode::kDataLoss, "chunk 1:42/3/2"));
}

TEST(ChunkSink, OneFlippedByteIsDataLossThatNamesChunkAndBlock) {
  std::mt19937_64 random(9);
  for (uint64_t round = 0; round < 20; ++round) {
    // From inside the chunk's block 1 on; the range's blocks count from there.
    Arrival arrival(kBlockBytes + 100, 3 * kBlockBytes, round);
    const uint64_t at = random() % arrival.sent.size();
    std::string damaged = arrival.sent;
    damaged[at] ^= static_cast<char>(1 << random() % 8);
    const std::string block = std::to_string((100 + at) / kBlockBytes);
    ASSERT_THAT(
        arrival.Receive(damaged, TrailerOf(arrival.offset, arrival.sent)),
        StatusIs(absl::StatusCode::kDataLoss,
                 "chunk 1:42/3/2: block " + block + " of the range"));
    ASSERT_FALSE(arrival.sink.verified());
  }
}

TEST(ChunkSink, OneFlippedByteOfAChecksumIsDataLossThatNamesItsBlock) {
  for (uint64_t block = 0; block < 3; ++block) {
    Arrival arrival(0, 3 * kBlockBytes, block);
    std::string trailer = TrailerOf(0, arrival.sent);
    trailer[8 + 8 * block] ^= 1;
    EXPECT_THAT(arrival.Receive(arrival.sent, trailer),
                StatusIs(absl::StatusCode::kDataLoss,
                         "block " + std::to_string(block)));
    EXPECT_FALSE(arrival.sink.verified());
  }
}

TEST(ChunkSink, WrongNumberOfChecksumsIsDataLoss) {
  for (const int extra : {-16, -8, -1, 1, 8}) {
    Arrival arrival(0, kBlockBytes, 10);
    std::string trailer = TrailerOf(0, arrival.sent);
    trailer.resize(trailer.size() + static_cast<size_t>(extra), '\0');
    EXPECT_THAT(arrival.Receive(arrival.sent, trailer),
                StatusIs(absl::StatusCode::kDataLoss,
                         "chunk 1:42/3/2: wrong number of checksums"))
        << extra;
    EXPECT_FALSE(arrival.sink.verified());
  }
}

TEST(ChunkSink, BytesOfAnotherChunkOrPlaceFailTheirChecksums) {
  Arrival arrival(0, 1000, 11);
  const std::string elsewhere = TrailerOf(kBlockBytes, arrival.sent);
  EXPECT_THAT(arrival.Receive(arrival.sent, elsewhere),
              StatusIs(absl::StatusCode::kDataLoss, "block 0"));
}

TEST(ChunkSink, TakesWhatASourceSends) {
  std::mt19937_64 random(12);
  const std::string bytes = RandomBytes(200'000, &random);
  const ScatteredBytes memory(bytes, 9, &random);
  const ConstGather gather = memory.gather();
  ChunkSource source(kChunk, &gather);
  Arrival arrival(0, bytes.size(), 13);
  const std::string sent = Drain(&source);
  ASSERT_OK(
      arrival.Receive(sent, std::string(format::AsText(source.Trailer()))));
  EXPECT_TRUE(arrival.memory.Flat() == bytes);
}

}  // namespace
}  // namespace cairn::client
