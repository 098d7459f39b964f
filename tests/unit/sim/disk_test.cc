#include "tests/sim/disk.h"

#include <algorithm>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace cairn::sim {
namespace {

using ::cairn::testing::IsOk;
using ::cairn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kSeeds = 200;

CrashOptions Dropping() {
  CrashOptions options;
  options.unflushed = Unflushed::kDropAll;
  return options;
}

io::OpenOptions Creating() {
  io::OpenOptions options;
  options.write = true;
  options.create = true;
  return options;
}

std::vector<uint8_t> Filled(size_t size, uint8_t value) {
  return std::vector<uint8_t>(size, value);
}

// A disk with a flushed file "/f" of 8 KiB of ones, its name durable too.
class DiskTest : public ::testing::Test {
 protected:
  explicit DiskTest(uint64_t seed = 1) : disk_(DiskOptions(), seed) {
    file_ = Make("/f");
    Write(0, 8192, 1);
    file_->data.FlushUpTo(file_->data.last_change());
    EXPECT_OK(disk_.SyncDirectory("/"));
  }

  InodePtr Make(std::string_view path) {
    const absl::StatusOr<InodePtr> made = disk_.Open(path, Creating());
    EXPECT_OK(made);
    return *made;
  }
  uint64_t Write(uint64_t offset, size_t size, uint8_t value) {
    const absl::StatusOr<uint64_t> written =
        disk_.Write(file_.get(), offset, Filled(size, value));
    EXPECT_OK(written);
    return written.value_or(0);
  }
  std::vector<uint8_t> Contents(std::string_view path = "/f") {
    const absl::StatusOr<InodePtr> file = disk_.Open(path, io::OpenOptions());
    EXPECT_OK(file);
    if (!file.ok()) return {};
    std::vector<uint8_t> bytes((*file)->data.size_bytes());
    EXPECT_OK(disk_.Read(file->get(), 0, bytes));
    return bytes;
  }
  bool Exists(std::string_view path) {
    const auto info = disk_.Stat(path);
    EXPECT_OK(info);
    return info.ok() && info->has_value();
  }
  std::vector<std::string> Names(std::string_view path) {
    const auto names = disk_.List(path);
    EXPECT_OK(names);
    return names.ok() ? *names : std::vector<std::string>();
  }

  Disk disk_;
  InodePtr file_;
};

// --- File contents.

TEST_F(DiskTest, UnflushedWriteIsReadButLostWithThePower) {
  Write(4096, 4096, 2);
  EXPECT_EQ(Contents()[5000], 2);
  disk_.Crash(Dropping());
  EXPECT_TRUE(Contents() == Filled(8192, 1));
}

TEST_F(DiskTest, FlushedWriteSurvives) {
  Write(4096, 8192, 2);
  file_->data.FlushUpTo(file_->data.last_change());
  disk_.Crash(Dropping());
  std::vector<uint8_t> expected = Filled(12288, 2);
  std::fill_n(expected.begin(), 4096, uint8_t{1});
  EXPECT_TRUE(Contents() == expected);
}

TEST_F(DiskTest, FlushCoversOnlyWhatWasWrittenBeforeIt) {
  const uint64_t before = Write(0, 100, 2);
  Write(100, 100, 3);
  file_->data.FlushUpTo(before);
  disk_.Crash(Dropping());
  EXPECT_EQ(Contents()[50], 2);
  EXPECT_EQ(Contents()[150], 1);
}

TEST_F(DiskTest, DurableWriteSurvivesWithoutItsNeighbours) {
  Write(0, 512, 2);
  const uint64_t durable = Write(1024, 512, 3);
  Write(2048, 512, 4);
  file_->data.FlushOne(durable);
  disk_.Crash(Dropping());
  EXPECT_EQ(Contents()[0], 1);
  EXPECT_EQ(Contents()[1024], 3);
  EXPECT_EQ(Contents()[2048], 1);
}

// Else a later flush of the older write would undo the newer one.
TEST_F(DiskTest, DurableWriteOverAnUnflushedOneStaysOnTop) {
  Write(0, 1024, 2);
  const uint64_t durable = Write(512, 1024, 3);
  file_->data.FlushOne(durable);
  file_->data.FlushUpTo(file_->data.last_change());
  disk_.Crash(Dropping());
  EXPECT_EQ(Contents()[511], 2);
  EXPECT_EQ(Contents()[512], 3);
}

TEST_F(DiskTest, UnflushedTruncateIsUndone) {
  file_->data.Resize(10);
  EXPECT_EQ(Contents().size(), 10u);
  disk_.Crash(Dropping());
  EXPECT_TRUE(Contents() == Filled(8192, 1));
}

TEST_F(DiskTest, KeepAllLosesNothing) {
  Write(4096, 8192, 2);
  Make("/new");
  CrashOptions options;
  options.unflushed = Unflushed::kKeepAll;
  disk_.Crash(options);
  EXPECT_EQ(Contents().size(), 12288u);
  EXPECT_TRUE(Exists("/new"));
}

// One write of 8 sectors after another seed's: whole, gone, or torn at a
// sector.
TEST(DiskCrash, UnflushedWriteIsKeptDroppedOrTornAtASector) {
  std::set<uint64_t> kept_bytes;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Disk disk(DiskOptions(), seed);
    const InodePtr file = *disk.Open("/f", Creating());
    ASSERT_OK(disk.SyncDirectory("/"));
    ASSERT_OK(disk.Write(file.get(), 0, Filled(4096, 1)));
    disk.Crash(CrashOptions());
    const uint64_t size = file->data.size_bytes();
    EXPECT_EQ(size % kSectorBytes, 0u);
    kept_bytes.insert(size);
  }
  EXPECT_TRUE(kept_bytes.contains(0) && kept_bytes.contains(4096));
  EXPECT_EQ(kept_bytes.size(), 9u) << "every tear of 8 sectors happens";
}

TEST(DiskCrash, WithoutTearingAWriteIsWholeOrGone) {
  std::set<uint64_t> kept_bytes;
  CrashOptions options;
  options.tear = false;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Disk disk(DiskOptions(), seed);
    const InodePtr file = *disk.Open("/f", Creating());
    ASSERT_OK(disk.SyncDirectory("/"));
    ASSERT_OK(disk.Write(file.get(), 0, Filled(4096, 1)));
    disk.Crash(options);
    kept_bytes.insert(file->data.size_bytes());
  }
  EXPECT_THAT(kept_bytes, ElementsAre(0, 4096));
}

TEST(DiskCrash, ScatteredWriteKeepsAnySubsetOfItsSectors) {
  std::set<std::vector<uint8_t>> seen;
  CrashOptions options;
  options.scatter = true;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Disk disk(DiskOptions(), seed);
    const InodePtr file = *disk.Open("/f", Creating());
    ASSERT_OK(disk.SyncDirectory("/"));
    ASSERT_OK(disk.Write(file.get(), 0, Filled(4 * kSectorBytes, 0)));
    file->data.FlushUpTo(file->data.last_change());
    ASSERT_OK(disk.Write(file.get(), 0, Filled(4 * kSectorBytes, 1)));
    disk.Crash(options);
    std::vector<uint8_t> bytes(4 * kSectorBytes);
    ASSERT_OK(disk.Read(file.get(), 0, bytes));
    std::vector<uint8_t> sectors;
    for (size_t at = 0; at < bytes.size(); at += kSectorBytes) {
      sectors.push_back(bytes[at]);
      EXPECT_EQ(
          std::count(bytes.begin() + static_cast<ptrdiff_t>(at),
                     bytes.begin() + static_cast<ptrdiff_t>(at + kSectorBytes),
                     bytes[at]),
          static_cast<ptrdiff_t>(kSectorBytes));
    }
    seen.insert(sectors);
  }
  EXPECT_GT(seen.size(), 12u) << "of 16 subsets";
}

TEST(DiskCrash, LaterWriteMaySurviveAnEarlierOne) {
  bool seen = false;
  for (uint64_t seed = 0; seed < kSeeds && !seen; ++seed) {
    Disk disk(DiskOptions(), seed);
    const InodePtr file = *disk.Open("/f", Creating());
    ASSERT_OK(disk.SyncDirectory("/"));
    ASSERT_OK(disk.Write(file.get(), 0, Filled(512, 1)));
    ASSERT_OK(disk.Write(file.get(), 512, Filled(512, 2)));
    disk.Crash(CrashOptions());
    if (file->data.size_bytes() < 1024) continue;
    std::vector<uint8_t> first(1);
    ASSERT_OK(disk.Read(file.get(), 0, first));
    seen = first[0] == 0;
  }
  EXPECT_TRUE(seen);
}

TEST_F(DiskTest, ChosenChangesSurviveAndOthersAreGone) {
  const InodePtr made = Make("/made");  // Bit 0: its name.
  Write(0, 512, 2);                     // Bits 1 to 3, in "/f".
  Write(512, 512, 3);
  Write(1024, 512, 4);
  ASSERT_OK(disk_.Write(made.get(), 0, Filled(10, 5)));  // Bit 4.
  EXPECT_EQ(disk_.unflushed(), 5u);
  CrashOptions options;
  options.unflushed = Unflushed::kChosen;
  options.survivors = 0b10101;
  disk_.Crash(options);
  std::vector<uint8_t> expected = Filled(8192, 1);
  std::fill_n(expected.begin() + 512, 512, uint8_t{3});
  EXPECT_TRUE(Contents() == expected);
  EXPECT_TRUE(Contents("/made") == Filled(10, 5));
  EXPECT_EQ(disk_.unflushed(), 0u);
}

TEST(DiskCrash, DrawsFromASeedOfItsOwnAreTheSameOnAnyDisk) {
  std::set<std::vector<uint8_t>> seen;
  for (uint64_t disk_seed = 0; disk_seed < 4; ++disk_seed) {
    Disk disk(DiskOptions(), disk_seed);
    const InodePtr file = *disk.Open("/f", Creating());
    ASSERT_OK(disk.SyncDirectory("/"));
    ASSERT_OK(disk.Write(file.get(), 0, Filled(16 * 512, 1)));
    file->data.FlushUpTo(file->data.last_change());
    ASSERT_OK(disk.Write(file.get(), 0, Filled(16 * 512, 2)));
    CrashOptions options;
    options.seed = 3;
    options.scatter = true;
    disk.Crash(options);
    std::vector<uint8_t> bytes(16 * 512);
    ASSERT_OK(disk.Read(file.get(), 0, bytes));
    seen.insert(bytes);
  }
  EXPECT_EQ(seen.size(), 1u);
}

// --- Names.

TEST_F(DiskTest, FlushedFileWithoutADurableNameIsGone) {
  const InodePtr file = Make("/new");
  ASSERT_OK(disk_.Write(file.get(), 0, Filled(10, 1)));
  file->data.FlushUpTo(file->data.last_change());
  disk_.Crash(Dropping());
  EXPECT_FALSE(Exists("/new"));
  EXPECT_TRUE(Exists("/f"));
}

TEST_F(DiskTest, SyncedDirectoryKeepsItsNames) {
  ASSERT_OK(disk_.MakeDirectory("/d"));
  Make("/d/x");
  ASSERT_OK(disk_.SyncDirectory("/d"));
  ASSERT_OK(disk_.SyncDirectory("/"));
  disk_.Crash(Dropping());
  EXPECT_THAT(Names("/"), ElementsAre("d", "f"));
  EXPECT_THAT(Names("/d"), ElementsAre("x"));
}

TEST_F(DiskTest, SyncOfADirectoryDoesNotKeepItsOwnName) {
  ASSERT_OK(disk_.MakeDirectory("/d"));
  Make("/d/x");
  ASSERT_OK(disk_.SyncDirectory("/d"));
  disk_.Crash(Dropping());
  EXPECT_THAT(Names("/"), ElementsAre("f"));
}

TEST_F(DiskTest, SyncOfAParentDoesNotKeepNamesBelow) {
  ASSERT_OK(disk_.MakeDirectory("/d"));
  Make("/d/x");
  ASSERT_OK(disk_.SyncDirectory("/"));
  disk_.Crash(Dropping());
  EXPECT_THAT(Names("/d"), IsEmpty());
}

TEST_F(DiskTest, UnsyncedRenameAndRemoveAreUndone) {
  const InodePtr other = Make("/g");
  ASSERT_OK(disk_.SyncDirectory("/"));
  ASSERT_OK(disk_.Rename("/f", "/g"));
  ASSERT_OK(disk_.Remove("/g"));
  EXPECT_THAT(Names("/"), IsEmpty());
  disk_.Crash(Dropping());
  EXPECT_THAT(Names("/"), ElementsAre("f", "g"));
  EXPECT_TRUE(Contents("/f") == Filled(8192, 1));
  EXPECT_TRUE(Contents("/g").empty());
}

TEST_F(DiskTest, SyncedRenameStays) {
  ASSERT_OK(disk_.Rename("/f", "/g"));
  ASSERT_OK(disk_.SyncDirectory("/"));
  disk_.Crash(Dropping());
  EXPECT_THAT(Names("/"), ElementsAre("g"));
}

// The classic bug: rename into place before the new contents were flushed.
TEST_F(DiskTest, RenamedFileMayBeEmptyIfItWasNotFlushed) {
  const InodePtr next = Make("/f.new");
  ASSERT_OK(disk_.Write(next.get(), 0, Filled(100, 9)));
  ASSERT_OK(disk_.Rename("/f.new", "/f"));
  ASSERT_OK(disk_.SyncDirectory("/"));
  disk_.Crash(Dropping());
  EXPECT_TRUE(Contents("/f").empty());
}

TEST(DiskCrash, RenameBetweenDirectoriesIsNeverHalfDone) {
  std::set<bool> moved;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Disk disk(DiskOptions(), seed);
    ASSERT_OK(disk.MakeDirectory("/a"));
    ASSERT_OK(disk.MakeDirectory("/b"));
    ASSERT_OK(disk.Open("/a/x", Creating()));
    for (const char* const path : {"/", "/a", "/b"}) {
      ASSERT_OK(disk.SyncDirectory(path));
    }
    ASSERT_OK(disk.Rename("/a/x", "/b/y"));
    disk.Crash(CrashOptions());
    const bool in_a = !disk.List("/a")->empty();
    const bool in_b = !disk.List("/b")->empty();
    EXPECT_NE(in_a, in_b) << "seed " << seed;
    moved.insert(in_b);
  }
  EXPECT_EQ(moved.size(), 2u) << "both outcomes happen";
}

TEST(DiskCrash, NamesOfOneDirectorySurviveInOrder) {
  std::set<size_t> counts;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Disk disk(DiskOptions(), seed);
    for (const char* const path : {"/1", "/2", "/3"}) {
      ASSERT_OK(disk.Open(path, Creating()));
    }
    disk.Crash(CrashOptions());
    const std::vector<std::string> names = *disk.List("/");
    counts.insert(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(names[i], std::to_string(i + 1)) << "seed " << seed;
    }
  }
  EXPECT_THAT(counts, ElementsAre(0, 1, 2, 3));
}

TEST_F(DiskTest, DirectoryCannotMoveBelowItself) {
  ASSERT_OK(disk_.MakeDirectory("/d"));
  ASSERT_OK(disk_.MakeDirectory("/d/e"));
  EXPECT_THAT(disk_.Rename("/d", "/d/e/d"),
              StatusIs(absl::StatusCode::kInvalidArgument, ""));
}

TEST_F(DiskTest, PathsWithDotsAndDoubleSlashesAreTheSamePlace) {
  ASSERT_OK(disk_.MakeDirectory("/d"));
  EXPECT_TRUE(Exists("//d/.././f"));
  EXPECT_FALSE(Exists("/d/f"));
}

// --- Faults.

TEST_F(DiskTest, CorruptedByteIsWrongBeforeAndAfterALossOfPower) {
  ASSERT_OK(disk_.CorruptFile("/f", 100, 0x80));
  EXPECT_EQ(Contents()[100], 0x81);
  disk_.Crash(Dropping());
  EXPECT_EQ(Contents()[100], 0x81);
  EXPECT_EQ(Contents()[101], 1);
  EXPECT_THAT(disk_.CorruptFile("/f", 8192),
              StatusIs(absl::StatusCode::kOutOfRange, ""));
}

TEST_F(DiskTest, FullDiskRefusesAndRemovalMakesRoom) {
  disk_.set_capacity_bytes(disk_.used_bytes() + SparseBytes::kPageBytes);
  const InodePtr more = Make("/more");
  EXPECT_OK(disk_.Write(more.get(), 0, Filled(100, 1)));
  EXPECT_THAT(disk_.Write(more.get(), SparseBytes::kPageBytes, Filled(1, 1)),
              StatusIs(absl::StatusCode::kResourceExhausted, ""));
  EXPECT_THAT(disk_.Reserve(more.get(), 3 * SparseBytes::kPageBytes),
              StatusIs(absl::StatusCode::kResourceExhausted, ""));
  EXPECT_OK(disk_.Write(more.get(), 100, Filled(100, 1)))
      << "no new page is needed";
  file_.reset();
  ASSERT_OK(disk_.Remove("/f"));
  ASSERT_OK(disk_.SyncDirectory("/"));
  EXPECT_OK(disk_.Write(more.get(), SparseBytes::kPageBytes, Filled(1, 1)));
}

TEST_F(DiskTest, ReservedSpaceCountsAsUsed) {
  const uint64_t before = disk_.used_bytes();
  const InodePtr slab = Make("/slab");
  ASSERT_OK(disk_.Reserve(slab.get(), format::kGiB));
  EXPECT_EQ(disk_.used_bytes(), before + format::kGiB);
  disk_.set_capacity_bytes(disk_.used_bytes());
  EXPECT_OK(disk_.Write(slab.get(), 0, Filled(100'000, 1)))
      << "space reserved before the disk was full";
}

TEST_F(DiskTest, LockIsHeldPerOpenFileAndDiesWithItsProcess) {
  const int first = 0;
  const int second = 0;
  EXPECT_TRUE(disk_.Lock(file_.get(), 1, &first));
  EXPECT_TRUE(disk_.Lock(file_.get(), 1, &first));
  EXPECT_FALSE(disk_.Lock(file_.get(), 2, &second));
  disk_.Unlock(file_.get(), &second);
  EXPECT_FALSE(disk_.Lock(file_.get(), 2, &second));
  disk_.UnlockAllOf(1);
  EXPECT_TRUE(disk_.Lock(file_.get(), 2, &second));
}

}  // namespace
}  // namespace cairn::sim
