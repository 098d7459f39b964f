// Runs parts of this executable again in a child process that may do less: one
// where io_uring is forbidden, as container runtimes forbid it, and one that
// may not lock memory.
#include <linux/capability.h>
#include <seccomp.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "tests/unit/io/real_env_fixture.h"

namespace cairn::io {
namespace {

using testing::StatusIs;

constexpr char kNoLockedMemory[] = "CAIRN_TEST_NO_LOCKED_MEMORY";

bool ForbidUring() {
  const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  bool done = filter != nullptr;
  for (const char* const name :
       {"io_uring_setup", "io_uring_enter", "io_uring_register"}) {
    done = done && seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
                                    seccomp_syscall_resolve_name(name), 0) == 0;
  }
  return done && seccomp_load(filter) == 0;
}

// Enough for a small ring, too little for the buffers.
bool ForbidLockedMemory() {
  const rlimit little = {.rlim_cur = 64 * format::kKiB,
                         .rlim_max = 64 * format::kKiB};
  // Without the privilege to drop it, the capability is not there either.
  prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0);
  return setrlimit(RLIMIT_MEMLOCK, &little) == 0;
}

// Runs the tests in `filter` in a child, after `restrict`, with `variable` set
// to `value`; the child's exit status.
int RunRestricted(bool (*restrict)(), const char* variable, const char* value,
                  const std::string& filter) {
  const std::string filter_flag = "--gtest_filter=" + filter;
  const pid_t child = fork();
  if (child == 0) {
    setenv(variable, value, 1);
    if (!restrict()) _exit(101);
    execl("/proc/self/exe", "io_test", filter_flag.c_str(), "--gtest_brief=1",
          nullptr);
    _exit(102);
  }
  int status = -1;
  CAIRN_CHECK(child > 0 && waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(RestrictedProcess, AutoIsThePlainBackendWhereUringIsForbidden) {
  EXPECT_EQ(RunRestricted(ForbidUring, kExpectBackend, "plain",
                          "Auto/*:WithoutUring.*-*TwoGigabytesReachesItsLast*"),
            0);
}

TEST(RestrictedProcess, UringWorksUnregisteredWhereMemoryCannotBeLocked) {
  LoopOptions options;
  options.backend = Backend::kUring;
  if (!MakeRealEnv(options).ok()) GTEST_SKIP() << "no io_uring here";
  EXPECT_EQ(RunRestricted(ForbidLockedMemory, kNoLockedMemory, "1",
                          "WithoutLockedMemory.*"),
            0);
}

// Collects what is logged.
class LogCapture {
 public:
  LogCapture() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("capture", std::move(sink)));
  }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  ~LogCapture() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST(WithoutUring, AutoSaysOnceWhyItIsPlain) {
  if (getenv(kExpectBackend) == nullptr) GTEST_SKIP() << "run by a parent";
  const LogCapture log;
  ASSERT_OK(MakeRealEnv(LoopOptions()));
  const std::string text = log.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_THAT(text, ::testing::HasSubstr("io_uring_setup: EPERM"));
  EXPECT_THAT(text, ::testing::HasSubstr("slower"));
}

TEST(WithoutUring, AskingForItIsUnavailable) {
  if (getenv(kExpectBackend) == nullptr) GTEST_SKIP() << "run by a parent";
  LoopOptions options;
  options.backend = Backend::kUring;
  EXPECT_THAT(MakeRealEnv(options),
              StatusIs(absl::StatusCode::kUnavailable, "EPERM"));
  EXPECT_THAT(LoopThread::Start("test", options),
              StatusIs(absl::StatusCode::kUnavailable, "EPERM"));
}

Task<void> WriteAndReadBack(Env* env, std::string path, bool* same) {
  const OpenOptions options{.write = true, .create = true, .direct = true};
  auto file = co_await env->OpenFile(path, options);
  if (!file.ok()) co_return;
  const Buffer from = env->pool()->TryAcquire(1);
  const Buffer to = env->pool()->TryAcquire(1);
  std::fill(from.bytes().begin(), from.bytes().end(), uint8_t{0x5A});
  const absl::Status written = co_await (*file)->WriteAt(0, from.bytes());
  const absl::Status read = co_await (*file)->ReadAt(0, to.bytes());
  *same =
      written.ok() && read.ok() &&
      std::equal(from.bytes().begin(), from.bytes().end(), to.bytes().begin());
  EXPECT_OK(co_await (*file)->Close());
  EXPECT_OK(co_await env->Remove(path));
}

TEST(WithoutLockedMemory, UringSaysSoOnceAndWorks) {
  if (getenv(kNoLockedMemory) == nullptr) GTEST_SKIP() << "run by a parent";
  LoopOptions options;
  options.backend = Backend::kUring;
  options.pool_lazy = false;
  const LogCapture log;
  auto env = MakeRealEnv(options);
  ASSERT_OK(env);
  bool same = false;
  (*env)->RunUntilDone(WriteAndReadBack(
      env->get(),
      ::testing::TempDir() + "/cairn_memlock_" + std::to_string(getpid()),
      &same));
  EXPECT_TRUE(same);
  const std::string text = log.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_THAT(text, ::testing::HasSubstr("RLIMIT_MEMLOCK"));
}

}  // namespace
}  // namespace cairn::io
