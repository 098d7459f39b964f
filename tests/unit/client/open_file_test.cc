// Files through OpenFile, held against an array of bytes.
#include "client/file/open_file.h"

#include "client/file/open.h"
#include "tests/support/co_assert.h"
#include "tests/unit/client/cluster_fixture.h"

namespace cairn::client {
namespace {

constexpr char kFilePath[] = "/file";
constexpr uint64_t kFileBytesMax = 3 * format::kMiB;

std::vector<uint8_t> RandomBytes(sim::Random* random, uint64_t size) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random->Next());
  return bytes;
}

uint64_t RandomSize(sim::Random* random) {
  switch (random->Below(3)) {
    case 0:
      return random->Between(1, 100);
    case 1:
      return random->Between(1, 100 * format::kKiB);
    default:
      return random->Between(1, format::kMiB);
  }
}

// One file, open, beside what it must hold.
struct Subject {
  OpenFile* file;
  std::vector<uint8_t> model;
  sim::Random* random;
};

io::Task<void> WriteSome(Subject* s) {
  const std::vector<uint8_t> bytes =
      RandomBytes(s->random, RandomSize(s->random));
  const uint64_t at = s->random->Below(kFileBytesMax - bytes.size());
  const absl::Status written = co_await s->file->Pwrite(at, bytes);
  CO_ASSERT_OK(written);
  if (s->model.size() < at + bytes.size()) s->model.resize(at + bytes.size());
  std::copy(bytes.begin(), bytes.end(),
            s->model.begin() + static_cast<std::ptrdiff_t>(at));
}

io::Task<void> AppendSome(Subject* s) {
  const std::vector<uint8_t> bytes =
      RandomBytes(s->random, RandomSize(s->random));
  const absl::StatusOr<uint64_t> at = co_await s->file->Append(bytes);
  CO_ASSERT_OK(at);
  EXPECT_EQ(*at, s->model.size());
  s->model.insert(s->model.end(), bytes.begin(), bytes.end());
}

io::Task<void> TruncateSome(Subject* s) {
  const uint64_t size = s->random->Below(s->model.size() + 100'000);
  const absl::Status truncated = co_await s->file->Truncate(size);
  CO_ASSERT_OK(truncated);
  s->model.resize(size);
}

io::Task<void> ReadSome(Subject* s) {
  const uint64_t at = s->random->Below(s->model.size() + 1000);
  std::vector<uint8_t> bytes(RandomSize(s->random), 0xa5);
  const absl::StatusOr<uint64_t> read = co_await s->file->Pread(at, bytes);
  CO_ASSERT_OK(read);
  const uint64_t there =
      at >= s->model.size()
          ? 0
          : std::min<uint64_t>(bytes.size(), s->model.size() - at);
  EXPECT_EQ(*read, there);
  for (uint64_t i = 0; i < there; ++i) {
    if (bytes[i] == s->model[at + i]) continue;
    ADD_FAILURE() << "wrong byte at " << at + i;
    co_return;
  }
}

io::Task<void> Operate(Subject* s) {
  EXPECT_EQ(s->file->size_bytes(), s->model.size());
  switch (s->random->Below(8)) {
    case 0:
      co_await TruncateSome(s);
      break;
    case 1:
      if (s->model.size() < kFileBytesMax) co_await AppendSome(s);
      break;
    case 2:
    case 3:
    case 4:
      co_await WriteSome(s);
      break;
    case 5: {
      const absl::Status synced = co_await s->file->Fsync();
      CO_ASSERT_OK(synced);
      break;
    }
    default:
      co_await ReadSome(s);
  }
}

io::Task<void> ReadAll(Core* core, const std::vector<uint8_t>* expected) {
  OpenOptions options;
  auto file = co_await OpenOnLoop(core, kFilePath, options);
  CO_ASSERT_OK(file);
  std::vector<uint8_t> bytes(expected->size() + 1);
  const absl::StatusOr<uint64_t> read = co_await (*file)->Pread(0, bytes);
  co_await (*file)->Finish();
  CO_ASSERT_OK(read);
  bytes.resize(*read);
  EXPECT_TRUE(bytes == *expected);
}

io::Task<void> OperateMany(Core* core, Core* other, sim::Random* random,
                           int operations) {
  OpenOptions options;
  options.write = true;
  options.create = true;
  auto file = co_await OpenOnLoop(core, kFilePath, options);
  CO_ASSERT_OK(file);
  Subject subject{file->get(), {}, random};
  for (int i = 0; i < operations && !::testing::Test::HasFailure(); ++i) {
    co_await Operate(&subject);
    if (random->OneIn(8)) {
      // Closed to open: another client sees all of it.
      const absl::Status synced = co_await (*file)->Fsync();
      CO_ASSERT_OK(synced);
      co_await ReadAll(other, &subject.model);
    }
  }
  const absl::Status synced = co_await (*file)->Fsync();
  co_await (*file)->Finish();
  CO_ASSERT_OK(synced);
  co_await ReadAll(other, &subject.model);
}

// Kills and restarts servers until told to stop, one at a time.
struct Fate {
  sim::SimCluster* cluster;
  sim::Random random;
  bool stop = false;
  uint64_t kills = 0;
};

io::Task<void> KillAndRestart(Fate* fate) {
  sim::SimCluster* const cluster = fate->cluster;
  while (!fate->stop) {
    co_await io::SleepFor(cluster->world(),
                          fate->random.Below(50 * io::kMillisecond));
    const uint32_t victim = static_cast<uint32_t>(
        fate->random.Below(cluster->options().targets + 1));
    ++fate->kills;
    const bool power = fate->random.OneIn(2);
    if (victim == 0) {
      power ? cluster->CrashMeta() : cluster->KillMeta();
    } else {
      power ? cluster->CrashTarget(victim) : cluster->KillTarget(victim);
    }
    co_await io::SleepFor(cluster->world(),
                          fate->random.Below(io::kSecond / 2));
    absl::Status started;
    if (victim == 0) {
      started = co_await cluster->StartMeta();
    } else {
      started = co_await cluster->StartTarget(victim);
    }
    CO_ASSERT_OK(started);
  }
}

class OpenFileTest : public ClusterTest {
 protected:
  void Make(uint64_t seed, std::string scheme) {
    sim::ClusterOptions options;
    options.seed = seed;
    options.scheme = std::move(scheme);
    MakeCluster(options);
    writer_ = cluster_->NewClient("writer");
    reader_ = cluster_->NewClient("reader");
  }
  sim::SimClient* writer_ = nullptr;
  sim::SimClient* reader_ = nullptr;
};

TEST_F(OpenFileTest, RandomOperationsGiveWhatAnArrayOfBytesGives) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(seed, seed % 2 == 0 ? "rs:2+1" : "replicate:2");
    cluster_->world()->Run(
        OperateMany(writer_->core(), reader_->core(), cluster_->random(), 60));
    if (HasFailure()) break;
  }
}

TEST_F(OpenFileTest, RandomOperationsGiveTheSameWhileServersAreKilled) {
  uint64_t kills = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(seed, seed % 2 == 0 ? "rs:2+1" : "replicate:2");
    Fate fate{cluster_.get(), cluster_->random()->Fork()};
    io::Gate gate(cluster_->world());
    gate.Spawn(KillAndRestart(&fate));
    cluster_->world()->Run(
        OperateMany(writer_->core(), reader_->core(), cluster_->random(), 60));
    fate.stop = true;
    cluster_->world()->Run(gate.Close());
    kills += fate.kills;
    if (HasFailure()) break;
  }
  EXPECT_GT(kills, 20u);
}

// What was not published is not there, whatever was on the targets by then.
io::Task<void> WriteWithoutSync(Core* core, const std::vector<uint8_t>* synced,
                                const std::vector<uint8_t>* unsynced) {
  OpenOptions options;
  options.write = true;
  options.create = true;
  auto file = co_await OpenOnLoop(core, kFilePath, options);
  CO_ASSERT_OK(file);
  CO_ASSERT_OK(co_await (*file)->Pwrite(0, *synced));
  CO_ASSERT_OK(co_await (*file)->Fsync());
  CO_ASSERT_OK(co_await (*file)->Pwrite(100, *unsynced));
  co_await (*file)->Finish();
}

TEST_F(OpenFileTest, WriterKilledBeforeItsFsyncLeavesTheOldBytes) {
  Make(3, "rs:2+1");
  const auto synced = RandomBytes(cluster_->random(), format::kMiB);
  const auto unsynced = RandomBytes(cluster_->random(), format::kMiB);
  cluster_->world()->Run(WriteWithoutSync(writer_->core(), &synced, &unsynced));
  cluster_->KillClient(writer_);
  cluster_->Sleep(io::kSecond);
  cluster_->world()->Run(ReadAll(reader_->core(), &synced));
}

// The second fsync has nothing left to send, and must not say that all is well.
io::Task<void> FsyncTwice(sim::SimCluster* cluster, Core* core,
                          const std::vector<uint8_t>* bytes) {
  OpenOptions options;
  options.write = true;
  options.create = true;
  auto file = co_await OpenOnLoop(core, kFilePath, options);
  CO_ASSERT_OK(file);
  CO_ASSERT_OK(co_await (*file)->Pwrite(0, *bytes));
  cluster->KillMeta();
  const absl::Status first = co_await (*file)->Fsync();
  const absl::Status started = co_await cluster->StartMeta();
  CO_ASSERT_OK(started);
  const absl::Status second = co_await (*file)->Fsync();
  co_await (*file)->Finish();
  EXPECT_THAT(first, StatusIs(absl::StatusCode::kDeadlineExceeded, ""));
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kDeadlineExceeded, ""));
}

TEST_F(OpenFileTest, FsyncAfterOneThatFailedFailsToo) {
  Make(4, "rs:2+1");
  const auto bytes = RandomBytes(cluster_->random(), 100'000);
  cluster_->world()->Run(FsyncTwice(cluster_.get(), writer_->core(), &bytes));
}

io::Task<void> ReadAfterTruncate(Core* writing, Core* reading,
                                 const std::vector<uint8_t>* bytes) {
  OpenOptions options;
  options.write = true;
  options.create = true;
  auto file = co_await OpenOnLoop(writing, kFilePath, options);
  CO_ASSERT_OK(file);
  CO_ASSERT_OK(co_await (*file)->Pwrite(0, *bytes));
  CO_ASSERT_OK(co_await (*file)->Fsync());
  const OpenOptions to_read;
  auto reader = co_await OpenOnLoop(reading, kFilePath, to_read);
  CO_ASSERT_OK(reader);
  CO_ASSERT_OK(co_await (*file)->Truncate(1000));
  co_await (*file)->Finish();
  std::vector<uint8_t> got(bytes->size());
  const absl::StatusOr<uint64_t> read = co_await (*reader)->Pread(0, got);
  co_await (*reader)->Finish();
  CO_ASSERT_OK(read);
  EXPECT_EQ(*read, 1000u);  // And not zeros up to the size it had.
}

TEST_F(OpenFileTest, FileThatWasShortenedAfterItsOpenEndsWhereItEndsNow) {
  Make(5, "rs:2+1");
  const auto bytes = RandomBytes(cluster_->random(), 100'000);
  cluster_->world()->Run(
      ReadAfterTruncate(writer_->core(), reader_->core(), &bytes));
}

// Two appenders through one metadata service: each gets a place of its own.
io::Task<void> AppendMany(Core* core, uint8_t mark, std::vector<uint64_t>* at) {
  OpenOptions options;
  options.write = true;
  options.create = true;
  auto file = co_await OpenOnLoop(core, kFilePath, options);
  CO_ASSERT_OK(file);
  const std::vector<uint8_t> bytes(50'000, mark);
  for (int i = 0; i < 10; ++i) {
    const absl::StatusOr<uint64_t> place = co_await (*file)->Append(bytes);
    CO_ASSERT_OK(place);
    at->push_back(*place);
  }
  co_await (*file)->Finish();
}

TEST_F(OpenFileTest, AppendsOfTwoClientsNeverOverwriteEachOther) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Make(seed, "replicate:2");
    std::vector<uint64_t> ones;
    std::vector<uint64_t> twos;
    io::Gate gate(cluster_->world());
    gate.Spawn(AppendMany(writer_->core(), 1, &ones));
    gate.Spawn(AppendMany(reader_->core(), 2, &twos));
    cluster_->world()->Run(gate.Close());
    std::vector<uint8_t> expected(20 * 50'000);
    for (const uint64_t at : ones) std::fill_n(&expected[at], 50'000, 1);
    for (const uint64_t at : twos) std::fill_n(&expected[at], 50'000, 2);
    EXPECT_EQ(std::ranges::count(expected, 0), 0);
    cluster_->world()->Run(ReadAll(reader_->core(), &expected));
  }
}

}  // namespace
}  // namespace cairn::client
