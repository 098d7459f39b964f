// Processes that stop for a while and go on.
#include <array>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"
#include "tests/support/co_assert.h"

namespace cairn::sim {
namespace {

using ::cairn::testing::StatusIs;
using ::testing::ElementsAre;

io::Task<void> NoteAfter(SimEnv* env, io::TimeNs duration, int id,
                         std::vector<int>* order) {
  co_await io::SleepFor(env, duration);
  order->push_back(id);
}

io::Task<void> Tick(SimEnv* env, uint64_t* ticks) {
  while (env->alive()) {
    co_await io::SleepFor(env, io::kSecond);
    ++*ticks;
  }
}

class PauseTest : public ::testing::Test {
 protected:
  PauseTest()
      : world_(WorldOptions()),
        env_(world_.Start(world_.AddNode())),
        other_(world_.Start(world_.AddNode())),
        gate_(&world_) {}
  ~PauseTest() override {
    world_.Kill(env_);
    world_.Kill(other_);
    world_.RunUntilIdle();
    EXPECT_EQ(gate_.in_flight(), 0u);
  }
  void Pass(io::TimeNs duration) { world_.RunUntil(world_.NowNs() + duration); }

  World world_;
  SimEnv* const env_;
  SimEnv* const other_;
  io::Gate gate_;
  uint64_t ticks_ = 0;  // Of a Tick(), which ends with the fixture.
  uint64_t others_ = 0;
};

TEST_F(PauseTest, PausedProcessRunsNothingWhileOthersGoOn) {
  bool posted = false;
  gate_.Spawn(Tick(env_, &ticks_));
  gate_.Spawn(Tick(other_, &others_));
  Pass(io::kSecond * 5 / 2);
  EXPECT_EQ(ticks_, 2u);
  env_->Post([&posted] { posted = true; });
  world_.Pause(env_, 10 * io::kSecond);
  EXPECT_TRUE(world_.paused(env_));
  Pass(9 * io::kSecond);
  EXPECT_EQ(ticks_, 2u);
  EXPECT_FALSE(posted);
  EXPECT_EQ(others_, 11u);
  Pass(2 * io::kSecond);  // It goes on at 12.5 s: its tick was due at 3 s.
  EXPECT_FALSE(world_.paused(env_));
  EXPECT_TRUE(posted);
  EXPECT_EQ(ticks_, 4u) << "one late, and the next a second after that";
  EXPECT_EQ(world_.faults().of(FaultKind::kPause), 1u);
}

TEST_F(PauseTest, DueTimersFireInTheirOldOrderBeforeAnythingElse) {
  std::vector<int> order;
  world_.Pause(env_, 10 * io::kSecond);
  gate_.Spawn(NoteAfter(other_, 10 * io::kSecond, 9, &order));
  for (const int id : {3, 1, 2}) {
    const auto delay = static_cast<io::TimeNs>(id) * io::kSecond;
    gate_.Spawn(NoteAfter(env_, delay, id, &order));
  }
  gate_.Spawn(NoteAfter(env_, 11 * io::kSecond, 11, &order));
  world_.RunUntilIdle();
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 9, 11));
}

TEST_F(PauseTest, SecondPauseEndsAtTheLaterOfTheTwo) {
  gate_.Spawn(Tick(env_, &ticks_));
  world_.Pause(env_, 5 * io::kSecond);
  world_.Pause(env_, 20 * io::kSecond);
  world_.Pause(env_, 10 * io::kSecond);
  Pass(15 * io::kSecond);
  EXPECT_EQ(ticks_, 0u);
  Pass(6 * io::kSecond);
  EXPECT_EQ(ticks_, 2u);
}

TEST_F(PauseTest, ResumeByHandEndsAPauseAndItsEndDoesNotEndTheNext) {
  gate_.Spawn(Tick(env_, &ticks_));
  world_.Pause(env_, 10 * io::kSecond);
  world_.Resume(env_);
  Pass(io::kSecond);
  EXPECT_EQ(ticks_, 1u);
  world_.Pause(env_);  // For good.
  Pass(100 * io::kSecond);
  EXPECT_EQ(ticks_, 1u);
  EXPECT_TRUE(world_.paused(env_));
}

TEST_F(PauseTest, KilledWhilePausedItUnwinds) {
  gate_.Spawn(Tick(env_, &ticks_));
  world_.Pause(env_);
  Pass(10 * io::kSecond);
  world_.Kill(env_);
  EXPECT_FALSE(world_.paused(env_));
  world_.RunUntilIdle();
  EXPECT_EQ(gate_.in_flight(), 0u);
  EXPECT_EQ(ticks_, 1u);
  world_.Pause(env_);
  EXPECT_FALSE(world_.paused(env_)) << "there is nothing to pause any more";
}

// --- What arrives meanwhile.

struct Outcome {
  bool done = false;
  absl::Status status;
};

io::Task<void> Listen(SimEnv* env, std::unique_ptr<io::Listener>* into) {
  auto listening = co_await env->Listen(env->Address(7400));
  CO_ASSERT_OK(listening);
  *into = *std::move(listening);
}

io::Task<void> ServeOne(io::Listener* listener, std::vector<uint8_t>* bytes,
                        Outcome* outcome) {
  auto stream = co_await listener->Accept();
  CO_ASSERT_OK(stream);
  const std::array<io::MutableBytes, 1> in = {io::MutableBytes(*bytes)};
  outcome->status = co_await (*stream)->ReceiveAll(in);
  outcome->done = true;
  co_await (*stream)->Close();
}

io::Task<void> SendOne(SimEnv* env, std::string address,
                       std::vector<uint8_t> bytes, Outcome* outcome) {
  auto stream = co_await env->Connect(address, io::kNoDeadline);
  CO_ASSERT_OK(stream);
  const std::array<io::ConstBytes, 1> out = {io::ConstBytes(bytes)};
  outcome->status = co_await (*stream)->SendAll(out);
  outcome->done = true;
  co_await (*stream)->Close();
}

io::Task<void> CloseListener(io::Listener* listener) {
  co_await listener->Close();
}

TEST_F(PauseTest, ArrivalsWaitInTheSocketsOfAPausedProcess) {
  std::unique_ptr<io::Listener> listener;
  world_.Run(Listen(env_, &listener));
  std::vector<uint8_t> received(100'000);
  const std::vector<uint8_t> bytes(received.size(), 7);
  Outcome serve;
  Outcome send;
  gate_.Spawn(ServeOne(listener.get(), &received, &serve));
  world_.Pause(env_, 10 * io::kSecond);
  gate_.Spawn(SendOne(other_, listener->address(), bytes, &send));
  Pass(5 * io::kSecond);
  EXPECT_TRUE(send.done) << "the kernel accepts and takes a window of bytes";
  EXPECT_FALSE(serve.done);
  world_.RunUntilIdle();
  EXPECT_TRUE(serve.done);
  EXPECT_OK(serve.status);
  EXPECT_TRUE(received == bytes);
  world_.Run(CloseListener(listener.get()));
}

// A wait that a peer ends while its process is paused takes its deadline out
// of the timers that were set aside.
io::Task<void> WaitForEvent(io::Event* event, io::TimeNs deadline,
                            io::WaitResult* result) {
  *result = co_await event->Wait(deadline);
}

TEST_F(PauseTest, WaitWokenDuringAPauseDoesNotAlsoTimeOut) {
  io::Event event(env_);
  io::WaitResult result = io::WaitResult::kCancelled;
  gate_.Spawn(WaitForEvent(&event, env_->NowNs() + 2 * io::kSecond, &result));
  world_.Pause(env_, 10 * io::kSecond);
  Pass(5 * io::kSecond);  // The timer was due and set aside.
  event.Set();
  Pass(io::kSecond);
  EXPECT_EQ(result, io::WaitResult::kCancelled) << "not yet resumed";
  world_.RunUntilIdle();
  EXPECT_EQ(result, io::WaitResult::kWoken);
}

TEST(PauseDeathTest, DeadlockNamesThePausedProcess) {
  World world({.seed = 1});
  SimEnv* const env = world.Start(world.AddNode());
  world.Pause(env);
  std::vector<int> order;
  EXPECT_DEATH(world.Run(NoteAfter(env, 1, 1, &order)),
               "deadlock[^$]*process 1 is paused");
}

}  // namespace
}  // namespace cairn::sim
