// RealEnvTest: a real event loop per test, for tests that hold for both
// backends, with a directory of its own.
//
// Instantiated over Backend::kAuto and kPlain. The test of a forbidden io_uring
// runs the kAuto half again in a child process, where kExpectBackend says what
// kAuto has to be.
//
// Threads: the test's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "io/event_loop.h"
#include "tests/support/status_matchers.h"

namespace cairn::io {

inline constexpr char kExpectBackend[] = "CAIRN_TEST_EXPECT_BACKEND";

class RealEnvTest : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Runs `task` on the loop; its result.
  template <typename T>
  T Get(Task<T> task) {
    std::optional<T> result;
    env_->RunUntilDone(Store(std::move(task), &result));
    return *std::move(result);
  }
  void Run(Task<void> task) { env_->RunUntilDone(std::move(task)); }

  std::unique_ptr<File> Open(const std::string& path, OpenOptions options);
  std::string PathOf(const std::string& name) const {
    return directory_ + "/" + name;
  }

  std::unique_ptr<RealEnv> env_;

 private:
  template <typename T>
  static Task<void> Store(Task<T> task, std::optional<T>* result) {
    result->emplace(co_await std::move(task));
  }

  std::string directory_;
};

// Bytes that differ from place to place and from seed to seed.
std::vector<uint8_t> Noise(uint64_t size_bytes, uint64_t seed);

}  // namespace cairn::io

#define CAIRN_FOR_BOTH_BACKENDS(suite)                                      \
  INSTANTIATE_TEST_SUITE_P(Auto, suite, ::testing::Values(Backend::kAuto)); \
  INSTANTIATE_TEST_SUITE_P(Plain, suite, ::testing::Values(Backend::kPlain))
