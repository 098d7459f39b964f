// Damage to the files of a closed store. Whatever is hit, the store refuses to
// open, or the high-water mark refuses it, or each read is right or kDataLoss:
// never a wrong value, and never a silent gap.
#include <algorithm>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "server/meta/kv/high_water_mark.h"
#include "tests/conformance/kv/kv_subject.h"
#include "tests/support/status_matchers.h"

namespace cairn::server {
namespace {

namespace fs = std::filesystem;
using ::cairn::testing::StatusIs;

// Commit i, from 1 on, writes key i; the first half is in a table file, the
// rest in the log.
constexpr uint64_t kInTable = 150;
constexpr uint64_t kCommits = 300;
constexpr int kPlaces = 24;  // Of damage in one file.

std::string KeyOf(uint64_t i) { return absl::StrCat("key", 1000 + i); }
std::string ValueOf(uint64_t i) {
  return absl::StrCat("value ", i, std::string(i % 90, 'v'));
}

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void WriteFile(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

enum class Outcome { kRefused, kLossFound, kIntact };

class RocksKvDamage : public ::testing::Test {
 protected:
  RocksKvDamage() {
    RocksKvOptions create;
    create.create = true;
    auto kv = Open(create);
    CAIRN_CHECK(kv.ok());
    CommitRange(kv->get(), 1, kInTable);
    Close(*std::move(kv));
    kv = Open({});  // Recovery writes the log's content to a table file.
    CAIRN_CHECK(kv.ok());
    fs::copy(kv_dir_, old_copy_, fs::copy_options::recursive);
    CommitRange(kv->get(), kInTable + 1, kCommits);
    Close(*std::move(kv));
    fs::copy(kv_dir_, whole_, fs::copy_options::recursive);
    auto mark = OpenMark(/*create=*/true);
    (*mark)->Advance(kCommits);
    EXPECT_OK(Await(env_.get(), (*mark)->Close()));
  }

  absl::StatusOr<std::unique_ptr<RocksKv>> Open(RocksKvOptions options) {
    return Await(env_.get(),
                 RocksKv::Open(env_.get(), kv_dir_, std::move(options)));
  }
  absl::StatusOr<std::unique_ptr<HighWaterMark>> OpenMark(bool create) {
    return Await(env_.get(),
                 HighWaterMark::Open(env_.get(), dir_.path(), {}, create));
  }
  void Close(std::unique_ptr<RocksKv> kv) {
    EXPECT_OK(Await(env_.get(), kv->Close()));
  }

  void CommitRange(RocksKv* kv, uint64_t first, uint64_t last) {
    for (uint64_t i = first; i <= last; ++i) {
      KvCommit commit;
      commit.writes.push_back({KeyOf(i), ValueOf(i)});
      EXPECT_EQ(*Await(env_.get(), kv->Commit(std::move(commit))), i);
    }
  }

  void Restore(const std::string& from) {
    fs::remove_all(kv_dir_);
    fs::copy(from, kv_dir_, fs::copy_options::recursive);
  }
  // The newest file of the store whose name starts or ends so.
  fs::path Find(const std::string& part) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(kv_dir_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(part) || name.ends_with(part)) {
        found.push_back(entry.path());
      }
    }
    CAIRN_CHECK(!found.empty());
    return *std::ranges::max_element(found);
  }

  // Opens the store as a service would, and holds it to the truth.
  Outcome Judge() {
    auto kv = Open({});
    if (!kv.ok()) return Outcome::kRefused;
    auto mark = OpenMark(/*create=*/false);
    EXPECT_OK(mark);
    const absl::Status served = (*mark)->Check((*kv)->sequence(), 0);
    EXPECT_OK(Await(env_.get(), (*mark)->Close()));
    const Outcome read = ReadAll(kv->get());
    (void)Await(env_.get(), (*kv)->Close());
    return served.ok() ? read : Outcome::kRefused;
  }

  // Also of a store that the mark refuses: what it has must be a prefix.
  Outcome ReadAll(RocksKv* kv) {
    const uint64_t sequence = kv->sequence();
    EXPECT_LE(sequence, kCommits);
    Outcome outcome = Outcome::kIntact;
    for (uint64_t i = 1; i <= kCommits; ++i) {
      const auto found = Await(env_.get(), kv->Get(KeyOf(i)));
      if (!found.ok()) {
        EXPECT_THAT(found, StatusIs(absl::StatusCode::kDataLoss, ""));
        outcome = Outcome::kLossFound;
        continue;
      }
      EXPECT_EQ(found->has_value(), i <= sequence) << "key " << i;
      if (found->has_value()) {
        EXPECT_EQ((*found)->value, ValueOf(i));
        EXPECT_EQ((*found)->version, i);
      }
    }
    const auto all = Await(env_.get(), kv->Scan("", "\xff", 2 * kCommits));
    if (all.ok()) {
      EXPECT_EQ(all->size(), sequence);
    } else {
      EXPECT_THAT(all, StatusIs(absl::StatusCode::kDataLoss, ""));
      outcome = Outcome::kLossFound;
    }
    return outcome;
  }

  // Flips a bit at kPlaces places all over the file; how many were noticed.
  int FlipsNoticed(const std::string& part) {
    int noticed = 0;
    for (int place = 0; place < kPlaces; ++place) {
      Restore(whole_);
      const fs::path path = Find(part);
      std::string bytes = ReadFile(path);
      const size_t at = (bytes.size() - 1) * static_cast<size_t>(place) /
                        static_cast<size_t>(kPlaces - 1);
      SCOPED_TRACE(absl::StrCat(path.filename().string(), " of ", bytes.size(),
                                " bytes, flipped at ", at));
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (place % 8)));
      WriteFile(path, bytes);
      if (Judge() != Outcome::kIntact) ++noticed;
    }
    return noticed;
  }

  const TempDir dir_;
  const std::string kv_dir_ = dir_ / "kv";
  const std::string whole_ = dir_ / "whole";
  const std::string old_copy_ = dir_ / "old";
  std::unique_ptr<io::RealEnv> env_ = NewEnv();
};

TEST_F(RocksKvDamage, UndamagedStoreIsServedWhole) {
  EXPECT_EQ(Judge(), Outcome::kIntact);
}

TEST_F(RocksKvDamage, FlippedBitInATableFileNeverGivesAWrongValue) {
  EXPECT_GE(FlipsNoticed(".sst"), kPlaces * 3 / 4);
}

TEST_F(RocksKvDamage, FlippedBitInTheManifestNeverGivesAWrongValue) {
  EXPECT_GE(FlipsNoticed("MANIFEST"), kPlaces * 3 / 4);
}

TEST_F(RocksKvDamage, FlippedBitInTheLogNeverGivesAWrongValue) {
  EXPECT_EQ(FlipsNoticed(".log"), kPlaces);
}

TEST_F(RocksKvDamage, TornTailOfTheLogIsDroppedAndTheRestIsServed) {
  const fs::path log = Find(".log");
  fs::resize_file(log, fs::file_size(log) - 3);
  auto kv = Open({});
  ASSERT_OK(kv);
  EXPECT_EQ((*kv)->sequence(), kCommits - 1);
  EXPECT_EQ(ReadAll(kv->get()), Outcome::kIntact);
  Close(*std::move(kv));
}

TEST_F(RocksKvDamage, LogCutAnywhereIsRefusedAndHoldsAPrefix) {
  const uint64_t size = fs::file_size(Find(".log"));
  for (uint64_t place = 0; place < kPlaces; ++place) {
    Restore(whole_);
    const uint64_t left = (size - 1) * place / (kPlaces - 1);
    SCOPED_TRACE(absl::StrCat("log cut to ", left, " of ", size, " bytes"));
    fs::resize_file(Find(".log"), left);
    EXPECT_EQ(Judge(), Outcome::kRefused);
  }
}

TEST_F(RocksKvDamage, MissingFilesAreRefused) {
  for (const char* part : {".log", ".sst", "MANIFEST", "CURRENT"}) {
    SCOPED_TRACE(part);
    Restore(whole_);
    fs::remove(Find(part));
    EXPECT_EQ(Judge(), Outcome::kRefused);
  }
}

TEST_F(RocksKvDamage, EmptyDirectoryInItsPlaceIsRefusedEvenIfItIsMadeAnew) {
  fs::remove_all(kv_dir_);
  RocksKvOptions create;
  create.create = true;
  auto kv = Open(create);
  ASSERT_OK(kv);
  Close(*std::move(kv));
  EXPECT_EQ(Judge(), Outcome::kRefused);
}

TEST_F(RocksKvDamage, OldCopyPutBackIsRefusedUntilTheLossIsAccepted) {
  Restore(old_copy_);
  EXPECT_EQ(Judge(), Outcome::kRefused);

  auto kv = Open({});
  ASSERT_OK(kv);
  auto mark = OpenMark(/*create=*/false);
  ASSERT_OK(mark);
  EXPECT_EQ((*kv)->sequence(), kInTable);
  ASSERT_OK(Await(env_.get(), (*mark)->AcceptLoss(kv->get(), 0)));
  Close(*std::move(kv));
  EXPECT_OK(Await(env_.get(), (*mark)->Close()));

  kv = Open({});
  ASSERT_OK(kv);
  mark = OpenMark(/*create=*/false);
  ASSERT_OK(mark);
  EXPECT_OK((*mark)->Check((*kv)->sequence(), kCommits));
  EXPECT_EQ((*mark)->mark().lost_after, kInTable);
  EXPECT_EQ((*mark)->mark().lost_until, kCommits);
  EXPECT_OK(Await(env_.get(), (*mark)->Close()));
  Close(*std::move(kv));
}

}  // namespace
}  // namespace cairn::server
