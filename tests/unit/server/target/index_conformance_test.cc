// What every ChunkIndex promises, held against each implementation.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/target/chunk_index.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/target/real_target.h"

namespace cairn::server {
namespace {

using format::IndexOp;

struct LogInSimulator {
  static constexpr format::IndexKind kKind = format::IndexKind::kLog;
  sim::World world{sim::WorldOptions()};
  sim::SimEnv* env = world.Start(world.AddNode());
  std::string dir = "/index";
  sim::World* runner() { return &world; }
};

struct RocksDbOnDisk {
  static constexpr format::IndexKind kKind = format::IndexKind::kRocksDb;
  TempDir temp;
  std::unique_ptr<io::RealEnv> owned = MakeTestEnv();
  io::RealEnv* env = owned.get();
  std::string dir = temp.path() + "/index";
  io::RealEnv* runner() { return env; }
};

struct LogOnDisk {
  static constexpr format::IndexKind kKind = format::IndexKind::kLog;
  TempDir temp;
  std::unique_ptr<io::RealEnv> owned = MakeTestEnv();
  io::RealEnv* env = owned.get();
  std::string dir = temp.path() + "/index";
  io::RealEnv* runner() { return env; }
};

template <typename Place>
class IndexConformance : public ::testing::Test {
 protected:
  IndexConformance() {
    auto made = Await(place_.runner(),
                      CreateIndex(place_.env, Place::kKind, place_.dir));
    CAIRN_CHECK(made.ok());
    index_ = *std::move(made);
  }
  ~IndexConformance() override { Close(); }
  void Close() {
    if (index_) {
      EXPECT_OK(Await(place_.runner(), index_->Close()));
    }
    index_.reset();
  }
  absl::Status Reopen() {
    Close();
    auto opened =
        Await(place_.runner(), OpenIndex(place_.env, Place::kKind, place_.dir));
    if (opened.ok()) index_ = *std::move(opened);
    return opened.status();
  }
  absl::Status Commit(std::vector<IndexOp> ops) {
    return Await(place_.runner(), index_->Commit(std::move(ops)));
  }
  std::string Get(std::string key) {
    auto value = Await(place_.runner(), index_->Get(key));
    CAIRN_CHECK(value.ok());
    return value->value_or("(none)");
  }
  std::string Keys(std::string after, uint32_t limit) {
    auto page = Await(place_.runner(), index_->Scan(after, limit));
    CAIRN_CHECK(page.ok());
    std::string keys;
    for (const ChunkIndex::Entry& entry : *page) keys += entry.key;
    return keys;
  }
  static IndexOp Put(std::string key, std::string value) {
    return {IndexOp::Kind::kPut, std::move(key), std::move(value)};
  }
  static IndexOp Erase(std::string key) {
    return {IndexOp::Kind::kErase, std::move(key), ""};
  }

  Place place_;
  std::unique_ptr<ChunkIndex> index_;
};

using Places = ::testing::Types<LogInSimulator, LogOnDisk, RocksDbOnDisk>;
TYPED_TEST_SUITE(IndexConformance, Places);

TYPED_TEST(IndexConformance, CommitsAreThereAfterReopening) {
  ASSERT_OK(this->Commit({this->Put("a", "1"), this->Put("b", "2")}));
  ASSERT_OK(this->Commit({this->Put("a", "3"), this->Erase("b")}));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(this->Get("a"), "3");
    EXPECT_EQ(this->Get("b"), "(none)");
    ASSERT_OK(this->Reopen());
  }
}

TYPED_TEST(IndexConformance, OperationsOfOneCommitApplyInOrder) {
  ASSERT_OK(
      this->Commit({this->Put("a", "1"), this->Erase("a"), this->Put("a", "2"),
                    this->Put("b", "1"), this->Erase("b")}));
  EXPECT_EQ(this->Get("a"), "2");
  EXPECT_EQ(this->Get("b"), "(none)");
}

TYPED_TEST(IndexConformance, ScanGivesPagesInByteOrder) {
  const std::string zero(1, '\0');
  ASSERT_OK(this->Commit({this->Put("d", "x"), this->Put(zero, "x"),
                          this->Put("\xff", "x"), this->Put("a", "x")}));
  EXPECT_EQ(this->Keys("", 10), zero + "ad\xff");
  EXPECT_EQ(this->Keys("", 2), zero + "a");
  EXPECT_EQ(this->Keys("a", 2), "d\xff");
  EXPECT_EQ(this->Keys("b", 1), "d");
  EXPECT_EQ(this->Keys("\xff", 2), "");
}

TYPED_TEST(IndexConformance, EraseOfWhatIsNotThereIsOk) {
  EXPECT_OK(this->Commit({this->Erase("nothing")}));
}

TYPED_TEST(IndexConformance, LongestKeyAndValueComeBack) {
  const std::string key(format::kIndexKeyBytesMax, 'k');
  const std::string value(format::kIndexValueBytesMax, 'v');
  ASSERT_OK(this->Commit({this->Put(key, value)}));
  ASSERT_OK(this->Reopen());
  EXPECT_EQ(this->Get(key), value);
}

TYPED_TEST(IndexConformance, MissingDirectoryIsDataLossAndNotEmpty) {
  const auto opened =
      Await(this->place_.runner(),
            OpenIndex(this->place_.env, TypeParam::kKind, "/nowhere/index"));
  EXPECT_TRUE(absl::IsDataLoss(opened.status())) << opened.status();
}

}  // namespace
}  // namespace cairn::server
