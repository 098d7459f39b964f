// Files and directories: see env_conformance.h.
#include <algorithm>
#include <map>

#include "tests/conformance/io/env_conformance.h"

namespace cairn::io {
namespace {

using cairn::testing::IsOk;
using cairn::testing::StatusIs;
using ::testing::ElementsAre;

// The whole of a file that must exist, or a failure noted.
Task<std::vector<uint8_t>> ReadWhole(Env* env, std::string path) {
  std::vector<uint8_t> bytes;
  auto opened = co_await env->OpenFile(path, OpenOptions());
  EXPECT_OK(opened.status());
  if (!opened.ok()) co_return bytes;
  const std::unique_ptr<File> file = *std::move(opened);
  const absl::StatusOr<uint64_t> size = co_await file->SizeBytes();
  EXPECT_OK(size.status());
  if (size.ok()) bytes.resize(*size);
  const absl::Status read = co_await file->ReadAt(0, bytes);
  EXPECT_OK(read);
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
  co_return bytes;
}

Task<void> MakeFile(Env* env, std::string path, std::vector<uint8_t> bytes) {
  auto opened = co_await env->OpenFile(path, ForWriting());
  CO_ASSERT_OK(opened);
  const std::unique_ptr<File> file = *std::move(opened);
  const absl::Status written = co_await file->WriteAt(0, bytes);
  EXPECT_OK(written);
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
}

// --- Contents.

Task<void> WriteInThreePlaces(Env* env, std::string path) {
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> file,
                          co_await env->OpenFile(path, ForWriting()));
  const std::vector<uint8_t> bytes = PatternOf(1, 300'000);
  const ConstBytes all(bytes);
  for (const auto& [offset, size] : std::map<uint64_t, uint64_t>{
           {200'000, 100'000}, {0, 77}, {77, 199'923}}) {
    const absl::Status written =
        co_await file->WriteAt(offset, all.subspan(offset, size));
    EXPECT_OK(written);
  }
  std::vector<uint8_t> middle(150'001);
  const absl::Status read = co_await file->ReadAt(99'999, middle);
  EXPECT_OK(read);
  EXPECT_TRUE(std::ranges::equal(middle, all.subspan(99'999, middle.size())));
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
  const std::vector<uint8_t> again = co_await ReadWhole(env, path);
  EXPECT_TRUE(again == bytes);
}

TEST_P(EnvConformance, WrittenRangesReadBackAtTheirOffsets) {
  Run(WriteInThreePlaces(env(), Path("file")));
}

Task<void> ReadPastEnd(Env* env, std::string path) {
  co_await MakeFile(env, path, PatternOf(2, 100));
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> file,
                          co_await env->OpenFile(path, OpenOptions()));
  std::vector<uint8_t> to(50, 0xEE);
  const absl::Status across = co_await file->ReadAt(80, to);
  EXPECT_THAT(across, StatusIs(absl::StatusCode::kOutOfRange, ""));
  const std::vector<uint8_t> bytes = PatternOf(2, 100);
  EXPECT_TRUE(std::equal(to.begin(), to.begin() + 20, bytes.begin() + 80))
      << "the part before the end is in the caller's memory";
  const absl::Status beyond = co_await file->ReadAt(1'000, to);
  EXPECT_THAT(beyond, StatusIs(absl::StatusCode::kOutOfRange, ""));
  const absl::Status exact = co_await file->ReadAt(50, to);
  EXPECT_OK(exact);
  const absl::Status nothing = co_await file->ReadAt(100, MutableBytes());
  EXPECT_OK(nothing);
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
}

TEST_P(EnvConformance, ReadPastTheEndIsOutOfRange) {
  Run(ReadPastEnd(env(), Path("short")));
}

Task<void> ReadHole(Env* env, std::string path) {
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> file,
                          co_await env->OpenFile(path, ForWriting()));
  const std::vector<uint8_t> tail = PatternOf(3, 10);
  const absl::Status written = co_await file->WriteAt(1'000'000, tail);
  EXPECT_OK(written);
  std::vector<uint8_t> hole(500'000, 0xEE);
  const absl::Status read = co_await file->ReadAt(400'000, hole);
  EXPECT_OK(read);
  EXPECT_EQ(std::count(hole.begin(), hole.end(), 0), 500'000);
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
}

TEST_P(EnvConformance, HoleReadsAsZeros) { Run(ReadHole(env(), Path("hole"))); }

Task<void> TruncateAndGrow(Env* env, std::string path) {
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> file,
                          co_await env->OpenFile(path, ForWriting()));
  const std::vector<uint8_t> bytes = PatternOf(4, 10'000);
  const absl::Status written = co_await file->WriteAt(0, bytes);
  EXPECT_OK(written);
  const absl::Status cut = co_await file->Truncate(1'234);
  EXPECT_OK(cut);
  const absl::StatusOr<uint64_t> size = co_await file->SizeBytes();
  EXPECT_EQ(size.value_or(0), 1'234u);
  const absl::Status grown = co_await file->Truncate(5'000);
  EXPECT_OK(grown);
  std::vector<uint8_t> expected(bytes.begin(), bytes.begin() + 1'234);
  expected.resize(5'000);
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
  const std::vector<uint8_t> again = co_await ReadWhole(env, path);
  EXPECT_TRUE(again == expected) << "cut bytes must not come back";
}

TEST_P(EnvConformance, TruncatedBytesReadAsZerosAfterGrowth) {
  Run(TruncateAndGrow(env(), Path("cut")));
}

Task<void> AllocateTwice(Env* env, std::string path) {
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> file,
                          co_await env->OpenFile(path, ForWriting()));
  const absl::Status large = co_await file->Allocate(1 << 20);
  EXPECT_OK(large);
  const absl::Status smaller = co_await file->Allocate(1 << 10);
  EXPECT_OK(smaller);
  const absl::StatusOr<uint64_t> size = co_await file->SizeBytes();
  EXPECT_EQ(size.value_or(0), uint64_t{1} << 20);
  std::vector<uint8_t> last(100, 0xEE);
  const absl::Status read = co_await file->ReadAt((1 << 20) - 100, last);
  EXPECT_OK(read);
  EXPECT_EQ(std::count(last.begin(), last.end(), 0), 100);
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
}

TEST_P(EnvConformance, AllocateGrowsAndNeverShrinks) {
  Run(AllocateTwice(env(), Path("slab")));
}

Task<void> WriteDurably(Env* env, std::string path) {
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> file,
                          co_await env->OpenFile(path, ForWriting()));
  WriteOptions durable;
  durable.durable = true;
  const std::vector<uint8_t> bytes = PatternOf(5, 70'000);
  const absl::Status written = co_await file->WriteAt(0, bytes, durable);
  EXPECT_OK(written);
  const absl::Status synced = co_await file->Sync();
  EXPECT_OK(synced);
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
  const std::vector<uint8_t> again = co_await ReadWhole(env, path);
  EXPECT_TRUE(again == bytes);
}

TEST_P(EnvConformance, DurableWriteAndSyncReadBack) {
  Run(WriteDurably(env(), Path("durable")));
}

Task<void> WriteDirect(Env* env, std::string path) {
  OpenOptions options = ForWriting();
  options.direct = true;
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> file,
                          co_await env->OpenFile(path, options));
  const uint64_t size = 3 * format::kBlockBytes;
  const Buffer out = co_await env->pool()->Acquire(size);
  const Buffer in = co_await env->pool()->Acquire(size);
  CO_ASSERT_TRUE(out && in);
  const std::vector<uint8_t> bytes = PatternOf(6, size);
  std::ranges::copy(bytes, out.bytes().begin());
  WriteOptions durable;
  durable.durable = true;
  const absl::Status written =
      co_await file->WriteAt(8'192, out.bytes().first(size), durable);
  EXPECT_OK(written);
  const absl::Status read =
      co_await file->ReadAt(8'192, in.bytes().first(size));
  EXPECT_OK(read);
  EXPECT_TRUE(std::ranges::equal(in.bytes().first(size), bytes));
  const absl::Status past =
      co_await file->ReadAt(8'192 + size, in.bytes().first(4'096));
  EXPECT_THAT(past, StatusIs(absl::StatusCode::kOutOfRange, ""));
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
}

TEST_P(EnvConformance, DirectFileReadsBackWhatPoolBuffersWrote) {
  Run(WriteDirect(env(), Path("direct")));
}

Task<void> WriteOneBlock(File* file, uint64_t index) {
  const std::vector<uint8_t> block = PatternOf(index, 10'000);
  const absl::Status written = co_await file->WriteAt(index * 10'000, block);
  EXPECT_OK(written);
}

Task<void> WriteConcurrently(Env* env, std::string path) {
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> file,
                          co_await env->OpenFile(path, ForWriting()));
  Gate gate(env);
  for (uint64_t i = 0; i < 64; ++i) gate.Spawn(WriteOneBlock(file.get(), i));
  co_await gate.Close();
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
  const std::vector<uint8_t> again = co_await ReadWhole(env, path);
  CO_ASSERT_TRUE(again.size() == 640'000);
  for (uint64_t i = 0; i < 64; ++i) {
    const std::vector<uint8_t> block = PatternOf(i, 10'000);
    EXPECT_TRUE(std::equal(block.begin(), block.end(),
                           again.begin() + static_cast<ptrdiff_t>(i * 10'000)));
  }
}

TEST_P(EnvConformance, OverlappingCallsOnOneFileAllFinish) {
  Run(WriteConcurrently(env(), Path("parallel")));
}

// --- Names.

Task<void> OpenInEachMode(Env* env, std::string path) {
  const auto absent = co_await env->OpenFile(path, OpenOptions());
  EXPECT_THAT(absent, StatusIs(absl::StatusCode::kNotFound, ""));
  co_await MakeFile(env, path, PatternOf(7, 50));
  OpenOptions exclusive = ForWriting();
  exclusive.exclusive = true;
  const auto refused = co_await env->OpenFile(path, exclusive);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kAlreadyExists, ""));
  const std::vector<uint8_t> kept = co_await ReadWhole(env, path);
  EXPECT_EQ(kept.size(), 50u);
  OpenOptions truncate = ForWriting();
  truncate.truncate = true;
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> file,
                          co_await env->OpenFile(path, truncate));
  const absl::StatusOr<uint64_t> size = co_await file->SizeBytes();
  EXPECT_EQ(size.value_or(1), 0u);
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
  const auto nowhere = co_await env->OpenFile(path + "-no/file", ForWriting());
  EXPECT_THAT(nowhere, StatusIs(absl::StatusCode::kNotFound, ""));
}

TEST_P(EnvConformance, OpenObeysCreateExclusiveAndTruncate) {
  Run(OpenInEachMode(env(), Path("modes")));
}

Task<void> OpenTooLong(Env* env, std::string directory) {
  const auto opened = co_await env->OpenFile(
      directory + "/" + std::string(300, 'x'), ForWriting());
  EXPECT_THAT(opened, StatusIs(absl::StatusCode::kInvalidArgument, ""));
}

TEST_P(EnvConformance, NameThatCannotBeIsInvalid) {
  Run(OpenTooLong(env(), directory()));
}

Task<void> RenameOver(Env* env, std::string from, std::string to) {
  co_await MakeFile(env, from, PatternOf(8, 10));
  co_await MakeFile(env, to, PatternOf(9, 20));
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> replaced,
                          co_await env->OpenFile(to, OpenOptions()));
  const absl::Status renamed = co_await env->Rename(from, to);
  EXPECT_OK(renamed);
  const std::vector<uint8_t> now = co_await ReadWhole(env, to);
  EXPECT_TRUE(now == PatternOf(8, 10));
  const auto gone = co_await env->Stat(from);
  CO_ASSERT_OK(gone);
  EXPECT_FALSE(gone->has_value());
  std::vector<uint8_t> old(20);
  const absl::Status read = co_await replaced->ReadAt(0, old);
  EXPECT_OK(read);
  EXPECT_TRUE(old == PatternOf(9, 20)) << "an open file outlives its name";
  const absl::Status closed = co_await replaced->Close();
  EXPECT_OK(closed);
  const absl::Status again = co_await env->Rename(from, to);
  EXPECT_THAT(again, StatusIs(absl::StatusCode::kNotFound, ""));
}

TEST_P(EnvConformance, RenameReplacesTheGoalAtOnce) {
  Run(RenameOver(env(), Path("from"), Path("to")));
}

Task<void> ListMade(Env* env, std::string directory) {
  const std::string top = directory + "/top";
  const absl::Status made = co_await env->MakeDirectory(top);
  CO_ASSERT_OK(made);
  const absl::Status twice = co_await env->MakeDirectory(top);
  EXPECT_THAT(twice, StatusIs(absl::StatusCode::kAlreadyExists, ""));
  for (const std::string name : {"b", "a10", "a9", "Z"}) {
    co_await MakeFile(env, top + "/" + name, {});
  }
  const absl::Status below = co_await env->MakeDirectory(top + "/m");
  EXPECT_OK(below);
  CO_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names,
                          co_await env->ListDirectory(top));
  EXPECT_THAT(names, ElementsAre("Z", "a10", "a9", "b", "m"));
  const absl::Status synced = co_await env->SyncDirectory(top);
  EXPECT_OK(synced);
  const auto absent = co_await env->ListDirectory(top + "/none");
  EXPECT_THAT(absent, StatusIs(absl::StatusCode::kNotFound, ""));
}

TEST_P(EnvConformance, ListingIsSortedAndWhole) {
  Run(ListMade(env(), directory()));
}

Task<void> StatEach(Env* env, std::string directory) {
  co_await MakeFile(env, directory + "/file", PatternOf(10, 345));
  CO_ASSERT_OK_AND_ASSIGN(const std::optional<FileInfo> file,
                          co_await env->Stat(directory + "/file"));
  CO_ASSERT_TRUE(file.has_value());
  EXPECT_FALSE(file->is_directory);
  EXPECT_EQ(file->size_bytes, 345u);
  CO_ASSERT_OK_AND_ASSIGN(const std::optional<FileInfo> top,
                          co_await env->Stat(directory));
  CO_ASSERT_TRUE(top.has_value());
  EXPECT_TRUE(top->is_directory);
  CO_ASSERT_OK_AND_ASSIGN(const std::optional<FileInfo> absent,
                          co_await env->Stat(directory + "/absent"));
  EXPECT_FALSE(absent.has_value());
  CO_ASSERT_OK_AND_ASSIGN(const std::optional<FileInfo> deep,
                          co_await env->Stat(directory + "/absent/deep"));
  EXPECT_FALSE(deep.has_value());
}

TEST_P(EnvConformance, StatOfTheAbsentIsNullopt) {
  Run(StatEach(env(), directory()));
}

Task<void> RemoveEach(Env* env, std::string directory) {
  const std::string below = directory + "/below";
  const absl::Status made = co_await env->MakeDirectory(below);
  EXPECT_OK(made);
  co_await MakeFile(env, below + "/file", PatternOf(11, 1));
  const absl::Status full = co_await env->Remove(below);
  EXPECT_FALSE(full.ok()) << "a directory that is not empty was removed";
  const absl::Status file = co_await env->Remove(below + "/file");
  EXPECT_OK(file);
  const absl::Status again = co_await env->Remove(below + "/file");
  EXPECT_THAT(again, StatusIs(absl::StatusCode::kNotFound, ""));
  const absl::Status empty = co_await env->Remove(below);
  EXPECT_OK(empty);
  const auto gone = co_await env->Stat(below);
  CO_ASSERT_OK(gone);
  EXPECT_FALSE(gone->has_value());
}

TEST_P(EnvConformance, RemoveTakesFilesAndEmptyDirectories) {
  Run(RemoveEach(env(), directory()));
}

Task<void> LockTwice(Env* env, std::string path) {
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> first,
                          co_await env->OpenFile(path, ForWriting()));
  CO_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> second,
                          co_await env->OpenFile(path, ForWriting()));
  const absl::Status taken = co_await first->LockExclusive();
  EXPECT_OK(taken);
  const absl::Status refused = co_await second->LockExclusive();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition, ""));
  const absl::Status closed = co_await first->Close();
  EXPECT_OK(closed);
  const absl::Status free = co_await second->LockExclusive();
  EXPECT_OK(free) << "closing the file must free its lock";
  const absl::Status closed_too = co_await second->Close();
  EXPECT_OK(closed_too);
}

TEST_P(EnvConformance, LockIsRefusedToASecondOpenUntilTheFirstCloses) {
  Run(LockTwice(env(), Path("lock")));
}

Task<void> AskSpace(Env* env, std::string directory) {
  CO_ASSERT_OK_AND_ASSIGN(const DiskSpace space,
                          co_await env->Space(directory));
  EXPECT_GT(space.total_bytes, 0u);
  EXPECT_LE(space.free_bytes, space.total_bytes);
  const auto absent = co_await env->Space(directory + "/absent");
  EXPECT_THAT(absent, StatusIs(absl::StatusCode::kNotFound, ""));
}

TEST_P(EnvConformance, SpaceIsKnownForExistingPathsOnly) {
  Run(AskSpace(env(), directory()));
}

}  // namespace
}  // namespace cairn::io
