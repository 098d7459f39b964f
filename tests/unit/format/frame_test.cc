#include "format/wire/frame.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "format/checksum/block_checksum.h"
#include "format/wire/method.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::IsOk;
using ::cairn::testing::StatusIs;

constexpr std::string_view kBody = "body";

FrameHeader Request(uint64_t payload_bytes) {
  FrameHeader header;
  header.kind = static_cast<uint8_t>(FrameKind::kRequest);
  header.method = static_cast<uint16_t>(Method::kPutChunk);
  header.request_id = 7;
  header.body_bytes = kBody.size();
  header.payload_bytes = payload_bytes;
  if (payload_bytes > 0) {
    header.trailer_bytes =
        TrailerBytes(BlockHasher::BlockCount(0, payload_bytes));
  }
  header.traffic_class = static_cast<uint16_t>(TrafficClass::kCheckpointWrite);
  header.timeout_ms = 1500;
  return header;
}

ConstBytes BytesOf(const FrameHeader& header) {
  return {reinterpret_cast<const uint8_t*>(&header), sizeof(header)};
}

// A valid frame changed by `change`, with a header checksum that fits.
absl::Status ParseChanged(const std::function<void(FrameHeader*)>& change) {
  FrameHeader header = Request(100'000);
  SealFrameHeader(&header, AsBytes(kBody));
  change(&header);
  header.header_xxh3 = Xxh3(BytesOf(header).first(56));
  return ToStatus(ParseFrameHeader(BytesOf(header)));
}

FrameHeader* AsKind(FrameHeader* header, FrameKind kind) {
  header->kind = static_cast<uint8_t>(kind);
  return header;
}

TEST(FrameHeader, RoundTrip) {
  FrameHeader header = Request(kFramePayloadBytesMax);
  SealFrameHeader(&header, AsBytes(kBody));
  const absl::StatusOr<FrameHeader> parsed = ParseFrameHeader(BytesOf(header));
  ASSERT_OK(parsed);
  EXPECT_EQ(AsText(BytesOf(*parsed)), AsText(BytesOf(header)));
  EXPECT_OK(CheckFrameBody(*parsed, AsBytes(kBody)));
}

TEST(FrameHeader, CorruptMagic) {
  EXPECT_THAT(ParseChanged([](FrameHeader* h) { h->magic ^= 1; }),
              StatusIs(absl::StatusCode::kDataLoss, "magic"));
}

TEST(FrameHeader, NewerVersion) {
  EXPECT_THAT(
      ParseChanged([](FrameHeader* h) { h->version = kFrameVersion + 1; }),
      StatusIs(absl::StatusCode::kFailedPrecondition, "version 2"));
}

TEST(FrameHeader, CorruptVersionIsDamageNotANewerVersion) {
  FrameHeader header = Request(0);
  SealFrameHeader(&header, AsBytes(kBody));
  header.version = 9;
  EXPECT_THAT(ParseFrameHeader(BytesOf(header)),
              StatusIs(absl::StatusCode::kDataLoss, "checksum"));
}

TEST(FrameHeader, CorruptChecksum) {
  FrameHeader header = Request(0);
  SealFrameHeader(&header, AsBytes(kBody));
  for (size_t bit = 0; bit < 8 * sizeof(header); ++bit) {
    std::string damaged(AsText(BytesOf(header)));
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_THAT(ParseFrameHeader(AsBytes(damaged)),
                StatusIs(absl::StatusCode::kDataLoss, ""))
        << "bit " << bit;
  }
}

TEST(FrameHeader, CorruptLength) {
  const auto refused = [](const char* what) {
    return StatusIs(absl::StatusCode::kDataLoss, what);
  };
  EXPECT_THAT(ParseChanged([](FrameHeader* h) {
                h->body_bytes = kFrameBodyBytesMax + 1;
              }),
              refused("body length"));
  EXPECT_THAT(ParseChanged([](FrameHeader* h) {
                h->payload_bytes = kFramePayloadBytesMax + 1;
              }),
              refused("payload length"));
  EXPECT_THAT(ParseChanged([](FrameHeader* h) { h->payload_bytes = ~0ULL; }),
              refused("payload length"));
  EXPECT_THAT(ParseChanged([](FrameHeader* h) { h->trailer_bytes = ~0U; }),
              refused("trailer length"));
}

TEST(FrameHeader, TrailerMustFitThePayload) {
  struct Case {
    uint64_t payload_bytes;
    uint32_t checksums;
    bool fits;
  };
  const Case cases[] = {{1, 0, false},
                        {1, 1, true},
                        {1, 2, false},
                        {2, 2, true},  // One byte on each side of an edge.
                        {kBlockBytes, 1, true},
                        {kBlockBytes, 2, true},
                        {kBlockBytes, 3, false},
                        {kBlockBytes + 1, 1, false},
                        {kBlockBytes + 1, 2, true},
                        {kBlockBytes + 2, 3, true},
                        {kFramePayloadBytesMax, kBlocksPerChunkMax, true},
                        {kFramePayloadBytesMax, kBlocksPerChunkMax + 1, true},
                        {kFramePayloadBytesMax, kBlocksPerChunkMax + 2, false}};
  for (const Case& c : cases) {
    const absl::Status parsed = ParseChanged([&c](FrameHeader* h) {
      h->payload_bytes = c.payload_bytes;
      h->trailer_bytes = TrailerBytes(c.checksums);
    });
    EXPECT_EQ(parsed.ok(), c.fits) << c.payload_bytes << " " << c.checksums;
  }
  EXPECT_FALSE(
      ParseChanged([](FrameHeader* h) { h->trailer_bytes += 4; }).ok());
  EXPECT_FALSE(ParseChanged([](FrameHeader* h) { h->payload_bytes = 0; }).ok());
}

TEST(FrameHeader, FieldsOfOtherKindsAreRefused) {
  const std::function<void(FrameHeader*)> changes[] = {
      [](FrameHeader* h) { h->kind = 0; },
      [](FrameHeader* h) { h->kind = 5; },
      [](FrameHeader* h) { AsKind(h, FrameKind::kHello); },
      [](FrameHeader* h) { AsKind(h, FrameKind::kResponse); },
      [](FrameHeader* h) { h->status = 3; },
      [](FrameHeader* h) { h->traffic_class = kTrafficClasses; },
      [](FrameHeader* h) { h->flags = 1; },
      [](FrameHeader* h) { h->reserved = 1; },
      [](FrameHeader* h) { h->version = 0; },
      [](FrameHeader* h) {
        *h = FrameHeader();
        AsKind(h, FrameKind::kResponse)->status = 17;
      },
      [](FrameHeader* h) {
        h->timeout_ms = h->traffic_class = 0;
        AsKind(h, FrameKind::kResponse)->status = 2;  // With its payload.
      },
  };
  int number = 0;
  for (const auto& change : changes) {
    EXPECT_THAT(ParseChanged(change),
                StatusIs(absl::StatusCode::kDataLoss, "malformed frame"))
        << "change " << number;
    ++number;
  }
}

TEST(FrameHeader, ShortInputIsRefused) {
  FrameHeader header = Request(0);
  SealFrameHeader(&header, AsBytes(kBody));
  EXPECT_THAT(ParseFrameHeader(BytesOf(header).first(63)),
              StatusIs(absl::StatusCode::kDataLoss, "short"));
}

TEST(FrameBody, AnyOtherBodyIsRefused) {
  FrameHeader header = Request(0);
  SealFrameHeader(&header, AsBytes(kBody));
  for (const std::string_view body : {"bodY", "bod", "body ", ""}) {
    EXPECT_THAT(CheckFrameBody(header, AsBytes(body)),
                StatusIs(absl::StatusCode::kDataLoss, "body checksum"));
  }
}

// docs/format/frame.md shows these bytes.
TEST(FrameHeader, WorkedExampleKeepsItsBytes) {
  FrameHeader header = Request(100'000);
  SealFrameHeader(&header, AsBytes(kBody));
  std::string hex;
  for (const uint8_t byte : BytesOf(header)) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  EXPECT_EQ(hex,
            "43524e3101031000"
            "0700000000000000"
            "04000000"
            "18000000"
            "a086010000000000"
            "00000000"
            "0200"
            "0000"
            "dc050000"
            "00000000"
            "fae17f18eec8f284"
            "b4429a9a08b98e1f");
}

TEST(Trailer, RoundTrip) {
  const std::vector<uint64_t> sums = {11, 22, 33};
  std::vector<uint8_t> trailer(TrailerBytes(3));
  FillTrailer(trailer, absl::StatusCode::kOk, sums);
  EXPECT_OK(TrailerStatus(trailer));
  ASSERT_EQ(TrailerChecksumCount(trailer), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(TrailerChecksum(trailer, i), sums[i]);
  }
}

TEST(Trailer, CarriesTheSendersFailure) {
  std::vector<uint8_t> trailer(TrailerBytes(0));
  FillTrailer(trailer, absl::StatusCode::kDataLoss, {});
  EXPECT_THAT(TrailerStatus(trailer),
              StatusIs(absl::StatusCode::kDataLoss, "sender failed"));
}

TEST(Trailer, UnknownStatusAndShortBytesAreDamage) {
  std::vector<uint8_t> trailer(TrailerBytes(1));
  StoreLe(trailer.data(), uint64_t{17});
  EXPECT_THAT(TrailerStatus(trailer),
              StatusIs(absl::StatusCode::kUnavailable, "trailer status"));
  for (uint64_t bit = 1; bit <= 16; bit *= 2) {  // One flipped bit.
    StoreLe(trailer.data(), bit);
    EXPECT_THAT(TrailerStatus(trailer),
                StatusIs(absl::StatusCode::kUnavailable, "trailer status"));
  }
  EXPECT_THAT(TrailerStatus(ConstBytes(trailer).first(7)),
              StatusIs(absl::StatusCode::kUnavailable, "malformed"));
  EXPECT_EQ(TrailerChecksumCount(ConstBytes(trailer).first(7)), 0u);
}

TEST(MethodName, IsEmptyOnlyForUnknownNumbers) {
  EXPECT_EQ(MethodName(Method::kPing), "Ping");
  EXPECT_EQ(MethodName(Method::kRemoveSet), "RemoveSet");
  EXPECT_EQ(MethodName(static_cast<Method>(999)), "");
  EXPECT_EQ(MethodName(static_cast<Method>(0)), "");
  std::set<std::string_view> names;
  int known = 0;
  for (int number = 0; number < 200; ++number) {
    const std::string_view name = MethodName(static_cast<Method>(number));
    if (name.empty()) continue;
    ++known;
    names.insert(name);
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(known));
}

}  // namespace
}  // namespace cairn::format
