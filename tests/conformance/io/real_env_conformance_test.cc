// Both real backends against the suite of env_conformance.h. "Auto" is io_uring
// where the kernel has it; restricted_process_test runs it again where the
// kernel refuses it.
#include <stdlib.h>

#include <filesystem>

#include "io/event_loop.h"
#include "tests/conformance/io/env_conformance.h"

namespace cairn::io {
namespace {

class RealHarness : public EnvHarness {
 public:
  RealHarness(std::unique_ptr<RealEnv> env, std::string directory)
      : env_(std::move(env)), directory_(std::move(directory)) {}
  ~RealHarness() override {
    env_.reset();
    std::filesystem::remove_all(directory_);
  }
  Env* env() override { return env_.get(); }
  void Run(Task<void> task) override { env_->RunUntilDone(std::move(task)); }
  std::string directory() override { return directory_; }
  std::string listen_address() override { return "127.0.0.1:0"; }

 private:
  std::unique_ptr<RealEnv> env_;
  const std::string directory_;
};

EnvFactory Of(Backend backend, std::string name) {
  auto make = [backend]() -> std::unique_ptr<EnvHarness> {
    LoopOptions options;
    options.backend = backend;
    options.pool_large_buffers = 4;
    options.pool_lazy = false;
    auto env = MakeRealEnv(options);
    if (!env.ok()) return nullptr;
    std::string directory = ::testing::TempDir() + "/cairn_env_XXXXXX";
    CAIRN_CHECK(mkdtemp(directory.data()) != nullptr);
    return std::make_unique<RealHarness>(*std::move(env), directory);
  };
  return {std::move(name), std::move(make)};
}

INSTANTIATE_TEST_SUITE_P(Auto, EnvConformance,
                         ::testing::Values(Of(Backend::kAuto, "auto")),
                         EnvFactoryName);
INSTANTIATE_TEST_SUITE_P(Plain, EnvConformance,
                         ::testing::Values(Of(Backend::kPlain, "plain")),
                         EnvFactoryName);

}  // namespace
}  // namespace cairn::io
