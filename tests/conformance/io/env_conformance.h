// What every io::Env must do: one suite, run against each implementation.
//
// The tests live in env_*_conformance.cc; an implementation adds itself with
//
//   INSTANTIATE_TEST_SUITE_P(Plain, EnvConformance,
//       ::testing::Values(EnvFactory{"plain", [] { return MakeHarness(); }}),
//       EnvFactoryName);
//
// in a .cc of the same executable. Nothing in the suite depends on how long
// something takes, except that no wait may end before its deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "io/env.h"
#include "tests/support/co_assert.h"

namespace cairn::io {

// One Env and a place to use it in, for one test.
class EnvHarness {
 public:
  virtual ~EnvHarness() = default;
  virtual Env* env() = 0;
  // Runs the loop until `task` has finished.
  virtual void Run(Task<void> task) = 0;
  // An existing, empty directory; where O_DIRECT works, if that is to be tried.
  virtual std::string directory() = 0;
  // Where a listener may listen on a port that is free: "127.0.0.1:0".
  virtual std::string listen_address() = 0;
};

struct EnvFactory {
  std::string name;
  std::function<std::unique_ptr<EnvHarness>()> make;
};

inline std::string EnvFactoryName(
    const ::testing::TestParamInfo<EnvFactory>& info) {
  return info.param.name;
}

class EnvConformance : public ::testing::TestWithParam<EnvFactory> {
 protected:
  // A null harness: this machine cannot run the implementation.
  void SetUp() override {
    harness_ = GetParam().make();
    if (harness_ == nullptr) GTEST_SKIP() << "refused on this machine";
  }
  void Run(Task<void> task) { harness_->Run(std::move(task)); }
  Env* env() { return harness_->env(); }
  std::string Path(const std::string& name) {
    return harness_->directory() + "/" + name;
  }
  std::string directory() { return harness_->directory(); }
  std::string listen_address() { return harness_->listen_address(); }

 private:
  std::unique_ptr<EnvHarness> harness_;
};

// `size` bytes that differ from place to place and from seed to seed.
inline std::vector<uint8_t> PatternOf(uint64_t seed, size_t size) {
  std::vector<uint8_t> bytes(size);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (uint8_t& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(state >> 56);
  }
  return bytes;
}

inline OpenOptions ForWriting() {
  OpenOptions options;
  options.write = true;
  options.create = true;
  return options;
}

}  // namespace cairn::io
