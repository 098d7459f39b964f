// What a transaction that fails may say.
#include "server/meta/txn.h"

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

class TxnTest : public MetaTest {
 protected:
  static constexpr char kName[] = "new";
  const std::string key_ = format::DirentKey(format::kRootInode, kName);

  void Look(Txn* txn) {
    ASSERT_OK(Await(txn->Get<store::DirectoryEntry>(key_)));
  }
  void CommitByAnother() {
    Txn another(kv_.get());
    another.Put(key_, store::DirectoryEntry());
    ASSERT_OK(Await(another.Commit()));
  }
};

TEST_F(TxnTest, ErrorFromWhatStillHoldsIsGiven) {
  Txn txn(kv_.get());
  Look(&txn);
  EXPECT_THAT(Await(txn.Confirm(absl::NotFoundError("no such name"))),
              StatusIs(absl::StatusCode::kNotFound, "no such name"));
}

TEST_F(TxnTest, ErrorFromWhatChangedSinceIsAConflict) {
  Txn txn(kv_.get());
  Look(&txn);
  CommitByAnother();
  EXPECT_TRUE(
      IsConflict(Await(txn.Confirm(absl::NotFoundError("no such name")))));
}

TEST_F(TxnTest, ErrorFromOneKeyReadWithTwoVersionsIsAConflict) {
  Txn txn(kv_.get());
  Look(&txn);
  CommitByAnother();
  Look(&txn);
  EXPECT_TRUE(
      IsConflict(Await(txn.Confirm(absl::AlreadyExistsError("is there")))));
}

TEST_F(TxnTest, UnknownStaysUnknownWhateverChanged) {
  Txn txn(kv_.get());
  Look(&txn);
  CommitByAnother();
  EXPECT_THAT(Await(txn.Confirm(absl::UnavailableError("engine closed"))),
              StatusIs(absl::StatusCode::kUnavailable, "engine closed"));
}

}  // namespace
}  // namespace cairn::server
