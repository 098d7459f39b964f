#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/io/real_env_fixture.h"

namespace cairn::io {
namespace {

using format::kDiskAlignBytes;
using format::kMiB;
using ::testing::ElementsAre;
using testing::StatusIs;

class FileTest : public RealEnvTest {
 protected:
  static constexpr OpenOptions kMake{.write = true, .create = true};
  static constexpr OpenOptions kMakeDirect{
      .write = true, .create = true, .direct = true};

  std::vector<uint8_t> Read(File* file, uint64_t offset, uint64_t size_bytes) {
    std::vector<uint8_t> bytes(size_bytes);
    EXPECT_OK(Get(file->ReadAt(offset, bytes)));
    return bytes;
  }
};
CAIRN_FOR_BOTH_BACKENDS(FileTest);

TEST_P(FileTest, WrittenBytesAreReadBackThroughAnotherHandle) {
  const std::vector<uint8_t> bytes = Noise(3 * kMiB + 17, 1);
  auto writer = Open(PathOf("f"), kMake);
  ASSERT_OK(Get(writer->WriteAt(5, bytes)));
  ASSERT_OK(Get(writer->Sync()));
  ASSERT_OK(Get(writer->Close()));
  auto reader = Open(PathOf("f"), {});
  EXPECT_EQ(Read(reader.get(), 5, bytes.size()), bytes);
  EXPECT_EQ(Read(reader.get(), 0, 5), std::vector<uint8_t>(5, 0));
  EXPECT_EQ(*Get(reader->SizeBytes()), bytes.size() + 5);
  ASSERT_OK(Get(reader->Close()));
}

TEST_P(FileTest, DirectDurableWriteFromPoolMemoryIsReadBackIntoPoolMemory) {
  const Buffer from = env_->pool()->TryAcquire(4 * kMiB);
  const Buffer to = env_->pool()->TryAcquire(4 * kMiB);
  const std::vector<uint8_t> bytes = Noise(4 * kMiB, 2);
  std::ranges::copy(bytes, from.bytes().begin());
  auto file = Open(PathOf("f"), kMakeDirect);
  const WriteOptions durable{.durable = true};
  ASSERT_OK(Get(file->WriteAt(8 * kMiB, from.bytes(), durable)));
  ASSERT_OK(Get(file->ReadAt(8 * kMiB, to.bytes())));
  EXPECT_TRUE(std::ranges::equal(bytes, to.bytes()));
  // Part of a registered buffer.
  ASSERT_OK(Get(file->ReadAt(9 * kMiB, to.bytes().subspan(kMiB, kMiB))));
  EXPECT_TRUE(std::ranges::equal(to.bytes().subspan(kMiB, kMiB),
                                 std::span(bytes).subspan(kMiB, kMiB)));
  ASSERT_OK(Get(file->Close()));
}

TEST_P(FileTest, MisalignedDirectAccessIsRefused) {
  const Buffer buffer = env_->pool()->TryAcquire(kMiB);
  const MutableBytes block = buffer.bytes().first(kDiskAlignBytes);
  auto file = Open(PathOf("f"), kMakeDirect);
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument, "aligned");
  EXPECT_THAT(Get(file->WriteAt(512, block)), refused);
  EXPECT_THAT(Get(file->ReadAt(0, block.first(512))), refused);
  EXPECT_THAT(Get(file->ReadAt(0, buffer.bytes().subspan(8, kDiskAlignBytes))),
              refused);
  ASSERT_OK(Get(file->Close()));
}

TEST_P(FileTest, ReadPastTheEndIsOutOfRangeWithWhatThereIs) {
  const std::vector<uint8_t> bytes = Noise(1000, 3);
  auto file = Open(PathOf("f"), kMake);
  ASSERT_OK(Get(file->WriteAt(0, bytes)));
  std::vector<uint8_t> to(1500, 0xEE);
  const auto out_of_range = StatusIs(absl::StatusCode::kOutOfRange, "1000");
  EXPECT_THAT(Get(file->ReadAt(0, to)), out_of_range);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), to.begin()));
  EXPECT_THAT(Get(file->ReadAt(1000, to)), out_of_range);
  EXPECT_THAT(Get(file->ReadAt(5000, to)),
              StatusIs(absl::StatusCode::kOutOfRange, "5000"));
  EXPECT_OK(Get(file->ReadAt(5000, {})));
  ASSERT_OK(Get(file->Close()));
}

TEST_P(FileTest, DirectReadOfAFileThatEndsInsideABlockIsOutOfRange) {
  auto writer = Open(PathOf("f"), kMake);
  ASSERT_OK(Get(writer->WriteAt(0, Noise(5000, 4))));
  ASSERT_OK(Get(writer->Close()));
  auto file = Open(PathOf("f"), {.direct = true});
  const Buffer buffer = env_->pool()->TryAcquire(kMiB);
  EXPECT_THAT(Get(file->ReadAt(0, buffer.bytes().first(4 * kDiskAlignBytes))),
              StatusIs(absl::StatusCode::kOutOfRange, "5000"));
  EXPECT_TRUE(std::ranges::equal(buffer.bytes().first(5000), Noise(5000, 4)));
  ASSERT_OK(Get(file->Close()));
}

TEST_P(FileTest, OffsetsPastTwoAndFourGigabytesReachTheirOwnPlaces) {
  auto file = Open(PathOf("f"), kMake);
  const std::vector<uint64_t> offsets = {0,
                                         (uint64_t{1} << 31) - 3,
                                         (uint64_t{1} << 31) + 5,
                                         (uint64_t{1} << 32) - 1,
                                         (uint64_t{1} << 32) + 4096,
                                         uint64_t{1} << 40};
  for (size_t i = 0; i < offsets.size(); ++i) {
    const std::vector<uint8_t> bytes(2, static_cast<uint8_t>(i + 1));
    ASSERT_OK(Get(file->WriteAt(offsets[i], bytes)));
  }
  for (size_t i = 0; i < offsets.size(); ++i) {
    EXPECT_EQ(Read(file.get(), offsets[i], 2),
              std::vector<uint8_t>(2, static_cast<uint8_t>(i + 1)));
  }
  EXPECT_EQ(*Get(file->SizeBytes()), (uint64_t{1} << 40) + 2);
  ASSERT_OK(Get(file->Close()));
}

// 2 GiB of address space over 64 MiB of memory.
class AliasedMemory {
 public:
  explicit AliasedMemory(uint64_t size_bytes) : size_bytes_(size_bytes) {
    const int fd = memfd_create("alias", MFD_CLOEXEC);
    CAIRN_CHECK(fd >= 0 && ftruncate(fd, kPieceBytes) == 0);
    void* const start =
        mmap(nullptr, size_bytes_, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CAIRN_CHECK(start != MAP_FAILED);
    start_ = static_cast<uint8_t*>(start);
    for (uint64_t at = 0; at < size_bytes_; at += kPieceBytes) {
      const uint64_t piece = std::min<uint64_t>(kPieceBytes, size_bytes_ - at);
      CAIRN_CHECK(mmap(start_ + at, piece, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
    }
    close(fd);
  }
  AliasedMemory(const AliasedMemory&) = delete;
  AliasedMemory& operator=(const AliasedMemory&) = delete;
  ~AliasedMemory() { munmap(start_, size_bytes_); }
  MutableBytes bytes() const { return {start_, size_bytes_}; }

 private:
  static constexpr uint64_t kPieceBytes = 64 * kMiB;
  const uint64_t size_bytes_;
  uint8_t* start_;
};

TEST_P(FileTest, OneReadOfMoreThanTwoGigabytesReachesItsLastByte) {
  const uint64_t size_bytes = (uint64_t{1} << 31) + kDiskAlignBytes;
  const Buffer block = env_->pool()->TryAcquire(kDiskAlignBytes);
  const MutableBytes last = block.bytes().first(kDiskAlignBytes);
  std::ranges::copy(Noise(kDiskAlignBytes, 5), last.begin());
  auto file = Open(PathOf("f"), kMakeDirect);
  ASSERT_OK(Get(file->WriteAt(size_bytes - kDiskAlignBytes, last)));
  const AliasedMemory memory(size_bytes);
  ASSERT_OK(Get(file->ReadAt(0, memory.bytes())));
  EXPECT_TRUE(std::ranges::equal(memory.bytes().last(kDiskAlignBytes), last));
  ASSERT_OK(Get(file->Close()));
}

TEST_P(FileTest, WriteOverTheSizeLimitFailsAndTheProcessLives) {
  auto file = Open(PathOf("f"), kMake);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {.rlim_cur = kMiB, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = Get(file->WriteAt(0, Noise(2 * kMiB, 6)));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, "EFBIG"));
  ASSERT_OK(Get(file->Close()));
}

Task<void> WriteBlock(File* file, uint64_t index, MutableBytes memory,
                      absl::Status* status) {
  std::ranges::fill(memory, static_cast<uint8_t>(index));
  *status = co_await file->WriteAt(index * memory.size(), memory);
}

Task<void> WriteBlocks(Env* env, File* file, std::vector<uint8_t>* memory,
                       std::vector<absl::Status>* statuses) {
  Gate gate(env);
  const uint64_t size_bytes = memory->size() / statuses->size();
  for (uint64_t i = 0; i < statuses->size(); ++i) {
    const MutableBytes block(memory->data() + i * size_bytes, size_bytes);
    gate.Spawn(WriteBlock(file, i, block, &(*statuses)[i]));
  }
  co_await gate.Close();
}

TEST_P(FileTest, ThousandOverlappingCallsAllFinishRight) {
  auto file = Open(PathOf("f"), kMake);
  std::vector<uint8_t> memory(1000 * 512);
  std::vector<absl::Status> statuses(1000, absl::UnknownError("not run"));
  Run(WriteBlocks(env_.get(), file.get(), &memory, &statuses));
  for (const absl::Status& status : statuses) ASSERT_OK(status);
  EXPECT_EQ(Read(file.get(), 0, memory.size()), memory);
  ASSERT_OK(Get(file->Close()));
}

TEST_P(FileTest, AllocateMakesTheFileLongAndTruncateMakesItShort) {
  auto file = Open(PathOf("f"), kMake);
  ASSERT_OK(Get(file->Allocate(kMiB)));
  EXPECT_EQ(*Get(file->SizeBytes()), kMiB);
  ASSERT_OK(Get(file->Allocate(100)));
  EXPECT_EQ(*Get(file->SizeBytes()), kMiB);
  ASSERT_OK(Get(file->Truncate(100)));
  EXPECT_EQ(*Get(file->SizeBytes()), 100u);
  EXPECT_THAT(Get(file->Allocate(uint64_t{1} << 60)),
              StatusIs(absl::StatusCode::kResourceExhausted, "fallocate"));
  ASSERT_OK(Get(file->Close()));
}

TEST_P(FileTest, SecondLockIsRefusedUntilTheFirstIsClosed) {
  auto first = Open(PathOf("f"), kMake);
  auto second = Open(PathOf("f"), kMake);
  ASSERT_OK(Get(first->LockExclusive()));
  EXPECT_THAT(Get(second->LockExclusive()),
              StatusIs(absl::StatusCode::kFailedPrecondition, "locked"));
  ASSERT_OK(Get(first->Close()));
  EXPECT_OK(Get(second->LockExclusive()));
  ASSERT_OK(Get(second->Close()));
}

TEST_P(FileTest, OpenOptionsDecideAboutAbsentAndPresentFiles) {
  const std::string path = PathOf("f");
  EXPECT_THAT(Get(env_->OpenFile(path, {})),
              StatusIs(absl::StatusCode::kNotFound, "ENOENT"));
  const OpenOptions exclusive{.write = true, .create = true, .exclusive = true};
  auto file = Open(path, exclusive);
  ASSERT_OK(Get(file->WriteAt(0, Noise(10, 7))));
  ASSERT_OK(Get(file->Close()));
  EXPECT_THAT(Get(env_->OpenFile(path, exclusive)),
              StatusIs(absl::StatusCode::kAlreadyExists, path));
  file = Open(path, {.write = true, .truncate = true});
  EXPECT_EQ(*Get(file->SizeBytes()), 0u);
  ASSERT_OK(Get(file->Close()));
  file = Open(path, {});
  EXPECT_FALSE(Get(file->WriteAt(0, Noise(10, 8))).ok());
  ASSERT_OK(Get(file->Close()));
}

TEST_P(FileTest, FileSystemWithoutDirectAccessIsReadThroughThePageCache) {
  auto file = Open("/proc/version", {.direct = true});
  const Buffer buffer = env_->pool()->TryAcquire(kDiskAlignBytes);
  EXPECT_THAT(Get(file->ReadAt(0, buffer.bytes().first(kDiskAlignBytes))),
              StatusIs(absl::StatusCode::kOutOfRange, "/proc/version"));
  EXPECT_EQ(std::memcmp(buffer.bytes().data(), "Linux", 5), 0);
  ASSERT_OK(Get(file->Close()));
}

TEST_P(FileTest, DirectoriesAreMadeListedRenamedAndRemoved) {
  ASSERT_OK(Get(env_->MakeDirectory(PathOf("d"))));
  EXPECT_THAT(Get(env_->MakeDirectory(PathOf("d"))),
              StatusIs(absl::StatusCode::kAlreadyExists, "mkdir"));
  for (const char* const name : {"d/b", "d/a", "d/c"}) {
    auto file = Open(PathOf(name), kMake);
    ASSERT_OK(Get(file->WriteAt(0, Noise(9, 1))));
    ASSERT_OK(Get(file->Close()));
  }
  ASSERT_OK(Get(env_->Rename(PathOf("d/a"), PathOf("d/z"))));
  ASSERT_OK(Get(env_->SyncDirectory(PathOf("d"))));
  EXPECT_THAT(*Get(env_->ListDirectory(PathOf("d"))),
              ElementsAre("b", "c", "z"));
  EXPECT_FALSE(Get(env_->Remove(PathOf("d"))).ok());  // Not empty.
  for (const char* const name : {"d/b", "d/c", "d/z", "d"}) {
    ASSERT_OK(Get(env_->Remove(PathOf(name)))) << name;
  }
  const auto not_found = StatusIs(absl::StatusCode::kNotFound, "ENOENT");
  EXPECT_THAT(Get(env_->Remove(PathOf("d"))), not_found);
  EXPECT_THAT(Get(env_->ListDirectory(PathOf("d"))), not_found);
  EXPECT_THAT(Get(env_->SyncDirectory(PathOf("d"))), not_found);
  EXPECT_THAT(Get(env_->Rename(PathOf("d"), PathOf("e"))), not_found);
}

TEST_P(FileTest, StatTellsFilesDirectoriesAndNothingApart) {
  auto file = Open(PathOf("f"), kMake);
  ASSERT_OK(Get(file->WriteAt(0, Noise(77, 1))));
  ASSERT_OK(Get(file->Close()));
  const std::optional<FileInfo> of_file = *Get(env_->Stat(PathOf("f")));
  ASSERT_TRUE(of_file.has_value());
  EXPECT_FALSE(of_file->is_directory);
  EXPECT_EQ(of_file->size_bytes, 77u);
  EXPECT_TRUE((*Get(env_->Stat(PathOf("."))))->is_directory);
  EXPECT_FALSE(Get(env_->Stat(PathOf("absent")))->has_value());
  const absl::StatusOr<DiskSpace> space = Get(env_->Space(PathOf(".")));
  ASSERT_OK(space);
  EXPECT_GT(space->total_bytes, 0u);
  EXPECT_LE(space->free_bytes, space->total_bytes);
}

}  // namespace

}  // namespace cairn::io
