#include "tests/sim/world.h"

#include <array>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_env.h"
#include "tests/support/co_assert.h"

namespace cairn::sim {
namespace {

using ::cairn::testing::StatusIs;
using ::testing::ElementsAre;

io::OpenOptions Creating() {
  io::OpenOptions options;
  options.write = true;
  options.create = true;
  return options;
}

WorldOptions OfSeed(uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  return options;
}

// --- Determinism.

// Changes when the simulator or this scenario changes; never with compiler,
// build type or machine.
constexpr uint64_t kExpectedHash = 11194760859770883425u;

io::Task<void> Echo(io::Listener* listener) {
  auto accepted = co_await listener->Accept();
  CO_ASSERT_OK(accepted);
  std::vector<uint8_t> bytes(4096);
  while (true) {
    const auto count = co_await (*accepted)->ReceiveSome(bytes);
    CO_ASSERT_OK(count);
    if (*count == 0) break;
    const std::array<io::ConstBytes, 1> back = {
        io::ConstBytes(bytes).first(*count)};
    const absl::Status sent = co_await (*accepted)->SendAll(back);
    EXPECT_OK(sent);
  }
  co_await (*accepted)->Close();
}

io::Task<void> SendAndSave(SimEnv* env, std::string address) {
  auto stream = co_await env->Connect(address, io::kNoDeadline);
  CO_ASSERT_OK(stream);
  auto file = co_await env->OpenFile("/log", Creating());
  CO_ASSERT_OK(file);
  std::vector<uint8_t> bytes(100'000);
  const std::array<io::ConstBytes, 1> out = {io::ConstBytes(bytes)};
  const std::array<io::MutableBytes, 1> in = {io::MutableBytes(bytes)};
  for (uint64_t i = 0; i < 5; ++i) {
    bytes[0] = static_cast<uint8_t>(env->Random());
    const absl::Status sent = co_await (*stream)->SendAll(out);
    EXPECT_OK(sent);
    const absl::Status received = co_await (*stream)->ReceiveAll(in);
    EXPECT_OK(received);
    const absl::Status written = co_await (*file)->WriteAt(i * 7, bytes);
    EXPECT_OK(written);
  }
  const absl::Status closed = co_await (*file)->Close();
  EXPECT_OK(closed);
  co_await (*stream)->Close();
}

io::Task<void> ServeOneClient(SimEnv* server, SimEnv* client) {
  auto listener = co_await server->Listen(server->Address(7400));
  CO_ASSERT_OK(listener);
  io::Gate gate(server);
  gate.Spawn(Echo(listener->get()));
  gate.Spawn(SendAndSave(client, (*listener)->address()));
  co_await gate.Close();
  co_await (*listener)->Close();
}

uint64_t HashOfRun(WorldOptions options) {
  World world(options);
  SimEnv* const server = world.Start(world.AddNode());
  SimEnv* const client = world.Start(world.AddNode());
  world.Run(ServeOneClient(server, client), "ServeOneClient");
  return world.trace_hash();
}

TEST(World, SameSeedGivesTheSameTrace) {
  for (const bool shuffle : {false, true}) {
    WorldOptions options = OfSeed(11);
    options.shuffle_ready = shuffle;
    const uint64_t hash = HashOfRun(options);
    EXPECT_EQ(HashOfRun(options), hash);
  }
}

TEST(World, TraceOfASeedIsTheSameOnEveryCompiler) {
  EXPECT_EQ(HashOfRun(OfSeed(11)), kExpectedHash);
}

TEST(World, EverySeedGivesAnotherTrace) {
  std::set<uint64_t> hashes;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    hashes.insert(HashOfRun(OfSeed(seed)));
  }
  EXPECT_EQ(hashes.size(), 20u);
}

// --- Time and order.

io::Task<void> NoteTime(World* world, io::TimeNs duration,
                        std::vector<io::TimeNs>* times) {
  co_await io::SleepFor(world, duration);
  times->push_back(world->NowNs());
}

TEST(World, RunUntilStopsBetweenEventsAndSetsTheClock) {
  World world(OfSeed(1));
  const io::TimeNs start = world.NowNs();
  std::vector<io::TimeNs> times;
  io::Gate gate(&world);
  gate.Spawn(NoteTime(&world, 10 * io::kSecond, &times));
  gate.Spawn(NoteTime(&world, 30 * io::kSecond, &times));
  world.RunUntil(start + 20 * io::kSecond);
  EXPECT_EQ(world.NowNs(), start + 20 * io::kSecond);
  EXPECT_THAT(times, ElementsAre(start + 10 * io::kSecond));
  world.RunUntilIdle();
  EXPECT_EQ(world.NowNs(), start + 30 * io::kSecond);
  EXPECT_FALSE(world.Step());
}

io::Task<void> YieldAndNote(io::Event* event, int id, std::vector<int>* order) {
  co_await event->Wait();
  order->push_back(id);
}

std::vector<int> OrderOfEight(bool shuffle, uint64_t seed) {
  WorldOptions options = OfSeed(seed);
  options.shuffle_ready = shuffle;
  World world(options);
  io::Gate gate(&world);
  io::Event event(&world);
  std::vector<int> order;
  for (int i = 0; i < 8; ++i) gate.Spawn(YieldAndNote(&event, i, &order));
  event.Set();
  world.RunUntilIdle();
  return order;
}

TEST(World, RunnableTasksRunInOrderUnlessShuffled) {
  EXPECT_THAT(OrderOfEight(false, 1), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    orders.insert(OrderOfEight(true, seed));
  }
  EXPECT_GE(orders.size(), 9u);
}

// --- Loud failures.

io::Task<void> AcceptForever(SimEnv* env) {
  auto listener = co_await env->Listen(env->Address(7400));
  CO_ASSERT_OK(listener);
  const auto never = co_await (*listener)->Accept();
}

TEST(WorldDeathTest, DeadlockNamesSeedTaskAndWaiter) {
  World world(OfSeed(77));
  SimEnv* const env = world.Start(world.AddNode());
  EXPECT_DEATH(world.Run(AcceptForever(env), "AcceptForever"),
               "seed 77, running \"AcceptForever\".*deadlock[^$]*"
               "10.0.0.1:7400 accepts");
}

io::Task<void> SleepForADay(World* world) {
  co_await io::SleepFor(world, 86'400 * io::kSecond);
}

TEST(WorldDeathTest, TaskBeyondTheTimeLimitFails) {
  World world(OfSeed(1));
  EXPECT_DEATH(world.Run(SleepForADay(&world), "SleepForADay"),
               "virtual time limit");
}

// --- Death and return of processes.

io::Task<void> WriteTwoFiles(SimEnv* env, bool sync) {
  for (const char* const path : {"/a", "/b"}) {
    auto file = co_await env->OpenFile(path, Creating());
    CO_ASSERT_OK(file);
    const std::vector<uint8_t> bytes(100, 7);
    const absl::Status written = co_await (*file)->WriteAt(0, bytes);
    EXPECT_OK(written);
    if (sync) {
      const absl::Status synced = co_await (*file)->Sync();
      EXPECT_OK(synced);
    }
    const absl::Status closed = co_await (*file)->Close();
    EXPECT_OK(closed);
  }
  if (!sync) co_return;
  const absl::Status synced = co_await env->SyncDirectory("/");
  EXPECT_OK(synced);
}

io::Task<void> CountNames(SimEnv* env, size_t* count) {
  const auto names = co_await env->ListDirectory("/");
  CO_ASSERT_OK(names);
  *count = names->size();
}

size_t NamesAfter(bool sync, bool power_loss) {
  World world(OfSeed(5));
  const NodeId node = world.AddNode();
  SimEnv* const first = world.Start(node);
  world.Run(WriteTwoFiles(first, sync));
  CrashOptions options;
  options.unflushed = Unflushed::kDropAll;
  if (power_loss) {
    world.Crash(node, options);
  } else {
    world.Kill(first);
  }
  SimEnv* const second = world.Start(node);
  EXPECT_FALSE(first->alive());
  size_t count = 0;
  world.Run(CountNames(second, &count));
  return count;
}

TEST(World, NewProcessFindsWhatTheDiskKept) {
  EXPECT_EQ(NamesAfter(/*sync=*/true, /*power_loss=*/true), 2u);
  EXPECT_EQ(NamesAfter(/*sync=*/false, /*power_loss=*/true), 0u);
  EXPECT_EQ(NamesAfter(/*sync=*/false, /*power_loss=*/false), 2u)
      << "a killed process leaves its writes in the cache";
}

io::Task<void> UseEverything(SimEnv* env, io::File* file) {
  const std::vector<uint8_t> bytes(10);
  std::vector<absl::Status> statuses;
  statuses.push_back(co_await file->WriteAt(0, bytes));
  statuses.push_back(co_await file->Sync());
  statuses.push_back(co_await file->LockExclusive());
  statuses.push_back(co_await env->MakeDirectory("/d"));
  statuses.push_back(co_await env->Remove("/f"));
  statuses.push_back((co_await env->OpenFile("/g", Creating())).status());
  statuses.push_back((co_await env->Listen(env->Address(1))).status());
  statuses.push_back(
      (co_await env->Connect(env->Address(1), io::kNoDeadline)).status());
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, "dead"));
  }
  co_await io::SleepFor(env, io::kMillisecond);
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
}

io::Task<void> OpenInto(SimEnv* env, std::string path,
                        std::unique_ptr<io::File>* file) {
  auto opened = co_await env->OpenFile(path, Creating());
  CO_ASSERT_OK(opened);
  *file = *std::move(opened);
}

TEST(World, DeadProcessIsRefusedEverythingButMayCloseAndSleep) {
  World world(OfSeed(6));
  const NodeId node = world.AddNode();
  SimEnv* const env = world.Start(node);
  std::unique_ptr<io::File> file;
  world.Run(OpenInto(env, "/f", &file));
  world.Kill(env);
  world.Run(UseEverything(env, file.get()));
  file.reset();
  SimEnv* const again = world.Start(node);
  size_t count = 0;
  world.Run(CountNames(again, &count));
  EXPECT_EQ(count, 1u) << "\"/f\" is there, \"/d\" and \"/g\" are not";
}

io::Task<void> WriteInto(io::File* file, std::vector<uint8_t> bytes,
                         absl::Status* status) {
  io::WriteOptions durable;
  durable.durable = true;
  *status = co_await file->WriteAt(0, bytes, durable);
}

io::Task<void> CloseFile(io::File* file) {
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
}

// Whether the device had the bytes is open; that nobody was told is not.
TEST(World, WriteInFlightAtACrashFailsAndMayOrMayNotBeThere) {
  std::set<uint64_t> sizes;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    World world(OfSeed(seed));
    const NodeId node = world.AddNode();
    SimEnv* const env = world.Start(node);
    std::unique_ptr<io::File> file;
    world.Run(OpenInto(env, "/f", &file));
    ASSERT_OK(world.disk(node)->SyncDirectory("/"));
    io::Gate gate(env);
    absl::Status status;
    gate.Spawn(WriteInto(file.get(), std::vector<uint8_t>(1024, 1), &status));
    world.Crash(node);
    world.RunUntilIdle();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, "dead"));
    sizes.insert((*world.disk(node)->Stat("/f"))->size_bytes);
    world.Run(CloseFile(file.get()));
    file.reset();
  }
  EXPECT_THAT(sizes, ElementsAre(0, 512, 1024));
}

// --- Disk faults through the Env.

io::Task<void> SyncThroughFailure(World* world, SimEnv* env) {
  std::unique_ptr<io::File> file;
  co_await OpenInto(env, "/f", &file);
  CO_ASSERT_OK(env->disk()->SyncDirectory("/"));
  const std::vector<uint8_t> bytes(512, 1);
  DiskFault fault;
  fault.op = DiskOp::kSync;
  env->disk()->Fail(fault);
  const absl::Status written = co_await file->WriteAt(0, bytes);
  EXPECT_OK(written);
  const absl::Status failed = co_await file->Sync();
  EXPECT_THAT(failed, StatusIs(absl::StatusCode::kDataLoss, "EIO"));
  const absl::Status later = co_await file->Sync();
  EXPECT_OK(later);
  const absl::Status closed = co_await file->Close();
  EXPECT_OK(closed);
  CrashOptions options;
  options.unflushed = Unflushed::kKeepAll;
  world->Crash(env->node(), options);
  EXPECT_EQ((*env->disk()->Stat("/f"))->size_bytes, 0u);
}

TEST(World, WritesBeforeAFailedSyncAreLostThoughALaterOneSucceeds) {
  World world(OfSeed(8));
  SimEnv* const env = world.Start(world.AddNode());
  world.Run(SyncThroughFailure(&world, env));
}

io::Task<void> MisalignDirect(SimEnv* env) {
  io::OpenOptions options = Creating();
  options.direct = true;
  auto file = co_await env->OpenFile("/f", options);
  CO_ASSERT_OK(file);
  const io::Buffer buffer = co_await env->pool()->Acquire(8192);
  const io::MutableBytes bytes = buffer.bytes();
  std::vector<absl::Status> statuses;
  statuses.push_back(co_await (*file)->WriteAt(512, bytes.first(4096)));
  statuses.push_back(co_await (*file)->WriteAt(0, bytes.first(4095)));
  statuses.push_back(co_await (*file)->WriteAt(0, bytes.subspan(1, 4096)));
  statuses.push_back(co_await (*file)->ReadAt(0, bytes.first(100)));
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, ""));
  }
  const absl::Status aligned =
      co_await (*file)->WriteAt(4096, bytes.first(4096));
  EXPECT_OK(aligned);
  const absl::Status closed = co_await (*file)->Close();
  EXPECT_OK(closed);
}

TEST(World, MisalignedDirectAccessIsInvalid) {
  World world(OfSeed(9));
  world.Run(MisalignDirect(world.Start(world.AddNode())));
}

}  // namespace
}  // namespace cairn::sim
