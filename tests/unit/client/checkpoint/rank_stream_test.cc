#include "client/checkpoint/rank_stream.h"

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "format/base/limits.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"
#include "tests/support/co_assert.h"
#include "tests/support/scattered_bytes.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/checkpoint/rank_items.h"

namespace cairn::client {
namespace {

using format::Dtype;
using format::kMiB;
using io::Task;
using testing::DenseView;
using testing::Flatten;
using testing::IsOk;
using testing::RandomBytes;
using testing::RankItems;
using testing::StatusIs;

// One stream in a simulated process.
struct Rig {
  explicit Rig(const RankItems* rank_items)
      : items(rank_items),
        env(world.Start(world.AddNode())),
        core(env, Options()) {
    absl::StatusOr<RankFile> planned = PlanRankFile(items->items());
    EXPECT_OK(planned);
    if (planned.ok()) file = *std::move(planned);
    stream.emplace(&core, &file, &items->items());
  }
  sim::World world{{.seed = 1, .pool_large_buffers = 6}};
  const RankItems* const items;
  sim::SimEnv* const env;
  Core core;
  RankFile file;
  std::optional<RankStream> stream;
};

struct Pulled {
  uint64_t file_offset = 0;
  std::string bytes;
  size_t buffers = 0;
  ConstGather gather;
};

// Stripes of the sizes in turn, to the end; each is let go at once.
Task<void> PullAll(Rig* rig, std::vector<uint64_t> sizes,
                   std::vector<Pulled>* pulled) {
  for (size_t i = 0; !rig->stream->done(); ++i) {
    absl::StatusOr<RankStripe> stripe =
        co_await rig->stream->Next(sizes[i % sizes.size()], io::kNoDeadline);
    CO_ASSERT_OK(stripe);
    CO_ASSERT_TRUE(!stripe->bytes.empty());
    pulled->push_back({stripe->file_offset, Flatten(stripe->bytes),
                       stripe->owned.buffers.size(), stripe->bytes});
  }
}

std::vector<Pulled> Pull(Rig* rig, std::vector<uint64_t> sizes) {
  std::vector<Pulled> pulled;
  rig->world.Run(PullAll(rig, std::move(sizes), &pulled));
  EXPECT_TRUE(rig->stream->done());
  return pulled;
}

std::string Join(const std::vector<Pulled>& pulled) {
  std::string bytes;
  for (const Pulled& stripe : pulled) {
    EXPECT_EQ(stripe.file_offset, bytes.size());
    bytes += stripe.bytes;
  }
  return bytes;
}

void ExpectChecksums(const Rig& rig) {
  const std::vector<uint64_t>& sums = rig.stream->checksums();
  ASSERT_EQ(sums.size(), rig.items->items().size());
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_EQ(sums[i], format::Xxh3(format::AsBytes(rig.items->Content(i))))
        << rig.items->items()[i].name;
  }
}

TEST(RankStream, StripesOfAnySizesJoinToTheFileAndChecksumsMatch) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 40; ++round) {
    const RankItems items = testing::RandomItems(&random);
    Rig rig(&items);
    std::vector<uint64_t> sizes;
    for (int i = 0; i < 7; ++i) sizes.push_back(1 + random() % 5000);
    const std::vector<Pulled> pulled = Pull(&rig, sizes);
    ASSERT_TRUE(Join(pulled) == items.Serialise(rig.file)) << round;
    ExpectChecksums(rig);
  }
}

TEST(RankStream, StripesOfOneByteJoinToTheFile) {
  std::mt19937_64 random(2);
  const RankItems items = testing::RandomItems(&random);
  Rig rig(&items);
  EXPECT_TRUE(Join(Pull(&rig, {1})) == items.Serialise(rig.file));
  ExpectChecksums(rig);
}

TEST(RankStream, StripeIsFullUnlessItIsTheLastOrHoldsAllStagingBuffers) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const RankItems items = testing::RandomItems(&random);
    Rig rig(&items);
    const uint64_t size = 1 + random() % 8000;
    std::vector<Pulled> pulled = Pull(&rig, {size});
    pulled.pop_back();
    for (const Pulled& stripe : pulled) {
      ASSERT_LE(stripe.bytes.size(), size);
      ASSERT_TRUE(stripe.bytes.size() == size ||
                  stripe.buffers == kStagingBuffersMax);
    }
  }
}

TEST(RankStream, FileOfOnlyAHeaderIsOneStripe) {
  const RankItems items;
  Rig rig(&items);
  const std::vector<Pulled> pulled = Pull(&rig, {kMiB});
  ASSERT_EQ(pulled.size(), 1u);
  EXPECT_EQ(pulled[0].bytes, rig.file.header);
}

TEST(RankStream, TensorsWithoutBytesHaveTheChecksumOfNothing) {
  // Sorts to the front, the middle and the end of the data.
  RankItems items;
  items.AddTensor(DenseView("first", Dtype::kU64, {0}), "");
  items.AddTensor(DenseView("a", Dtype::kF32, {2}), "12345678");
  items.AddTensor(DenseView("middle", Dtype::kF16, {0, 4}), "");
  items.AddTensor(DenseView("b", Dtype::kU8, {2}), "ab");
  items.AddTensor(DenseView("last", Dtype::kBool, {0}), "");
  Rig rig(&items);
  // Ends exactly with the tensor before the last empty one.
  EXPECT_EQ(Join(Pull(&rig, {rig.file.size_bytes})), items.Serialise(rig.file));
  ExpectChecksums(rig);
}

TEST(RankStream, FileOfOnlyTensorsWithoutBytesHasAllChecksums) {
  RankItems items;
  items.AddTensor(DenseView("a", Dtype::kF32, {0}), "");
  items.AddTensor(DenseView("b", Dtype::kF32, {0}), "");
  Rig rig(&items);
  EXPECT_EQ(Join(Pull(&rig, {4096})), rig.file.header);
  ExpectChecksums(rig);
}

TEST(RankStream, ContiguousMemoryIsNamedNotCopied) {
  std::mt19937_64 random(4);
  RankItems items;
  items.AddTensor(DenseView("dense", Dtype::kU8, {100'000}), &random);
  items.AddPaddedRows("long.rows", 10, kGatherRunBytes, &random);
  Rig rig(&items);
  for (const Pulled& stripe : Pull(&rig, {10'000})) {
    EXPECT_EQ(stripe.buffers, 0u);
    for (const format::ConstBytes& part : stripe.gather) {
      const auto* const begin = reinterpret_cast<const char*>(part.data());
      const bool header = begin >= rig.file.header.data() &&
                          begin < rig.file.header.data() + 4096;
      EXPECT_TRUE(header || items.Owns(0, begin) || items.Owns(1, begin));
    }
  }
  ExpectChecksums(rig);
}

TEST(RankStream, ShortRunsAreGatheredIntoBuffersOfTheStripe) {
  std::mt19937_64 random(5);
  RankItems items;
  items.AddPaddedRows("rows", 50, kGatherRunBytes - 1, &random);
  Rig rig(&items);
  const std::vector<Pulled> pulled = Pull(&rig, {kMiB});
  ASSERT_EQ(pulled.size(), 1u);
  EXPECT_EQ(pulled[0].buffers, 1u);
  EXPECT_EQ(pulled[0].gather.size(), 2u);  // The header, and one buffer.
  EXPECT_TRUE(pulled[0].bytes == items.Serialise(rig.file));
  ExpectChecksums(rig);
}

TEST(RankStream, ManyStridedTensorsTakeNoMoreThanTheStagingBuffers) {
  std::mt19937_64 random(6);
  RankItems items;
  for (int i = 0; i < 19; ++i) {
    items.AddPaddedRows("rows." + std::to_string(i), 5, 3, &random);
  }
  Rig rig(&items);
  const std::vector<Pulled> pulled = Pull(&rig, {kMiB});
  EXPECT_EQ(pulled.size(), 5u);
  for (const Pulled& stripe : pulled) {
    EXPECT_LE(stripe.buffers, kStagingBuffersMax);
  }
  EXPECT_TRUE(Join(pulled) == items.Serialise(rig.file));
  ExpectChecksums(rig);
}

TEST(RankStream, LongStridedTensorTakesNoMoreThanTheStagingBuffers) {
  std::mt19937_64 random(7);
  RankItems items;
  items.AddPaddedRows("rows", 18 * 1024, 1024, &random);
  Rig rig(&items);
  const std::vector<Pulled> pulled = Pull(&rig, {32 * kMiB});
  ASSERT_EQ(pulled.size(), 2u);
  EXPECT_EQ(
      pulled[0].bytes.size(),
      rig.file.header.size() + kStagingBuffersMax * format::kChunkBytesMax);
  EXPECT_EQ(pulled[0].buffers, kStagingBuffersMax);
  EXPECT_TRUE(Join(pulled) == items.Serialise(rig.file));
  ExpectChecksums(rig);
}

Task<void> PullWithoutBuffers(Rig* rig, absl::Status* status) {
  std::vector<io::Buffer> taken;
  while (true) {
    io::Buffer buffer = rig->env->pool()->TryAcquire(format::kChunkBytesMax);
    if (!buffer) break;
    taken.push_back(std::move(buffer));
  }
  const io::TimeNs deadline = rig->env->NowNs() + io::kSecond;
  absl::StatusOr<RankStripe> stripe =
      co_await rig->stream->Next(kMiB, deadline);
  *status = stripe.status();
  EXPECT_EQ(rig->env->NowNs(), deadline);
}

TEST(RankStream, NoStagingBufferInTimeIsDeadlineExceeded) {
  std::mt19937_64 random(8);
  RankItems items;
  items.AddPaddedRows("rows", 5, 3, &random);
  Rig rig(&items);
  absl::Status status;
  rig.world.Run(PullWithoutBuffers(&rig, &status));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded, "buffer"));
}

}  // namespace
}  // namespace cairn::client
