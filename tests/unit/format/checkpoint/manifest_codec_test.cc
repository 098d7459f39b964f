// Part, header and block have the same envelope and the same promises, so one
// suite holds all three to them.
#include <string>

#include "format/base/bytes.h"
#include "format/checkpoint/byte_codec.h"
#include "format/checkpoint/manifest.h"
#include "gtest/gtest.h"
#include "tests/support/golden.h"
#include "tests/support/manifest_samples.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using cairn::testing::IsOk;
using cairn::testing::ReadGolden;
using cairn::testing::SampleBlock;
using cairn::testing::SampleHeader;
using cairn::testing::SamplePart;
using cairn::testing::StatusIs;
using cairn::testing::WithBody;
using cairn::testing::WithVersion;

struct Part {
  static std::string Encode() { return EncodeManifestPart(SamplePart()); }
  static auto Decode(std::string_view bytes) {
    return DecodeManifestPart(bytes);
  }
  static auto Sample() { return SamplePart(); }
  static constexpr char kGolden[] = "manifest_part_v1.bin";
};
struct Header {
  static std::string Encode() { return EncodeManifestHeader(SampleHeader()); }
  static auto Decode(std::string_view bytes) {
    return DecodeManifestHeader(bytes);
  }
  static auto Sample() { return SampleHeader(); }
  static constexpr char kGolden[] = "manifest_header_v1.bin";
};
struct Block {
  static std::string Encode() { return EncodeManifestBlock(SampleBlock()); }
  static auto Decode(std::string_view bytes) {
    return DecodeManifestBlock(bytes);
  }
  static auto Sample() { return SampleBlock(); }
  static constexpr char kGolden[] = "manifest_block_v1.bin";
};

template <typename T>
class ManifestCodec : public ::testing::Test {};
using Records = ::testing::Types<Part, Header, Block>;
TYPED_TEST_SUITE(ManifestCodec, Records);

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

TYPED_TEST(ManifestCodec, RoundTripGivesTheSameValueBack) {
  const auto decoded = TypeParam::Decode(TypeParam::Encode());
  ASSERT_OK(decoded);
  EXPECT_TRUE(*decoded == TypeParam::Sample());
}

TYPED_TEST(ManifestCodec, GoldenFileOfVersionOneDecodesAndIsStillWritten) {
  const std::string golden = ReadGolden(TypeParam::kGolden);
  const auto decoded = TypeParam::Decode(golden);
  ASSERT_OK(decoded);
  EXPECT_TRUE(*decoded == TypeParam::Sample());
  EXPECT_EQ(TypeParam::Encode(), golden);
}

TYPED_TEST(ManifestCodec, CorruptMagicIsDataLoss) {
  std::string bytes = TypeParam::Encode();
  bytes[0] = 'X';
  EXPECT_THAT(TypeParam::Decode(bytes), StatusIs(kDataLoss, "magic"));
}

TYPED_TEST(ManifestCodec, CorruptLengthIsDataLoss) {
  std::string bytes = TypeParam::Encode();
  StoreLe(bytes.data() + 8, ~uint64_t{0});
  EXPECT_THAT(TypeParam::Decode(bytes), StatusIs(kDataLoss, "says its body"));
  bytes = TypeParam::Encode();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(TypeParam::Decode(bytes.substr(0, size)),
                StatusIs(kDataLoss, ""));
  }
  EXPECT_THAT(TypeParam::Decode(bytes + '\0'), StatusIs(kDataLoss, ""));
}

TYPED_TEST(ManifestCodec, NewerVersionIsAFailedPrecondition) {
  EXPECT_THAT(TypeParam::Decode(WithVersion(TypeParam::Encode(), 2)),
              StatusIs(absl::StatusCode::kFailedPrecondition, "version 2"));
  EXPECT_THAT(TypeParam::Decode(WithVersion(TypeParam::Encode(), 0)),
              StatusIs(kDataLoss, "version"));
}

TYPED_TEST(ManifestCodec, CorruptChecksumAndAnyFlippedBitAreDataLoss) {
  const std::string good = TypeParam::Encode();
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THAT(TypeParam::Decode(bytes), StatusIs(kDataLoss, ""))
        << "bit " << bit;
  }
}

// What a checksum cannot find: a record that was badly made.
TYPED_TEST(ManifestCodec, BodyCutAnywhereIsDataLossOrAShorterRecord) {
  const std::string good = TypeParam::Encode();
  for (size_t size = 0; size + 24 < good.size(); ++size) {
    const auto decoded = TypeParam::Decode(
        WithBody(good, [&](std::string* body) { body->resize(size); }));
    if (decoded.ok()) {
      EXPECT_FALSE(*decoded == TypeParam::Sample());
    } else {
      EXPECT_THAT(decoded, StatusIs(kDataLoss, ""));
    }
  }
}

TYPED_TEST(ManifestCodec, OtherRecordKindsAreRefused) {
  int decoded = 0;
  for (const std::string& bytes :
       {Part::Encode(), Header::Encode(), Block::Encode()}) {
    decoded += TypeParam::Decode(bytes).ok() ? 1 : 0;
  }
  EXPECT_EQ(decoded, 1);
}

// One entry, by hand: name "t", then what `body` says.
std::string BlockOf(const std::function<void(std::string*)>& body) {
  return WithBody(Block::Encode(), [&](std::string* bytes) {
    *bytes = std::string("\x00\x01t", 3);
    body(bytes);
  });
}

void AppendAll(std::initializer_list<uint64_t> numbers, std::string* out) {
  for (const uint64_t number : numbers) AppendVarint(number, out);
}

// Rank 0, offset 0, checksum 0, and these cuts.
void AppendSlice(std::initializer_list<uint64_t> cuts, std::string* out) {
  AppendAll({0, 0}, out);
  AppendU64(0, out);
  AppendAll(cuts, out);
}

constexpr uint64_t kU8 = static_cast<uint64_t>(Dtype::kU8);
constexpr uint64_t kF4 = static_cast<uint64_t>(Dtype::kF4);

TEST(ManifestBlock, CountsThatTheBytesDoNotPayForAreDataLoss) {
  EXPECT_THAT(DecodeManifestBlock(BlockOf([](std::string* out) {
                AppendAll({kU8, 1, 5, uint64_t{1} << 60}, out);
                AppendSlice({0}, out);
              })),
              StatusIs(kDataLoss, "cut short"));
  EXPECT_THAT(DecodeManifestBlock(WithBody(Block::Encode(),
                                           [](std::string* out) {
                                             out->clear();
                                             AppendAll({0, ~uint64_t{0}}, out);
                                           })),
              StatusIs(kDataLoss, "name is cut short"));
  EXPECT_THAT(DecodeManifestBlock(BlockOf([](std::string* out) {
                AppendAll({kU8, 33}, out);
              })),
              StatusIs(kDataLoss, "too many dimensions"));
}

TEST(ManifestBlock, SlicesThatAreNoSlicesAreDataLoss) {
  const auto block = [](uint64_t dtype, uint64_t global, uint64_t parts,
                        std::initializer_list<uint64_t> cuts) {
    return DecodeManifestBlock(BlockOf([&](std::string* out) {
      AppendAll({dtype, 1, global, parts}, out);
      for (uint64_t i = 0; i < parts; ++i) AppendSlice(cuts, out);
    }));
  };
  EXPECT_OK(block(kU8, 10, 1, {1, 2, 8}));
  EXPECT_THAT(block(kU8, 10, 1, {1, 2, 9}), StatusIs(kDataLoss, "inside"));
  EXPECT_THAT(block(kU8, 10, 1, {1, ~uint64_t{0}, 2}),
              StatusIs(kDataLoss, "inside"));
  EXPECT_THAT(block(kU8, 10, 1, {1, 0, 10}), StatusIs(kDataLoss, "as cut"));
  EXPECT_THAT(block(kU8, 10, 1, {2, 0, 1}), StatusIs(kDataLoss, "not there"));
  EXPECT_THAT(block(kF4, 10, 1, {1, 0, 3}),
              StatusIs(kDataLoss, "cut inside a byte"));
  EXPECT_THAT(block(kU8, 10, 2, {0}), StatusIs(kDataLoss, "not in order"));
  EXPECT_THAT(block(kU8, 10, 0, {}), StatusIs(kDataLoss, "without slices"));
  EXPECT_THAT(block(kF4, 3, 1, {0}), StatusIs(kDataLoss, "MisalignedSlice"));
  EXPECT_THAT(block(kDtypeCount, 3, 1, {0}), StatusIs(kDataLoss, "dtype"));
  EXPECT_THAT(block(kU8 | 0x80, 3, 2, {0}),
              StatusIs(kDataLoss, "several slices"));
}

TEST(ManifestHeader, NamesOutOfOrderAndBlocksWithoutTensorsAreDataLoss) {
  const auto header = [](const std::string& names, uint64_t tensors) {
    return DecodeManifestHeader(
        WithBody(Header::Encode(), [&](std::string* out) {
          out->clear();
          AppendAll({4, tensors, 0, 0}, out);
          out->append(names);
        }));
  };
  EXPECT_OK(header(std::string("\0\1a\0\1b", 6), 2));
  EXPECT_THAT(header(std::string("\0\1b\0\1a", 6), 2),
              StatusIs(kDataLoss, "order"));
  EXPECT_THAT(header(std::string("\0\1a\1\0", 5), 2),
              StatusIs(kDataLoss, "order"));
  EXPECT_THAT(header(std::string("\0\1a\0\2ab", 7), 2),
              StatusIs(kDataLoss, "order"));
  EXPECT_THAT(header(std::string("\0\1a\2\1b", 6), 2),
              StatusIs(kDataLoss, "bad length"));
  EXPECT_THAT(header(std::string("\0\1a\0\1b", 6), 1),
              StatusIs(kDataLoss, "blocks"));
  EXPECT_THAT(header("", 1), StatusIs(kDataLoss, "blocks"));
  EXPECT_OK(header("", 0));
}

TEST(ManifestVarint, EveryNumberHasOneEncoding) {
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{16383},
        uint64_t{16384}, uint64_t{1} << 63, ~uint64_t{0}}) {
    std::string bytes;
    AppendVarint(value, &bytes);
    ByteReader reader(bytes);
    EXPECT_EQ(reader.Varint(), value);
    EXPECT_TRUE(reader.ok() && reader.AtEnd());
  }
  for (const std::string& bad :
       {std::string("\x80\x00", 2), std::string("\xff\x80\x00", 3),
        std::string("\x80"), std::string(10, '\xff'),
        std::string(9, '\xff') + "\x02"}) {
    ByteReader reader(bad);
    EXPECT_EQ(reader.Varint(), 0u);
    EXPECT_FALSE(reader.ok());
  }
}

TEST(FindBlock, IsTheLastBlockThatDoesNotStartAfterTheName) {
  ManifestHeader header;
  header.block_first_names = {"b", "d", "f"};
  EXPECT_EQ(FindBlock(header, "a"), std::nullopt);
  EXPECT_EQ(FindBlock(header, "b"), 0u);
  EXPECT_EQ(FindBlock(header, "c"), 0u);
  EXPECT_EQ(FindBlock(header, "d"), 1u);
  EXPECT_EQ(FindBlock(header, "\xff"), 2u);
  EXPECT_EQ(FindBlock(ManifestHeader{}, "a"), std::nullopt);
}

}  // namespace
}  // namespace cairn::format
