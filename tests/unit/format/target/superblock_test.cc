#include "format/target/superblock.h"

#include <fstream>
#include <sstream>

#include "format/checksum/block_checksum.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;

Superblock Sample() {
  Superblock superblock;
  for (uint8_t i = 0; i < 16; ++i) superblock.cluster_id.bytes[i] = i;
  superblock.target_id = TargetId(3);
  superblock.disk_generation = 7;
  superblock.slab_bytes = kGiB;
  superblock.capacity_bytes = 10 * kGiB + 8 * kKiB;
  superblock.format_wall_ns = 1'700'000'000'000'000'000;
  superblock.generation = 1;
  return superblock;
}

char* Copy(std::string* file, uint32_t copy) {
  return file->data() + copy * kSuperblockBytes;
}

// Makes a changed copy whole again, as only a writer could.
void Seal(std::string* file, uint32_t copy) {
  char* const at = Copy(file, copy);
  StoreLe(at + kSuperblockBytes - 8,
          Xxh3({reinterpret_cast<const uint8_t*>(at), kSuperblockBytes - 8}));
}

TEST(Superblock, RoundTrip) {
  const auto decoded = DecodeSuperblock(AsBytes(EncodeSuperblock(Sample())));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->superblock, Sample());
  EXPECT_EQ(decoded->good_copies, kSuperblockCopies);
}

std::string Golden(const std::string& name) {
  std::ifstream golden("tests/golden/target/" + name, std::ios::binary);
  std::stringstream bytes;
  bytes << golden.rdbuf();
  return bytes.str();
}

TEST(Superblock, BytesAreThoseOfTheGoldenFile) {
  Superblock superblock = Sample();
  superblock.admission = 0x0102030405060708;
  EXPECT_TRUE(EncodeSuperblock(superblock) == Golden("superblock_v2.bin"));
}

TEST(Superblock, Version1ReadsAsNeverAdmitted) {
  const auto decoded = DecodeSuperblock(AsBytes(Golden("superblock_v1.bin")));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->superblock, Sample());
  EXPECT_EQ(decoded->superblock.admission, 0u);
  EXPECT_EQ(decoded->good_copies, kSuperblockCopies);
}

TEST(Superblock, AdmissionInVersion1IsDamage) {
  std::string file = EncodeSuperblock(Sample());
  StoreLe(Copy(&file, 0) + 8, uint32_t{1});
  StoreLe(Copy(&file, 0) + 80, uint64_t{5});
  Seal(&file, 0);
  const auto decoded = DecodeSuperblock(AsBytes(file));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->superblock, Sample());
  EXPECT_EQ(decoded->good_copies, 3u);
}

TEST(Superblock, AdmissionRoundTrips) {
  Superblock superblock = Sample();
  superblock.admission = ~0ULL;
  const auto decoded = DecodeSuperblock(AsBytes(EncodeSuperblock(superblock)));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->superblock.admission, ~0ULL);
}

TEST(Superblock, AnyOneWholeCopyIsEnough) {
  for (uint32_t survivor = 0; survivor < kSuperblockCopies; ++survivor) {
    SCOPED_TRACE(survivor);
    std::string file = EncodeSuperblock(Sample());
    for (uint32_t copy = 0; copy < kSuperblockCopies; ++copy) {
      if (copy != survivor) Copy(&file, copy)[40] ^= 1;
    }
    const auto decoded = DecodeSuperblock(AsBytes(file));
    ASSERT_OK(decoded);
    EXPECT_EQ(decoded->superblock, Sample());
    EXPECT_EQ(decoded->good_copies, 1u);
  }
}

TEST(Superblock, NoWholeCopyIsDataLoss) {
  std::string file = EncodeSuperblock(Sample());
  for (uint32_t copy = 0; copy < kSuperblockCopies; ++copy) {
    Copy(&file, copy)[100] ^= 0x40;
  }
  EXPECT_THAT(DecodeSuperblock(AsBytes(file)),
              StatusIs(absl::StatusCode::kDataLoss, "all copies"));
}

TEST(Superblock, CorruptMagicInEveryCopyIsDataLoss) {
  std::string file = EncodeSuperblock(Sample());
  for (uint32_t copy = 0; copy < kSuperblockCopies; ++copy) {
    Copy(&file, copy)[0] = 'X';
    Seal(&file, copy);
  }
  EXPECT_THAT(DecodeSuperblock(AsBytes(file)),
              StatusIs(absl::StatusCode::kDataLoss, "all copies"));
}

TEST(Superblock, CorruptChecksumLosesThatCopyOnly) {
  std::string file = EncodeSuperblock(Sample());
  Copy(&file, 1)[kSuperblockBytes - 1] ^= 1;
  const auto decoded = DecodeSuperblock(AsBytes(file));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->good_copies, 3u);
}

TEST(Superblock, CorruptLengthLosesTheCopiesBeyondTheEnd) {
  const std::string file = EncodeSuperblock(Sample());
  for (uint64_t size = 0; size < kSuperblockBytes; size += 512) {
    EXPECT_THAT(DecodeSuperblock(AsBytes(file).first(size)),
                StatusIs(absl::StatusCode::kDataLoss, ""));
  }
  const auto decoded =
      DecodeSuperblock(AsBytes(file).first(2 * kSuperblockBytes + 77));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->good_copies, 2u);
}

TEST(Superblock, NewerVersionInOneCopyIsRefused) {
  std::string file = EncodeSuperblock(Sample());
  StoreLe(Copy(&file, 2) + 8, uint32_t{kSuperblockVersion + 1});
  Seal(&file, 2);
  EXPECT_THAT(DecodeSuperblock(AsBytes(file)),
              StatusIs(absl::StatusCode::kFailedPrecondition, "newer"));
}

TEST(Superblock, CopyAtAnotherCopysPlaceDoesNotCount) {
  std::string file = EncodeSuperblock(Sample());
  std::memcpy(Copy(&file, 0), Copy(&file, 3), kSuperblockBytes);
  const auto decoded = DecodeSuperblock(AsBytes(file));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->good_copies, 3u);
}

TEST(Superblock, GreatestGenerationWins) {
  Superblock next = Sample();
  next.generation = 2;
  next.disk_generation = 8;
  std::string file = EncodeSuperblock(Sample());
  const std::string newer = EncodeSuperblock(next);
  file.replace(3 * kSuperblockBytes, kSuperblockBytes, newer,
               3 * kSuperblockBytes, kSuperblockBytes);
  const auto decoded = DecodeSuperblock(AsBytes(file));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->superblock, next);
  EXPECT_EQ(decoded->good_copies, 1u);
}

TEST(Superblock, MajorityWinsWithinOneGeneration) {
  std::string file = EncodeSuperblock(Sample());
  StoreLe(Copy(&file, 0) + 32, uint32_t{9});
  Seal(&file, 0);
  const auto decoded = DecodeSuperblock(AsBytes(file));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->superblock.target_id, TargetId(3));
  EXPECT_EQ(decoded->good_copies, 3u);
}

TEST(Superblock, TieWithinOneGenerationIsDataLoss) {
  std::string file = EncodeSuperblock(Sample());
  for (uint32_t copy : {0u, 1u}) {
    StoreLe(Copy(&file, copy) + 32, uint32_t{9});
    Seal(&file, copy);
  }
  EXPECT_THAT(DecodeSuperblock(AsBytes(file)),
              StatusIs(absl::StatusCode::kDataLoss, "contradict"));
}

TEST(Superblock, EveryFlippedBitIsSeen) {
  const std::string good = EncodeSuperblock(Sample()).substr(0, 4096);
  for (uint64_t bit = 0; bit < 8 * 4096; bit += 5) {
    std::string file = good;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(DecodeSuperblock(AsBytes(file)).ok()) << "bit " << bit;
  }
}

TEST(Superblock, SizesThatCannotBeAreNamed) {
  Superblock bad = Sample();
  bad.slab_bytes += 1;
  EXPECT_THAT(ValidateSuperblock(bad),
              StatusIs(absl::StatusCode::kInvalidArgument, "slab"));
  bad = Sample();
  bad.capacity_bytes = 0;
  EXPECT_THAT(ValidateSuperblock(bad),
              StatusIs(absl::StatusCode::kInvalidArgument, "capacity"));
  bad = Sample();
  bad.target_id = TargetId(0);
  EXPECT_THAT(ValidateSuperblock(bad),
              StatusIs(absl::StatusCode::kInvalidArgument, "target id"));
}

}  // namespace
}  // namespace cairn::format
