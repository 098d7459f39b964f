// The simulated Env against the suite of env_conformance.h, on several seeds.
#include "tests/conformance/io/env_conformance.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"

namespace cairn::sim {
namespace {

class SimHarness : public io::EnvHarness {
 public:
  explicit SimHarness(uint64_t seed)
      : world_(Options(seed)), env_(world_.Start(world_.AddNode())) {
    CAIRN_CHECK(env_->disk()->MakeDirectory("/scratch").ok());
  }
  io::Env* env() override { return env_; }
  void Run(io::Task<void> task) override { world_.Run(std::move(task)); }
  std::string directory() override { return "/scratch"; }
  std::string listen_address() override { return env_->Address(0); }

 private:
  static WorldOptions Options(uint64_t seed) {
    WorldOptions options;
    options.seed = seed;
    return options;
  }
  World world_;
  SimEnv* const env_;
};

io::EnvFactory OfSeed(uint64_t seed) {
  return {absl::StrCat("seed", seed),
          [seed] { return std::make_unique<SimHarness>(seed); }};
}

}  // namespace
}  // namespace cairn::sim

namespace cairn::io {

INSTANTIATE_TEST_SUITE_P(Sim, EnvConformance,
                         ::testing::Values(sim::OfSeed(1), sim::OfSeed(2),
                                           sim::OfSeed(3)),
                         EnvFactoryName);

}  // namespace cairn::io
