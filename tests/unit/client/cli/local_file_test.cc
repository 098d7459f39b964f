#include "client/cli/local_file.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "format/base/bytes.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/cli/temp_dir.h"

namespace cairn::client::cli {
namespace {

using format::AsBytes;
using testing::IsOk;
using testing::StatusIs;
using testing::TempDir;

TEST(LocalFile, ReadsRangesOfAFile) {
  const TempDir dir;
  dir.Write("f", "0123456789");
  auto file = LocalFile::OpenForRead(dir.Path("f"));
  ASSERT_OK(file);
  EXPECT_EQ((*file)->size_bytes(), 10u);
  std::vector<uint8_t> bytes(4);
  ASSERT_OK((*file)->ReadAt(3, bytes));
  EXPECT_EQ(format::AsText(bytes), "3456");
  EXPECT_OK((*file)->ReadAt(10, {}));
}

TEST(LocalFile, FileThatBecameShorterIsDataLoss) {
  const TempDir dir;
  dir.Write("f", "0123456789");
  auto file = LocalFile::OpenForRead(dir.Path("f"));
  ASSERT_OK(file);
  std::filesystem::resize_file(dir.Path("f"), 5);
  std::vector<uint8_t> bytes(4);
  EXPECT_THAT((*file)->ReadAt(3, bytes),
              StatusIs(absl::StatusCode::kDataLoss, dir.Path("f")));
}

TEST(LocalFile, AbsentFileIsNotFoundAndNamed) {
  const TempDir dir;
  EXPECT_THAT(LocalFile::OpenForRead(dir.Path("none")),
              StatusIs(absl::StatusCode::kNotFound, dir.Path("none")));
}

TEST(LocalFile, DirectoryIsNoFile) {
  const TempDir dir;
  EXPECT_THAT(
      LocalFile::OpenForRead(dir.Path("")),
      StatusIs(absl::StatusCode::kInvalidArgument, "not a regular file"));
}

TEST(LocalFile, NewContentAppearsAtCommitAndNotBefore) {
  const TempDir dir;
  dir.Write("f", "old");
  auto file = LocalFile::CreateBeside(dir.Path("f"));
  ASSERT_OK(file);
  // In any order, with the hole filled later.
  ASSERT_OK((*file)->WriteAt(4, AsBytes("5678")));
  ASSERT_OK((*file)->WriteAt(0, AsBytes("1234")));
  EXPECT_EQ(dir.Read("f"), "old");
  ASSERT_OK((*file)->Commit());
  EXPECT_EQ(dir.Read("f"), "12345678");
  file->reset();
  EXPECT_EQ(dir.Read("f"), "12345678");
  EXPECT_EQ(dir.Entries(), 1u);
}

TEST(LocalFile, FileThatWasNotCommittedLeavesNothingBehind) {
  const TempDir dir;
  dir.Write("f", "old");
  auto file = LocalFile::CreateBeside(dir.Path("f"));
  ASSERT_OK(file);
  ASSERT_OK((*file)->WriteAt(0, AsBytes("new")));
  EXPECT_EQ(dir.Entries(), 2u);
  file->reset();
  EXPECT_EQ(dir.Entries(), 1u);
  EXPECT_EQ(dir.Read("f"), "old");
}

TEST(LocalFile, NewFileInAnAbsentDirectoryIsNotFound) {
  const TempDir dir;
  EXPECT_THAT(LocalFile::CreateBeside(dir.Path("none/f")),
              StatusIs(absl::StatusCode::kNotFound, dir.Path("none/f")));
}

TEST(AlignedMemory, IsZeroedAndPageAligned) {
  const AlignedMemory memory(10'000);
  ASSERT_EQ(memory.bytes().size(), 10'000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.bytes().data()) % 4096, 0u);
  EXPECT_TRUE(std::all_of(memory.bytes().begin(), memory.bytes().end(),
                          [](uint8_t byte) { return byte == 0; }));
  memory.bytes().back() = 1;
}

TEST(AlignedMemory, OfNoBytesIsEmpty) {
  EXPECT_TRUE(AlignedMemory(0).bytes().empty());
}

}  // namespace
}  // namespace cairn::client::cli
