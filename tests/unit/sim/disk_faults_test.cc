#include "tests/sim/disk_faults.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/disk.h"
#include "tests/support/status_matchers.h"

namespace cairn::sim {
namespace {

using ::cairn::testing::StatusIs;
using Bytes = std::vector<uint8_t>;

constexpr uint64_t kBlock = format::kDiskAlignBytes;
constexpr uint64_t kBlocks = 8;
constexpr uint64_t kSeeds = 50;
constexpr uint8_t kNew = 0xee;

CrashOptions Keeping(Unflushed unflushed) {
  CrashOptions options;
  options.unflushed = unflushed;
  return options;
}

// Blocks of another byte each.
Bytes Blocks(uint64_t count, uint8_t first) {
  Bytes bytes;
  for (uint64_t i = 0; i < count; ++i) {
    bytes.insert(bytes.end(), kBlock, static_cast<uint8_t>(first + i));
  }
  return bytes;
}

// A disk with three flushed files: two slabs and an index.
class FaultyDisk {
 public:
  explicit FaultyDisk(uint64_t seed = 1) : disk(DiskOptions(), seed) {
    disk.set_on_fault([this](FaultKind kind, uint64_t) { counts.Add(kind); });
    Make("/slab.0", Blocks(kBlocks, 0x10));
    Make("/slab.1", Blocks(kBlocks, 0x20));
    Make("/index", Blocks(2, 0x30));
    EXPECT_OK(disk.SyncDirectory("/"));
  }

  void Make(std::string path, Bytes bytes) {
    io::OpenOptions options;
    options.write = true;
    options.create = true;
    const absl::StatusOr<InodePtr> file = disk.Open(path, options);
    ASSERT_OK(file);
    files[path] = *file;
    ASSERT_OK(disk.Write(file->get(), 0, bytes));
    (*file)->data.FlushUpTo((*file)->data.last_change());
  }
  Inode* inode(std::string path) { return files.at(path).get(); }

  void Arm(DiskOp op, DiskEffect effect, std::string path_contains = "slab") {
    DiskFault fault;
    fault.op = op;
    fault.effect = effect;
    fault.path_contains = path_contains;
    disk.Fail(fault);
  }
  uint64_t Write(uint64_t offset, Bytes bytes, std::string path = "/slab.0") {
    const auto written = disk.FaultyWrite(inode(path), path, offset, bytes);
    EXPECT_OK(written);
    return written.value_or(0);
  }
  absl::Status Sync(std::string path = "/slab.0") {
    return disk.FaultySync(inode(path), path, inode(path)->data.last_change());
  }
  Bytes ReadOnce(uint64_t offset, uint64_t size, std::string path = "/slab.0") {
    Bytes bytes(size, 0xaa);
    EXPECT_OK(disk.FaultyRead(inode(path), path, offset, bytes));
    return bytes;
  }
  Bytes Contents(std::string path = "/slab.0") {
    Bytes bytes(inode(path)->data.size_bytes());
    EXPECT_OK(disk.Read(inode(path), 0, bytes));
    return bytes;
  }

  FaultCounts counts;
  Disk disk;
  std::map<std::string, InodePtr> files;
};

// --- Armed errors.

TEST(DiskFaults, ArmedFaultHitsTheNthOperationOfItsKindAndPath) {
  DiskFaults faults(1);
  DiskFault fault;
  fault.op = DiskOp::kSync;
  fault.nth = 2;
  fault.times = 2;
  fault.path_contains = "slab";
  faults.Arm(fault);
  EXPECT_FALSE(faults.Draw(DiskOp::kSync, "/slab.0"));
  EXPECT_FALSE(faults.Draw(DiskOp::kSync, "/index"));
  EXPECT_FALSE(faults.Draw(DiskOp::kWrite, "/slab.0"));
  for (int i = 0; i < 2; ++i) {
    const std::optional<DiskHit> hit = faults.Draw(DiskOp::kSync, "/slab.0");
    ASSERT_TRUE(hit);
    EXPECT_THAT(hit->status, StatusIs(absl::StatusCode::kDataLoss, "EIO"));
  }
  EXPECT_FALSE(faults.Draw(DiskOp::kSync, "/slab.0"));
}

TEST(DiskFaultsDeathTest, EffectThatTheOperationCannotHaveIsRefused) {
  DiskFaults faults(1);
  DiskFault fault;
  fault.op = DiskOp::kRead;
  fault.effect = DiskEffect::kLie;
  EXPECT_DEATH(faults.Arm(fault), "CanHave");
}

TEST(DiskFaults, FailedOperationsAreCountedByKind) {
  FaultyDisk at;
  for (const DiskOp op :
       {DiskOp::kRead, DiskOp::kWrite, DiskOp::kSync, DiskOp::kName}) {
    at.Arm(op, DiskEffect::kError);
  }
  Bytes bytes(kBlock);
  Inode* const slab = at.inode("/slab.0");
  EXPECT_FALSE(at.disk.FaultyRead(slab, "/slab.0", 0, bytes).ok());
  EXPECT_FALSE(at.disk.FaultyWrite(slab, "/slab.0", 0, bytes).ok());
  EXPECT_FALSE(at.Sync().ok());
  EXPECT_FALSE(at.disk.NameFault("/slab.0").ok());
  EXPECT_EQ(at.counts.Table(),
            "disk-read-error 1\ndisk-write-error 1\ndisk-sync-error 1\n"
            "disk-name-error 1\n");
}

// --- Writes that go astray.

TEST(DiskFaults, LostWriteIsAcknowledgedAndNotStored) {
  FaultyDisk at;
  at.Arm(DiskOp::kWrite, DiskEffect::kLost);
  at.Write(kBlock, Bytes(kBlock, kNew));
  EXPECT_TRUE(at.Contents() == Blocks(kBlocks, 0x10)) << "nor cached";
  EXPECT_EQ(at.counts.of(FaultKind::kLostWrite), 1u);
  ASSERT_EQ(at.disk.damages().size(), 1u);
  EXPECT_EQ(at.disk.damages()[0].path, "/slab.0");
  EXPECT_EQ(at.disk.damages()[0].offset, kBlock);
  EXPECT_EQ(at.disk.damages()[0].size_bytes, kBlock);
  at.Write(kBlock, Bytes(kBlock, kNew));
  EXPECT_EQ(at.Contents()[kBlock], kNew) << "the next write is stored";
}

TEST(DiskFaults, LostWriteAtTheEndLeavesZeros) {
  FaultyDisk at;
  at.Arm(DiskOp::kWrite, DiskEffect::kLost);
  at.Write(kBlocks * kBlock, Bytes(100, kNew));
  Bytes expected = Blocks(kBlocks, 0x10);
  expected.resize(expected.size() + 100, 0);
  EXPECT_TRUE(at.Contents() == expected);
}

// Exactly one aligned block of a slab is overwritten, on the device too.
TEST(DiskFaults, MisdirectedWriteHitsAnotherPlaceOfASlab) {
  std::set<std::string> victims;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FaultyDisk at(seed);
    at.Arm(DiskOp::kWrite, DiskEffect::kMisdirected);
    at.Write(kBlock, Bytes(kBlock, kNew));
    at.disk.Crash(Keeping(Unflushed::kDropAll));
    ASSERT_EQ(at.disk.damages().size(), 2u);
    const Damage& victim = at.disk.damages()[1];
    EXPECT_EQ(victim.offset % kBlock, 0u);
    EXPECT_TRUE(victim.path != "/slab.0" || victim.offset != kBlock);
    std::map<std::string, Bytes> expected = {{"/slab.0", Blocks(kBlocks, 0x10)},
                                             {"/slab.1", Blocks(kBlocks, 0x20)},
                                             {"/index", Blocks(2, 0x30)}};
    std::fill_n(
        expected[victim.path].begin() + static_cast<ptrdiff_t>(victim.offset),
        kBlock, kNew);
    for (const auto& [path, bytes] : expected) {
      EXPECT_TRUE(at.Contents(path) == bytes) << path << ", seed " << seed;
    }
    victims.insert(victim.path);
  }
  EXPECT_THAT(victims, ::testing::ElementsAre("/slab.0", "/slab.1"));
}

TEST(DiskFaults, MisdirectedWriteWithNowhereElseToGoIsLost) {
  FaultyDisk at;
  at.Arm(DiskOp::kWrite, DiskEffect::kMisdirected, "index");
  at.Write(0, Bytes(2 * kBlock, kNew), "/index");
  EXPECT_TRUE(at.Contents("/index") == Blocks(2, 0x30));
  EXPECT_EQ(at.counts.Table(), "lost-write 1\n");
}

// --- Reads that go astray.

TEST(DiskFaults, MisdirectedReadIsAnotherBlockOnce) {
  std::set<uint8_t> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FaultyDisk at(seed);
    at.Arm(DiskOp::kRead, DiskEffect::kMisdirected);
    const Bytes wrong = at.ReadOnce(kBlock, kBlock);
    EXPECT_TRUE(wrong == Bytes(kBlock, wrong[0]));
    EXPECT_NE(wrong[0], 0x11);
    EXPECT_NE(wrong[0] & 0xf0, 0x30) << "the index is no slab";
    seen.insert(wrong[0]);
    EXPECT_TRUE(at.ReadOnce(kBlock, kBlock) == Bytes(kBlock, 0x11));
    EXPECT_EQ(at.counts.of(FaultKind::kMisdirectedRead), 1u);
    EXPECT_TRUE(at.disk.damages().empty());
  }
  EXPECT_GT(seen.size(), 5u);
}

TEST(DiskFaults, StaleReadIsWhatTheLastWriteReplacedOnce) {
  FaultyDisk at;
  at.Write(kBlock, Bytes(kBlock, kNew));
  ASSERT_OK(at.Sync());
  at.Arm(DiskOp::kRead, DiskEffect::kStale);
  EXPECT_TRUE(at.ReadOnce(kBlock, kBlock) == Bytes(kBlock, 0x11));
  EXPECT_TRUE(at.ReadOnce(kBlock, kBlock) == Bytes(kBlock, kNew));
  EXPECT_EQ(at.counts.of(FaultKind::kStaleRead), 1u);
}

TEST(DiskFaults, StaleReadOfWhatWasWrittenOnceIsZeros) {
  FaultyDisk at;
  at.Arm(DiskOp::kRead, DiskEffect::kStale);
  EXPECT_TRUE(at.ReadOnce(kBlock, kBlock) == Bytes(kBlock, 0));
}

TEST(DiskFaults, ZeroedReadHasOneBlockOfZerosOnce) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FaultyDisk at(seed);
    at.Arm(DiskOp::kRead, DiskEffect::kZeroed);
    const uint64_t offset = 100;  // Blocks are the device's, not the reader's.
    Bytes wrong = at.ReadOnce(offset, 3 * kBlock);
    const Bytes right = at.ReadOnce(offset, 3 * kBlock);
    const auto zero = std::find(wrong.begin(), wrong.end(), 0);
    ASSERT_NE(zero, wrong.end());
    const auto start = zero - wrong.begin();
    const auto count = std::count(wrong.begin(), wrong.end(), 0);
    const uint64_t at_byte = offset + static_cast<uint64_t>(start);
    const uint64_t end = at_byte + static_cast<uint64_t>(count);
    EXPECT_TRUE(at_byte == offset || at_byte % kBlock == 0);
    EXPECT_TRUE(end == offset + 3 * kBlock || end % kBlock == 0);
    EXPECT_LE(static_cast<uint64_t>(count), kBlock);
    std::copy_n(right.begin() + start, count, wrong.begin() + start);
    EXPECT_TRUE(wrong == right) << "and nothing else is wrong";
  }
}

TEST(DiskFaults, ReadWhoseFaultChangesNothingIsNotCounted) {
  FaultyDisk at;
  at.Make("/slab.zero", Bytes(kBlock, 0));
  at.Arm(DiskOp::kRead, DiskEffect::kZeroed);
  at.ReadOnce(0, kBlock, "/slab.zero");
  EXPECT_EQ(at.counts.total(), 0u);
}

// --- Rot.

int BitsThatDiffer(const Bytes& a, const Bytes& b) {
  int bits = 0;
  for (size_t i = 0; i < a.size(); ++i)
    bits += std::popcount(static_cast<uint8_t>(a[i] ^ b[i]));
  return bits;
}

TEST(DiskFaults, RotThatAReadFindsStays) {
  FaultyDisk at;
  at.Arm(DiskOp::kRead, DiskEffect::kRot);
  const Bytes first = at.ReadOnce(kBlock, kBlock);
  EXPECT_EQ(BitsThatDiffer(first, Bytes(kBlock, 0x11)), 1);
  at.disk.Crash(Keeping(Unflushed::kDropAll));
  EXPECT_TRUE(at.ReadOnce(kBlock, kBlock) == first);
}

TEST(DiskFaults, RotFlipsABitAtEachPlaceThatItReturns) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FaultyDisk at(seed);
    at.disk.Crash(Keeping(Unflushed::kDropAll));
    const std::vector<Damage> hits = at.disk.Rot("slab", 5);
    ASSERT_EQ(hits.size(), 5u);
    std::map<std::string, Bytes> expected = {
        {"/slab.0", Blocks(kBlocks, 0x10)}, {"/slab.1", Blocks(kBlocks, 0x20)}};
    int bits = 0;
    for (const auto& [path, bytes] : expected) {
      bits += BitsThatDiffer(at.Contents(path), bytes);
    }
    EXPECT_EQ(bits, 5);
    for (const Damage& hit : hits) {
      expected[hit.path][hit.offset] = at.Contents(hit.path)[hit.offset];
    }
    EXPECT_TRUE(at.Contents("/slab.0") == expected["/slab.0"]);
    EXPECT_TRUE(at.Contents("/slab.1") == expected["/slab.1"]);
    EXPECT_EQ(at.counts.of(FaultKind::kBitRot), 5u);
  }
}

TEST(DiskFaults, RotSparesZerosAndWhatIsNotYetOnTheDevice) {
  FaultyDisk at;
  at.Make("/t.zero", Bytes(4 * kBlock, 0));
  EXPECT_TRUE(at.disk.Rot("zero", 1).empty());
  at.Write(0, Bytes(2 * kBlock, kNew), "/index");
  EXPECT_TRUE(at.disk.Rot("index", 1).empty());
  ASSERT_OK(at.Sync("/index"));
  EXPECT_EQ(at.disk.Rot("index", 1).size(), 1u);
  EXPECT_TRUE(at.disk.Rot("nowhere", 1).empty());
}

// --- Flushes.

TEST(DiskFaults, BytesOfALyingSyncAreReadButGoWithThePower) {
  FaultyDisk at;
  at.Arm(DiskOp::kSync, DiskEffect::kLie);
  at.Write(0, Bytes(kBlock, kNew));
  EXPECT_OK(at.Sync());
  EXPECT_EQ(at.Contents()[0], kNew);
  at.disk.Crash(Keeping(Unflushed::kKeepAll));
  EXPECT_TRUE(at.Contents() == Blocks(kBlocks, 0x10));
  EXPECT_EQ(at.counts.Table(), "lying-sync 1\nunflushed-lost 1\n");
}

TEST(DiskFaults, HonestSyncAfterALieSavesTheBytes) {
  FaultyDisk at;
  at.Arm(DiskOp::kSync, DiskEffect::kLie);
  at.Write(0, Bytes(kBlock, kNew));
  EXPECT_OK(at.Sync());
  EXPECT_OK(at.Sync());
  at.disk.Crash(Keeping(Unflushed::kDropAll));
  EXPECT_EQ(at.Contents()[0], kNew);
}

TEST(DiskFaults, LyingDurableWriteGoesWithThePower) {
  for (const bool lies : {false, true}) {
    FaultyDisk at;
    if (lies) at.Arm(DiskOp::kDurable, DiskEffect::kLie);
    const uint64_t change = at.Write(0, Bytes(kBlock, kNew));
    EXPECT_OK(at.disk.FaultyFlush(at.inode("/slab.0"), "/slab.0", change));
    at.disk.Crash(Keeping(lies ? Unflushed::kKeepAll : Unflushed::kDropAll));
    EXPECT_EQ(at.Contents()[0], lies ? 0x10 : kNew);
  }
}

TEST(DiskFaults, NamesOfALyingDirectorySyncGoWithThePower) {
  FaultyDisk at;
  at.Make("/slab.2", Bytes(kBlock, kNew));
  at.Arm(DiskOp::kSync, DiskEffect::kLie, "/");
  EXPECT_OK(at.disk.FaultySyncDirectory("/"));
  EXPECT_TRUE((*at.disk.Stat("/slab.2")).has_value());
  at.disk.Crash(Keeping(Unflushed::kKeepAll));
  EXPECT_FALSE((*at.disk.Stat("/slab.2")).has_value());
  EXPECT_TRUE((*at.disk.Stat("/slab.1")).has_value());
}

TEST(DiskFaults, CacheForgetsWhatAFailedSyncDidNotWrite) {
  FaultyDisk at;
  at.Arm(DiskOp::kSync, DiskEffect::kError);
  at.Write(0, Bytes(kBlock, kNew));
  const uint64_t before = at.inode("/slab.0")->data.last_change();
  at.Write(kBlock, Bytes(kBlock, kNew));  // While the flush is under way.
  EXPECT_FALSE(at.disk.FaultySync(at.inode("/slab.0"), "/slab.0", before).ok());
  EXPECT_EQ(at.Contents()[0], kNew) << "still in memory";
  at.disk.DropCache();
  EXPECT_EQ(at.Contents()[0], 0x10);
  EXPECT_EQ(at.Contents()[kBlock], kNew) << "to be written later";
  EXPECT_OK(at.Sync());
  at.disk.Crash(Keeping(Unflushed::kDropAll));
  EXPECT_EQ(at.Contents()[0], 0x10);
  EXPECT_EQ(at.Contents()[kBlock], kNew);
}

TEST(DiskFaults, WritesThatACrashTearsOrDropsAreCounted) {
  FaultCounts sum;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FaultyDisk at(seed);
    at.Write(0, Bytes(kBlock, kNew));
    at.disk.Crash(CrashOptions());
    const Bytes bytes = at.Contents();
    const auto kept =
        static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), kNew));
    const bool torn = kept > 0 && kept < kBlock;
    EXPECT_EQ(at.counts.of(FaultKind::kTornWrite), torn ? 1u : 0u);
    EXPECT_EQ(at.counts.of(FaultKind::kUnflushedLost), kept == 0 ? 1u : 0u);
    sum.Add(at.counts);
  }
  EXPECT_GT(sum.of(FaultKind::kTornWrite), 5u);
}

// --- A full disk.

TEST(DiskFaults, FullDiskRefusesBytesAndNamesButServesWhatItHas) {
  FaultyDisk at;
  at.disk.set_capacity_bytes(at.disk.used_bytes());
  Inode* const index = at.inode("/index");
  io::OpenOptions creating;
  creating.create = true;
  const std::vector<absl::Status> refused = {
      at.disk.FaultyWrite(index, "/index", 16 * kBlock, Bytes(kBlock)).status(),
      at.disk.Reserve(index, format::kMiB),
      at.disk.Open("/new", creating).status(), at.disk.MakeDirectory("/d")};
  for (const absl::Status& status : refused) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, ""));
  }
  EXPECT_EQ(at.counts.of(FaultKind::kDiskFull), 4u);
  EXPECT_OK(at.disk.Open("/index", creating));
  EXPECT_TRUE(at.Contents("/index") == Blocks(2, 0x30));
  at.Write(0, Bytes(kBlock, kNew), "/index");  // In place: needs no space.
  EXPECT_OK(at.Sync("/index"));
  EXPECT_OK(at.disk.Rename("/index", "/i"));
  EXPECT_OK(at.disk.Remove("/slab.1"));
  at.files.erase("/slab.1");
  ASSERT_OK(at.disk.SyncDirectory("/"));
  EXPECT_OK(at.disk.Open("/new", creating)) << "room was made";
}

TEST(DiskFaults, LostAndMisdirectedWritesNeedRoomToo) {
  for (const DiskEffect effect :
       {DiskEffect::kLost, DiskEffect::kMisdirected}) {
    FaultyDisk at;
    at.disk.set_capacity_bytes(at.disk.used_bytes());
    at.Arm(DiskOp::kWrite, effect);
    EXPECT_THAT(at.disk.FaultyWrite(at.inode("/slab.0"), "/slab.0", 16 * kBlock,
                                    Bytes(kBlock)),
                StatusIs(absl::StatusCode::kResourceExhausted, ""));
  }
}

// --- Rates.

struct RateCase {
  uint64_t DiskFaultRates::*rate;
  FaultKind kind;
};

constexpr uint64_t kRounds = 400;

void UseEverything(FaultyDisk* at) {
  for (uint64_t i = 0; i < kRounds; ++i) {
    for (const std::string path : {"/slab.0", "/index"}) {
      Inode* const inode = at->inode(path);
      const uint64_t offset = i % 2 * kBlock;
      Bytes bytes(kBlock, static_cast<uint8_t>(i | 1));
      (void)at->disk.FaultyWrite(inode, path, offset, bytes);
      (void)at->disk.FaultyRead(inode, path, offset, bytes);
      (void)at->disk.FaultySync(inode, path, inode->data.last_change());
      (void)at->disk.NameFault(path);
    }
  }
}

TEST(DiskFaults, RatesFireAsOftenAsAskedWhereAsked) {
  const std::vector<RateCase> cases = {
      {&DiskFaultRates::read_error, FaultKind::kDiskReadError},
      {&DiskFaultRates::write_error, FaultKind::kDiskWriteError},
      {&DiskFaultRates::sync_error, FaultKind::kDiskSyncError},
      {&DiskFaultRates::name_error, FaultKind::kDiskNameError},
      {&DiskFaultRates::lost_write, FaultKind::kLostWrite},
      {&DiskFaultRates::misdirected_write, FaultKind::kMisdirectedWrite},
      {&DiskFaultRates::misdirected_read, FaultKind::kMisdirectedRead},
      {&DiskFaultRates::stale_read, FaultKind::kStaleRead},
      {&DiskFaultRates::zeroed_read, FaultKind::kZeroedRead},
      {&DiskFaultRates::bit_rot, FaultKind::kBitRot},
      {&DiskFaultRates::lying_sync, FaultKind::kLyingSync}};
  for (const RateCase& c : cases) {
    SCOPED_TRACE(NameOf(c.kind));
    FaultyDisk at;
    DiskFaultRates rates;
    rates.*c.rate = 4;
    rates.path_contains = "slab";
    at.disk.set_fault_rates(rates);
    UseEverything(&at);
    EXPECT_GT(at.counts.of(c.kind), kRounds / 8);
    EXPECT_LT(at.counts.of(c.kind), kRounds / 2);
    for (const Damage& damage : at.disk.damages()) {
      EXPECT_NE(damage.path, "/index");
    }
    const uint64_t fired = at.counts.total();
    at.disk.set_fault_rates({});
    UseEverything(&at);
    EXPECT_EQ(at.counts.total(), fired) << "no rate, no fault";
  }
}

TEST(DiskFaults, SameSeedHitsTheSamePlaces) {
  std::set<std::string> runs;
  for (const uint64_t seed : {3, 3, 4}) {
    FaultyDisk at(seed);
    DiskFaultRates rates;
    rates.lost_write = rates.misdirected_write = rates.bit_rot = 5;
    at.disk.set_fault_rates(rates);
    UseEverything(&at);
    std::string run;
    for (const Damage& damage : at.disk.damages()) {
      absl::StrAppend(&run, damage.path, " ", damage.offset, "\n");
    }
    runs.insert(run);
  }
  EXPECT_EQ(runs.size(), 2u);
}

}  // namespace
}  // namespace cairn::sim
