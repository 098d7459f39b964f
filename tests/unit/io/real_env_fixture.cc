#include "tests/unit/io/real_env_fixture.h"

#include <stdlib.h>

#include <cstring>
#include <filesystem>

namespace cairn::io {

void RealEnvTest::SetUp() {
  LoopOptions options;
  options.backend = GetParam();
  options.pool_large_buffers = 4;
  options.pool_lazy = false;
  absl::StatusOr<std::unique_ptr<RealEnv>> env = MakeRealEnv(options);
  ASSERT_OK(env);
  env_ = *std::move(env);
  const char* const expected = getenv(kExpectBackend);
  if (GetParam() == Backend::kPlain) {
    ASSERT_STREQ(env_->name(), "plain");
  } else if (expected != nullptr) {
    ASSERT_STREQ(env_->name(), expected);
  }
  std::string directory = ::testing::TempDir() + "/cairn_io_XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  directory_ = directory;
}

void RealEnvTest::TearDown() {
  env_.reset();
  if (!directory_.empty()) std::filesystem::remove_all(directory_);
}

std::unique_ptr<File> RealEnvTest::Open(const std::string& path,
                                        OpenOptions options) {
  absl::StatusOr<std::unique_ptr<File>> file =
      Get(env_->OpenFile(path, options));
  EXPECT_OK(file);
  return file.ok() ? *std::move(file) : nullptr;
}

std::vector<uint8_t> Noise(uint64_t size_bytes, uint64_t seed) {
  std::vector<uint8_t> bytes(size_bytes);
  uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  uint64_t at = 0;
  for (; at + sizeof(state) <= size_bytes; at += sizeof(state)) {
    state = state * 6364136223846793005 + 1442695040888963407;
    std::memcpy(&bytes[at], &state, sizeof(state));
  }
  for (; at < size_bytes; ++at) bytes[at] = static_cast<uint8_t>(at + seed);
  return bytes;
}

}  // namespace cairn::io
