// A real process with a real RocksDB is killed with -9 while it puts chunks,
// again and again over the same directory.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/target/real_target.h"

namespace cairn::server {
namespace {

constexpr int kRounds = 20;
constexpr uint32_t kStripes = 100;

// Starts the child, kills it after `acks` acknowledgements; all it printed.
std::set<uint32_t> PutUntilKilled(const std::string& dir, uint64_t blob,
                                  uint64_t acks) {
  int ends[2];
  CAIRN_CHECK(pipe(ends) == 0);
  const std::string blob_text = std::to_string(blob);
  const std::string count_text = std::to_string(kStripes);
  const pid_t child = fork();
  CAIRN_CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    execl(CAIRN_TARGET_KILL_CHILD, CAIRN_TARGET_KILL_CHILD, dir.c_str(),
          blob_text.c_str(), count_text.c_str(), nullptr);
    _exit(127);
  }
  ::close(ends[1]);
  std::FILE* const lines = fdopen(ends[0], "r");
  std::set<uint32_t> acked;
  unsigned stripe = 0;
  while (std::fscanf(lines, "%u\n", &stripe) == 1) {
    acked.insert(stripe);
    if (acked.size() == acks) kill(child, SIGKILL);
  }
  std::fclose(lines);
  int status = 0;
  CAIRN_CHECK(waitpid(child, &status, 0) == child);
  CAIRN_CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return acked;
}

// Every listed chunk of the blob is whole; all of `acked` are listed.
void ExpectAckedAndNothingBroken(RealTarget* target, uint64_t blob,
                                 const std::set<uint32_t>& acked) {
  const format::PgId pg{format::PoolId(1), kPg};
  const auto list = Await(target->env.get(), target->store->List(pg, "", 1000));
  ASSERT_OK(list);
  std::set<uint32_t> visible;
  uint64_t used = 0;
  for (const ListedChunk& listed : list->chunks) {
    ASSERT_EQ(listed.chunk.blob.sequence(), blob);
    const TestChunk chunk = KillTestChunk(blob, listed.chunk.stripe);
    const auto read = target->Read(chunk);
    ASSERT_OK(read);
    ASSERT_TRUE(*read == format::AsText(chunk.bytes()));
    visible.insert(listed.chunk.stripe);
    used += chunk.allocated_bytes();
  }
  for (const uint32_t stripe : acked) EXPECT_TRUE(visible.contains(stripe));
  EXPECT_EQ(target->store->stats().used_bytes, used);
}

TEST(StoreKill, AckedChunksSurviveKillMinusNine) {
  RealTarget target;
  ASSERT_OK(target.Format());
  uint64_t acked_in_all = 0;
  for (int round = 1; round <= kRounds; ++round) {
    SCOPED_TRACE(round);
    const auto blob = static_cast<uint64_t>(round);
    const uint64_t acks = 1 + format::Mix64(blob) % (kStripes / 2);
    const std::set<uint32_t> acked = PutUntilKilled(target.dir, blob, acks);
    ASSERT_GE(acked.size(), acks);
    acked_in_all += acked.size();
    ASSERT_OK(target.Open());
    ExpectAckedAndNothingBroken(&target, blob, acked);
    ASSERT_OK(target.Delete(blob, kStripes + 1000));
    EXPECT_EQ(target.store->stats().used_bytes, 0u);
    ASSERT_OK(target.Close());
    if (HasFailure()) return;
  }
  EXPECT_GT(acked_in_all, static_cast<uint64_t>(kRounds));
}

}  // namespace
}  // namespace cairn::server
