// Random operations, from a seed, on an engine and on the model side by side:
// every answer must be the same, and stay so over reopening.
#include <random>

#include "gmock/gmock.h"
#include "server/meta/limits.h"
#include "tests/conformance/kv/kv_subject.h"
#include "tests/support/status_matchers.h"

namespace cairn::server {
namespace {

constexpr int kKeys = 40;  // Few, so that operations meet.
constexpr int kSteps = 300;

class RandomOperations {
 public:
  explicit RandomOperations(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  std::string Key() {
    const uint64_t n = Below(kKeys);
    // Some keys are prefixes of others, some start with high bytes.
    std::string key = n % 7 == 0 ? "\xfe" : "k";
    key += static_cast<char>('a' + n % 10);
    if (n >= 10) key += static_cast<char>('a' + n / 10);
    return key;
  }

  // A bound of a range: a key, something beside one, or an end.
  std::string Bound() {
    if (OneIn(8)) return "";
    if (OneIn(8)) return "\xff\xff";
    return OneIn(3) ? Key() + '\0' : Key();
  }

  KvCommit Commit(KvSubject* model) {
    KvCommit commit;
    for (uint64_t i = Below(4); i > 0; --i) {
      std::string key = Key();
      const auto found = model->Get(key);
      uint64_t version = found->has_value() ? (*found)->version : 0;
      if (OneIn(8)) version = Below(model->kv()->sequence() + 2);
      commit.expect.push_back({std::move(key), version});
    }
    if (OneIn(6)) commit.expect_empty.push_back({Bound(), Bound()});
    for (uint64_t i = Below(6); i > 0; --i) commit.writes.push_back(Write());
    if (OneIn(40)) commit.writes.resize(kKvOpsMax + 1, {"k", "v"});
    if (OneIn(40)) commit.writes.push_back({"", "v"});
    return commit;
  }

 private:
  KvWrite Write() {
    if (OneIn(3)) return {Key(), std::nullopt};
    return {Key(), std::string(Below(OneIn(10) ? 20'000 : 20), 'v') +
                       std::to_string(Below(1000))};
  }

  std::mt19937_64 random_;
};

class KvRandom : public ::testing::TestWithParam<uint64_t> {
 protected:
  // Several at once: later ones of them see earlier ones undurable.
  void CommitSome() {
    std::vector<io::Task<absl::StatusOr<uint64_t>>> on_model;
    std::vector<io::Task<absl::StatusOr<uint64_t>>> on_rocks;
    for (uint64_t i = 1 + random_.Below(8); i > 0; --i) {
      const KvCommit commit = random_.Commit(&model_);
      on_model.push_back(model_.kv()->Commit(commit));
      on_rocks.push_back(rocks_.kv()->Commit(commit));
    }
    const auto expected = AwaitAll(model_.env(), std::move(on_model));
    const auto actual = AwaitAll(rocks_.env(), std::move(on_rocks));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i].status().code(), expected[i].status().code());
      if (expected[i].ok()) {
        ASSERT_EQ(*actual[i], *expected[i]);
        ++committed_;
      } else if (absl::IsAborted(expected[i].status())) {
        ++aborted_;
      }
    }
    ASSERT_EQ(rocks_.kv()->sequence(), model_.kv()->sequence());
  }

  void ReadOne() {
    const std::string key = random_.Key();
    const auto expected = model_.Get(key);
    const auto actual = rocks_.Get(key);
    ASSERT_OK(expected);
    ASSERT_OK(actual);
    ASSERT_EQ(actual->has_value(), expected->has_value());
    if (!expected->has_value()) return;
    ASSERT_EQ((*actual)->value, (*expected)->value);
    ASSERT_EQ((*actual)->version, (*expected)->version);
  }

  void ScanSome() {
    const std::string begin = random_.Bound();
    const std::string end = random_.Bound();
    const auto limit = static_cast<uint32_t>(random_.Below(kKeys + 2));
    Compare(begin, end, limit);
  }

  void Compare(const std::string& begin, const std::string& end,
               uint32_t limit) {
    const auto expected = model_.Scan(begin, end, limit);
    const auto actual = rocks_.Scan(begin, end, limit);
    ASSERT_OK(expected);
    ASSERT_OK(actual);
    ASSERT_EQ(actual->size(), expected->size());
    for (size_t i = 0; i < expected->size(); ++i) {
      ASSERT_EQ((*actual)[i].key, (*expected)[i].key);
      ASSERT_EQ((*actual)[i].value, (*expected)[i].value);
      ASSERT_EQ((*actual)[i].version, (*expected)[i].version);
    }
  }

  RandomOperations random_{GetParam()};
  KvSubject model_{KvKind::kModel};
  KvSubject rocks_{KvKind::kRocks};
  int committed_ = 0;
  int aborted_ = 0;
};

TEST_P(KvRandom, RocksAnswersAsTheModelDoesAndKeepsItAll) {
  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(absl::StrCat("seed ", GetParam(), ", step ", step));
    const uint64_t kind = random_.Below(20);
    if (kind < 8) {
      ASSERT_NO_FATAL_FAILURE(CommitSome());
    } else if (kind < 13) {
      ASSERT_NO_FATAL_FAILURE(ReadOne());
    } else if (kind < 19) {
      ASSERT_NO_FATAL_FAILURE(ScanSome());
    } else if (random_.OneIn(3)) {
      model_.Reopen();
      rocks_.Reopen();
    }
  }
  rocks_.Reopen();
  ASSERT_NO_FATAL_FAILURE(Compare("", "\xff\xff", kKeys));
  // The sequence of operations met what it was made to meet.
  EXPECT_GT(committed_, 100);
  EXPECT_GT(aborted_, 20);
}

INSTANTIATE_TEST_SUITE_P(Seeds, KvRandom, ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace cairn::server
