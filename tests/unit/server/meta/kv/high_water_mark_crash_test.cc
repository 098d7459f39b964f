// Power lost, or the process killed, at every event of a mark's life.
#include "gmock/gmock.h"
#include "server/meta/kv/high_water_mark.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"
#include "tests/support/status_matchers.h"

namespace cairn::server {
namespace {

constexpr uint64_t kNewest = 40;
constexpr const char* kDir = "/meta";

struct Seen {
  bool made = false;      // Open() said that there is a mark.
  uint64_t sequence = 0;  // Of the newest mark that was said to be written.
};

io::Task<void> MakeDir(io::Env* env) {
  const absl::Status made = co_await env->MakeDirectory(kDir);
  CAIRN_CHECK(made.ok());
  const absl::Status durable = co_await env->SyncDirectory("/");
  CAIRN_CHECK(durable.ok());
}

io::Task<void> Live(io::Env* env, Seen* seen) {
  auto mark = co_await HighWaterMark::Open(env, kDir, {}, /*create=*/true);
  if (!mark.ok()) co_return;
  seen->made = true;
  for (uint64_t sequence = 1; sequence <= kNewest; ++sequence) {
    (*mark)->Advance(sequence);
    co_await io::SleepFor(env, 3 * io::kMillisecond);
    seen->sequence = (*mark)->mark().sequence;
  }
  (void)co_await (*mark)->Close();
  seen->sequence = (*mark)->mark().sequence;
}

io::Task<void> Inspect(io::Env* env, const Seen* seen) {
  if (!seen->made) {  // A crash while it was made must not be in the way.
    Seen again;
    co_await Live(env, &again);
    EXPECT_EQ(again.sequence, kNewest);
    co_return;
  }
  auto mark = co_await HighWaterMark::Open(env, kDir, {}, /*create=*/false);
  EXPECT_OK(mark);
  if (!mark.ok()) co_return;
  EXPECT_GE((*mark)->mark().sequence, seen->sequence);
  EXPECT_LE((*mark)->mark().sequence, kNewest);
  EXPECT_OK((*mark)->Check(kNewest, 0));
  EXPECT_OK(co_await (*mark)->Close());
}

enum class Death { kKill, kPower };

class HighWaterMarkCrash : public ::testing::TestWithParam<Death> {};

TEST_P(HighWaterMarkCrash, MarkThatWasWrittenIsThereAfterDeathAtEveryEvent) {
  uint64_t deaths = 0;
  for (bool ended = false; !ended; ++deaths) {
    SCOPED_TRACE(absl::StrCat("seed ", deaths, ", death after as many events"));
    sim::WorldOptions options;
    options.seed = deaths;
    sim::World world(options);
    const sim::NodeId node = world.AddNode();
    sim::SimEnv* process = world.Start(node);
    world.Run(MakeDir(process));
    Seen seen;
    io::Gate gate(&world);
    gate.Spawn(Live(process, &seen));
    for (uint64_t i = 0; i < deaths && gate.in_flight() > 0; ++i) {
      CAIRN_CHECK(world.Step());
    }
    ended = gate.in_flight() == 0;
    const Seen promised = seen;
    if (GetParam() == Death::kPower) {
      world.Crash(node);
    } else {
      world.Kill(process);
    }
    world.Run(gate.Close());
    world.Run(Inspect(world.Start(node), &promised));
  }
  EXPECT_GT(deaths, 50u);
}

INSTANTIATE_TEST_SUITE_P(Deaths, HighWaterMarkCrash,
                         ::testing::Values(Death::kKill, Death::kPower),
                         [](const auto& info) {
                           return info.param == Death::kKill ? "Kill" : "Power";
                         });

}  // namespace
}  // namespace cairn::server
