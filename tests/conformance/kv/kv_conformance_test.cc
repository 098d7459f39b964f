// What every KvEngine does, one case at a time.
#include <algorithm>

#include "gmock/gmock.h"
#include "server/meta/limits.h"
#include "tests/conformance/kv/kv_subject.h"
#include "tests/support/status_matchers.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;
using ::testing::ElementsAre;

class KvConformance : public ::testing::TestWithParam<KvKind> {
 protected:
  std::vector<std::string> Keys(std::string begin, std::string end,
                                uint32_t limit = 1000) {
    std::vector<std::string> keys;
    const auto found = subject_.Scan(std::move(begin), std::move(end), limit);
    EXPECT_OK(found);
    for (const KvPair& pair : found.value_or(std::vector<KvPair>())) {
      keys.push_back(pair.key);
    }
    return keys;
  }

  KvSubject subject_{GetParam()};
};

TEST_P(KvConformance, FreshStoreIsEmptyAtSequenceZero) {
  EXPECT_EQ(subject_.kv()->sequence(), 0u);
  EXPECT_EQ(subject_.kv()->durable_sequence(), 0u);
  const auto found = subject_.Get("a");
  ASSERT_OK(found);
  EXPECT_FALSE(found->has_value());
  EXPECT_THAT(Keys("", "\xff\xff"), ElementsAre());
}

TEST_P(KvConformance, SequencesAscendByOneAndAreTheVersionsOfKeys) {
  EXPECT_EQ(subject_.Put("a", "1"), 1u);
  EXPECT_EQ(subject_.Put("b", "2"), 2u);
  EXPECT_EQ(subject_.Put("a", "3"), 3u);
  const auto a = subject_.Get("a");
  ASSERT_OK(a);
  EXPECT_EQ((*a)->version, 3u);
  EXPECT_EQ((*a)->value, "3");
  const auto b = subject_.Get("b");
  ASSERT_OK(b);
  EXPECT_EQ((*b)->version, 2u);
  EXPECT_EQ(subject_.kv()->sequence(), 3u);
  EXPECT_EQ(subject_.kv()->durable_sequence(), 3u);
}

TEST_P(KvConformance, ValuesMayBeEmptyAndHoldAnyBytes) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  subject_.Put(bytes.substr(1), bytes);
  subject_.Put("empty", "");
  subject_.Reopen();
  EXPECT_EQ(subject_.Value(bytes.substr(1)), bytes);
  const auto empty = subject_.Get("empty");
  ASSERT_OK(empty);
  ASSERT_TRUE(empty->has_value());
  EXPECT_EQ((*empty)->value, "");
}

TEST_P(KvConformance, ConflictIsAbortedAndWritesNothing) {
  subject_.Put("a", "old");
  KvCommit commit;
  commit.expect = {{"a", 7}};
  commit.writes = {{"a", "new"}, {"b", "new"}};
  EXPECT_THAT(subject_.Commit(commit),
              StatusIs(absl::StatusCode::kAborted, "changed"));
  EXPECT_EQ(subject_.Value("a"), "old");
  EXPECT_EQ(subject_.Value("b"), "");
  EXPECT_EQ(subject_.kv()->sequence(), 1u);
  commit.expect = {{"a", 1}};
  EXPECT_OK(subject_.Commit(commit));
  EXPECT_EQ(subject_.Value("b"), "new");
}

TEST_P(KvConformance, ExpectedAbsenceHoldsAfterDeleteButNotBefore) {
  KvCommit create;
  create.expect = {{"a", 0}};
  create.writes = {{"a", "1"}};
  EXPECT_OK(subject_.Commit(create));
  EXPECT_THAT(subject_.Commit(create),
              StatusIs(absl::StatusCode::kAborted, ""));
  KvCommit remove;
  remove.writes = {{"a", std::nullopt}};
  EXPECT_OK(subject_.Commit(remove));
  EXPECT_OK(subject_.Commit(create));
}

TEST_P(KvConformance, VersionOfADeletedAndRemadeKeyIsNotTheOldOne) {
  const uint64_t first = subject_.Put("a", "1");
  KvCommit remove;
  remove.writes = {{"a", std::nullopt}};
  ASSERT_OK(subject_.Commit(remove));
  subject_.Put("a", "1");
  KvCommit stale;
  stale.expect = {{"a", first}};
  stale.writes = {{"b", "1"}};
  EXPECT_THAT(subject_.Commit(stale), StatusIs(absl::StatusCode::kAborted, ""));
}

TEST_P(KvConformance, RangeExpectedEmptyIncludesItsBeginAndNotItsEnd) {
  subject_.Put("m", "1");
  const auto commit_if_empty = [this](std::string begin, std::string end) {
    KvCommit commit;
    commit.expect_empty = {{std::move(begin), std::move(end)}};
    commit.writes = {{"z", "1"}};
    return subject_.Commit(std::move(commit)).status();
  };
  EXPECT_TRUE(absl::IsAborted(commit_if_empty("m", "n")));
  EXPECT_TRUE(absl::IsAborted(commit_if_empty("a", "z")));
  EXPECT_TRUE(absl::IsAborted(commit_if_empty("", "n")));
  EXPECT_OK(commit_if_empty("a", "m"));
  EXPECT_OK(commit_if_empty(std::string("m\0", 2), "n"));
  EXPECT_OK(commit_if_empty("n", "a"));
}

TEST_P(KvConformance, LaterWriteOfAKeyInOneCommitWins) {
  KvCommit commit;
  commit.writes = {{"a", "1"},          {"a", "2"},          {"b", "1"},
                   {"b", std::nullopt}, {"c", std::nullopt}, {"c", "3"}};
  ASSERT_OK(subject_.Commit(commit));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(subject_.Value("a"), "2");
    EXPECT_THAT(Keys("a", "z"), ElementsAre("a", "c"));
    subject_.Reopen();
  }
}

TEST_P(KvConformance, ScanIsBytewiseHalfOpenAndLimited) {
  for (const char* key : {"a", "ab", "b", "\xff", "B"}) subject_.Put(key, "1");
  EXPECT_THAT(Keys("", "\xff"), ElementsAre("B", "a", "ab", "b"));
  EXPECT_THAT(Keys("a", "b"), ElementsAre("a", "ab"));
  EXPECT_THAT(Keys("a", "\xff\xff", 3), ElementsAre("a", "ab", "b"));
  EXPECT_THAT(Keys("a", "b", 0), ElementsAre());
  EXPECT_THAT(Keys("b", "a"), ElementsAre());
  EXPECT_THAT(Keys("a", ""), ElementsAre());
}

TEST_P(KvConformance, CommitWithoutWritesTakesNoSequence) {
  subject_.Put("a", "1");
  KvCommit check;
  check.expect = {{"a", 1}};
  const auto sequence = subject_.Commit(check);
  ASSERT_OK(sequence);
  EXPECT_EQ(*sequence, 1u);
  EXPECT_EQ(subject_.Put("b", "1"), 2u);
}

TEST_P(KvConformance, TooManyOperationsAreRefusedAndTheMostAllowedPass) {
  KvCommit commit;
  commit.expect.assign(kKvOpsMax / 2, {"absent", 0});
  commit.expect_empty.assign(1, {"x", "y"});
  while (commit.expect.size() + 1 + commit.writes.size() < kKvOpsMax) {
    commit.writes.push_back({absl::StrCat("k", commit.writes.size()), "v"});
  }
  EXPECT_OK(subject_.Commit(commit));
  commit.expect_empty.push_back({"x", "y"});
  EXPECT_THAT(subject_.Commit(commit),
              StatusIs(absl::StatusCode::kInvalidArgument, "129 operations"));
}

TEST_P(KvConformance, TooManyBytesAreRefusedAndTheMostAllowedPass) {
  KvCommit commit;
  commit.writes = {{"k", std::string(kKvBytesMax - 1, 'v')}};
  EXPECT_OK(subject_.Commit(commit));
  commit.writes[0].value->push_back('v');
  EXPECT_THAT(subject_.Commit(commit),
              StatusIs(absl::StatusCode::kInvalidArgument, "bytes"));
  EXPECT_EQ(subject_.Value("k").size(), kKvBytesMax - 1);
}

TEST_P(KvConformance, KeysThatCannotBeAreRefused) {
  const std::vector<std::string> bad = {"", std::string("\0sequence", 9),
                                        std::string(kKvKeyBytesMax + 1, 'k')};
  for (const std::string& key : bad) {
    KvCommit write;
    write.writes = {{key, "v"}};
    EXPECT_THAT(subject_.Commit(write),
                StatusIs(absl::StatusCode::kInvalidArgument, "key"));
    KvCommit expect;
    expect.expect = {{key, 0}};
    EXPECT_THAT(subject_.Commit(expect),
                StatusIs(absl::StatusCode::kInvalidArgument, "key"));
    EXPECT_THAT(subject_.Get(key),
                StatusIs(absl::StatusCode::kInvalidArgument, "key"));
  }
  subject_.Put(std::string(kKvKeyBytesMax, 'k'), "v");
}

io::Task<void> ExpectCommits(io::Task<absl::StatusOr<uint64_t>> commit) {
  EXPECT_OK(co_await std::move(commit));
}

struct EarlyRead {
  bool durable = true;
  std::string value;
  std::vector<KvPair> pairs;
};

// Starts a commit, and reads at once what it is about to make durable.
io::Task<void> CommitAndRead(KvEngine* kv, io::Gate* gate, EarlyRead* read) {
  KvCommit commit;
  commit.writes.push_back({"a", "1"});
  commit.writes.push_back({"gone", std::nullopt});
  gate->Spawn(ExpectCommits(kv->Commit(std::move(commit))));
  const auto found = co_await kv->Get("a");
  read->durable = kv->durable_sequence() == kv->sequence();
  if (found.ok() && found->has_value()) read->value = (*found)->value;
  read->pairs = *co_await kv->Scan("a", "z", 10);
  EXPECT_OK(co_await kv->AwaitDurable(kv->sequence()));
  EXPECT_EQ(kv->durable_sequence(), kv->sequence());
  co_await gate->Close();
}

TEST_P(KvConformance, ReadsSeeCommitsBeforeTheyAreDurable) {
  subject_.Put("gone", "1");
  subject_.Put("stays", "1");
  EarlyRead read;
  io::Gate gate(subject_.env());
  subject_.env()->RunUntilDone(CommitAndRead(subject_.kv(), &gate, &read));
  EXPECT_FALSE(read.durable);
  EXPECT_EQ(read.value, "1");
  ASSERT_EQ(read.pairs.size(), 2u);
  EXPECT_EQ(read.pairs[0].key, "a");
  EXPECT_EQ(read.pairs[1].key, "stays");
}

TEST_P(KvConformance, SequenceNeverGivenOutCannotBeAwaited) {
  EXPECT_THAT(Await(subject_.env(), subject_.kv()->AwaitDurable(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, "never"));
}

TEST_P(KvConformance, OfManyCommitsAtOnceThatExpectAbsenceOneWins) {
  std::vector<io::Task<absl::StatusOr<uint64_t>>> tasks;
  for (int i = 0; i < 32; ++i) {
    KvCommit commit;
    commit.expect = {{"name", 0}};
    commit.writes = {{"name", absl::StrCat(i)}};
    tasks.push_back(subject_.kv()->Commit(std::move(commit)));
  }
  const auto results = AwaitAll(subject_.env(), std::move(tasks));
  EXPECT_OK(results[0]);
  EXPECT_EQ(std::ranges::count_if(
                results, [](const auto& result) { return result.ok(); }),
            1);
  subject_.Reopen();
  EXPECT_EQ(subject_.Value("name"), "0");
}

TEST_P(KvConformance, CommitsThatBuildOnEachOtherInFlightDoNotConflict) {
  std::vector<io::Task<absl::StatusOr<uint64_t>>> tasks;
  for (uint64_t i = 0; i < 64; ++i) {
    KvCommit commit;
    commit.expect = {{"counter", i}};
    commit.writes = {{"counter", absl::StrCat(i + 1)}};
    tasks.push_back(subject_.kv()->Commit(std::move(commit)));
  }
  for (const auto& result : AwaitAll(subject_.env(), std::move(tasks))) {
    EXPECT_OK(result);
  }
  subject_.Reopen();
  EXPECT_EQ(subject_.Value("counter"), "64");
}

TEST_P(KvConformance, MoreThanTheQueueHoldsIsTakenInTurn) {
  std::vector<io::Task<absl::StatusOr<uint64_t>>> tasks;
  const uint64_t count = 2 * kKvQueuedBytesMax / kKvBytesMax + 1;
  for (uint64_t i = 0; i < count; ++i) {
    KvCommit commit;
    commit.writes = {{absl::StrCat("k", i), std::string(kKvBytesMax - 8, 'v')}};
    tasks.push_back(subject_.kv()->Commit(std::move(commit)));
  }
  const auto results = AwaitAll(subject_.env(), std::move(tasks));
  for (uint64_t i = 0; i < count; ++i) {
    ASSERT_OK(results[i]);
    EXPECT_EQ(*results[i], i + 1);
  }
}

TEST_P(KvConformance, SkipToMovesTheSequenceDurablyAndNeverBack) {
  subject_.Put("a", "1");
  EXPECT_OK(Await(subject_.env(), subject_.kv()->SkipTo(1000)));
  EXPECT_EQ(subject_.kv()->durable_sequence(), 1000u);
  EXPECT_THAT(Await(subject_.env(), subject_.kv()->SkipTo(999)),
              StatusIs(absl::StatusCode::kInvalidArgument, "back"));
  subject_.Reopen();
  EXPECT_EQ(subject_.kv()->sequence(), 1000u);
  EXPECT_EQ(subject_.Put("b", "1"), 1001u);
  EXPECT_EQ(subject_.Value("a"), "1");
}

INSTANTIATE_TEST_SUITE_P(Engines, KvConformance,
                         ::testing::Values(KvKind::kModel, KvKind::kRocks),
                         [](const auto& info) {
                           return info.param == KvKind::kModel ? "Model"
                                                               : "Rocks";
                         });

}  // namespace
}  // namespace cairn::server
