// kill -9 of a process that commits through RocksKv: whatever it had been
// told is there, and nothing is there that it never wrote.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "server/meta/kv/high_water_mark.h"
#include "tests/conformance/kv/kv_subject.h"
#include "tests/support/status_matchers.h"

namespace cairn::server {
namespace {

constexpr const char* kDirVariable = "CAIRN_KV_CRASH_DIR";
constexpr const char* kRoundVariable = "CAIRN_KV_CRASH_ROUND";
constexpr int kAcksFd = 9;  // Where the child says what was acknowledged.
constexpr int kWriters = 32;
constexpr int kRounds = 12;

std::string ValueOf(const std::string& key) {
  return "value of " + key + std::string(key.size() * 7 % 200, '.');
}

void WriteAll(int fd, const std::string& line) {
  // Less than PIPE_BUF: whole or not at all.
  CAIRN_CHECK(write(fd, line.data(), line.size()) ==
              static_cast<ssize_t>(line.size()));
}

io::Task<void> CommitForever(KvEngine* kv, std::string prefix) {
  for (uint64_t n = 0;; ++n) {
    const std::string key = absl::StrCat(prefix, ":", n);
    KvCommit commit;
    commit.expect.push_back({key, 0});
    commit.writes.push_back({key, ValueOf(key)});
    // The two halves of a commit are there together or not at all.
    commit.writes.push_back({"twin:" + key, ValueOf(key)});
    const absl::StatusOr<uint64_t> done =
        co_await kv->Commit(std::move(commit));
    CAIRN_CHECK(done.ok());
    WriteAll(kAcksFd, key + "\n");
  }
}

io::Task<void> CommitFromAll(io::Env* env, KvEngine* kv, std::string round) {
  io::Gate gate(env);
  for (int writer = 0; writer < kWriters; ++writer) {
    gate.Spawn(CommitForever(kv, absl::StrCat("r", round, ":", writer)));
  }
  co_await gate.Close();
}

// Not a test of its own: the process that the test below kills.
TEST(RocksKvCrashChild, CommitsUntilKilled) {
  const char* const dir = std::getenv(kDirVariable);
  if (dir == nullptr) GTEST_SKIP() << "only as a child of RocksKvCrash";
  const auto env = NewEnv();
  const std::string base(dir);
  auto mark = Await(env.get(), HighWaterMark::Open(env.get(), base, {}, true));
  CAIRN_CHECK(mark.ok());
  RocksKvOptions options;
  options.create = true;
  options.on_durable = [&mark](uint64_t sequence) {
    (*mark)->Advance(sequence);
  };
  auto kv = Await(env.get(), RocksKv::Open(env.get(), base + "/kv", options));
  CAIRN_CHECK(kv.ok());
  env->RunUntilDone(
      CommitFromAll(env.get(), kv->get(), std::getenv(kRoundVariable)));
}

struct Child {
  pid_t pid = -1;
  int acks = -1;
};

Child StartChild(const std::string& dir, int round) {
  int ends[2];
  CAIRN_CHECK(pipe(ends) == 0);
  const std::string dir_entry = absl::StrCat(kDirVariable, "=", dir);
  const std::string round_entry = absl::StrCat(kRoundVariable, "=", round);
  const pid_t pid = fork();
  CAIRN_CHECK(pid >= 0);
  if (pid == 0) {
    dup2(ends[1], kAcksFd);
    const int quiet = open("/dev/null", O_WRONLY);
    dup2(quiet, STDOUT_FILENO);
    const char* const arguments[] = {
        "meta_test", "--gtest_filter=RocksKvCrashChild.*", nullptr};
    const char* const environment[] = {dir_entry.c_str(), round_entry.c_str(),
                                       nullptr};
    execve("/proc/self/exe", const_cast<char**>(arguments),
           const_cast<char**>(environment));
    _exit(127);
  }
  close(ends[1]);
  return {pid, ends[0]};
}

// Lets the child acknowledge `enough` commits, kills it, and returns all that
// it acknowledged.
std::set<std::string> KillAfter(Child child, size_t enough) {
  std::string text;
  bool killed = false;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(child.acks, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(got));
    const auto lines =
        static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
    if (!killed && lines >= enough) {
      killed = true;
      CAIRN_CHECK(kill(child.pid, SIGKILL) == 0);
    }
  }
  close(child.acks);
  int status = 0;
  CAIRN_CHECK(waitpid(child.pid, &status, 0) == child.pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  std::set<std::string> acknowledged;
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    acknowledged.insert(text.substr(begin, end - begin));
  }
  return acknowledged;
}

void ExpectWhole(io::RealEnv* env, KvEngine* kv,
                 const std::set<std::string>& acknowledged) {
  for (const std::string& key : acknowledged) {
    const auto found = Await(env, kv->Get(key));
    ASSERT_OK(found);
    ASSERT_TRUE(found->has_value()) << "lost " << key;
  }
  const auto all = Await(env, kv->Scan("r", "s", 1'000'000));
  ASSERT_OK(all);
  for (const KvPair& pair : *all) {
    ASSERT_EQ(pair.value, ValueOf(pair.key));
    const auto twin = Await(env, kv->Get("twin:" + pair.key));
    ASSERT_OK(twin);
    ASSERT_TRUE(twin->has_value()) << "half of a commit: " << pair.key;
    ASSERT_EQ((*twin)->version, pair.version);
    ASSERT_LE(pair.version, kv->sequence());
  }
}

TEST(RocksKvCrash, KilledProcessLosesNothingAcknowledged) {
  const TempDir dir;
  std::mt19937_64 random(20);
  std::set<std::string> acknowledged;
  for (int round = 0; round < kRounds; ++round) {
    const size_t enough = 1 + random() % 400;
    SCOPED_TRACE(absl::StrCat("round ", round, ", killed after ", enough));
    acknowledged.merge(KillAfter(StartChild(dir.path(), round), enough));
    const auto env = NewEnv();
    const std::string kv_dir = dir / "kv";
    auto kv = Await(env.get(), RocksKv::Open(env.get(), kv_dir, {}));
    ASSERT_OK(kv);
    ASSERT_NO_FATAL_FAILURE(ExpectWhole(env.get(), kv->get(), acknowledged));
    // The mark is never ahead of the store: it would refuse a good one.
    auto mark =
        Await(env.get(), HighWaterMark::Open(env.get(), dir.path(), {}, false));
    ASSERT_OK(mark);
    EXPECT_OK((*mark)->Check((*kv)->sequence(), 0));
    EXPECT_OK(Await(env.get(), (*mark)->Close()));
    EXPECT_OK(Await(env.get(), (*kv)->Close()));
  }
}

}  // namespace
}  // namespace cairn::server
