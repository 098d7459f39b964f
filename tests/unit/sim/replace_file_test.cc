// What the simulator is for, in small: a way to replace a file, with the power
// lost after every event in turn. The right way always leaves the old or the
// new file; each way that forgets a step is caught.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"
#include "tests/support/status_matchers.h"

namespace cairn::sim {
namespace {

constexpr size_t kFileBytes = 2000;
constexpr uint64_t kSeeds = 20;

struct Steps {
  bool sync_file = true;
  bool sync_directory = true;
  bool through_new_file = true;  // Else it overwrites in place.
};

enum class Found { kOld, kNew, kBroken };

io::OpenOptions Creating() {
  io::OpenOptions options;
  options.write = true;
  options.create = true;
  return options;
}

io::Task<absl::Status> WriteContents(io::File* file, bool sync) {
  const std::vector<uint8_t> bytes(kFileBytes, 2);
  CAIRN_CO_RETURN_IF_ERROR(co_await file->WriteAt(0, bytes));
  if (sync) CAIRN_CO_RETURN_IF_ERROR(co_await file->Sync());
  co_return absl::OkStatus();
}

io::Task<absl::Status> Replace(SimEnv* env, Steps steps) {
  const std::string path = steps.through_new_file ? "/f.new" : "/f";
  CAIRN_CO_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                            co_await env->OpenFile(path, Creating()));
  const absl::Status written =
      co_await WriteContents(file.get(), steps.sync_file);
  const absl::Status closed = co_await file->Close();
  CAIRN_CO_RETURN_IF_ERROR(written);
  CAIRN_CO_RETURN_IF_ERROR(closed);
  if (!steps.through_new_file) co_return absl::OkStatus();
  CAIRN_CO_RETURN_IF_ERROR(co_await env->Rename("/f.new", "/f"));
  if (!steps.sync_directory) co_return absl::OkStatus();
  co_return co_await env->SyncDirectory("/");
}

io::Task<void> ReplaceInto(SimEnv* env, Steps steps, bool* acknowledged) {
  const absl::Status status = co_await Replace(env, steps);
  *acknowledged = status.ok() && env->alive();  // The dead tell nobody.
}

void MakeOldFile(Disk* disk) {
  const InodePtr file = *disk->Open("/f", Creating());
  const std::vector<uint8_t> old(kFileBytes, 1);
  ASSERT_OK(disk->Write(file.get(), 0, old));
  file->data.FlushUpTo(file->data.last_change());
  ASSERT_OK(disk->SyncDirectory("/"));
}

Found Look(Disk* disk) {
  const auto file = disk->Open("/f", io::OpenOptions());
  if (!file.ok() || (*file)->data.size_bytes() != kFileBytes) {
    return Found::kBroken;
  }
  std::vector<uint8_t> bytes(kFileBytes);
  EXPECT_OK(disk->Read(file->get(), 0, bytes));
  const auto count = [&bytes](uint8_t value) {
    return static_cast<size_t>(std::count(bytes.begin(), bytes.end(), value));
  };
  if (count(1) == kFileBytes) return Found::kOld;
  return count(2) == kFileBytes ? Found::kNew : Found::kBroken;
}

struct CrashRun {
  bool acknowledged = false;  // Before the crash.
  bool finished = false;      // There was no event left to crash after.
  Found found = Found::kBroken;
};

CrashRun CrashAfter(uint64_t events, uint64_t seed, Steps steps) {
  WorldOptions options;
  options.seed = seed;
  World world(options);
  const NodeId node = world.AddNode();
  SimEnv* const env = world.Start(node);
  MakeOldFile(env->disk());
  CrashRun run;
  io::Gate gate(env);
  gate.Spawn(ReplaceInto(env, steps, &run.acknowledged));
  for (uint64_t i = 0; i < events && !run.finished; ++i) {
    run.finished = !world.Step();
  }
  world.Crash(node);
  const bool acknowledged = run.acknowledged;
  world.RunUntilIdle();  // The code of the dead process unwinds.
  EXPECT_EQ(gate.in_flight(), 0u);
  EXPECT_EQ(run.acknowledged, acknowledged) << "acknowledged after its death";
  run.found = Look(env->disk());
  return run;
}

// How many crash points broke the promise: whole at any time, and the new one
// once it was acknowledged.
uint64_t BrokenPromises(Steps steps) {
  uint64_t broken = 0;
  std::set<Found> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    CrashRun run;
    for (uint64_t events = 0; !run.finished; ++events) {
      run = CrashAfter(events, seed, steps);
      seen.insert(run.found);
      const bool kept = run.found == Found::kNew ||
                        (run.found == Found::kOld && !run.acknowledged);
      if (!kept) ++broken;
    }
  }
  EXPECT_TRUE(seen.contains(Found::kOld) && seen.contains(Found::kNew));
  return broken;
}

TEST(ReplaceFile, SyncRenameSyncIsWholeAfterACrashAtEveryEvent) {
  EXPECT_EQ(BrokenPromises(Steps()), 0u);
}

TEST(ReplaceFile, RenameBeforeTheFileIsFlushedIsCaught) {
  Steps steps;
  steps.sync_file = false;
  EXPECT_GT(BrokenPromises(steps), 0u);
}

TEST(ReplaceFile, AcknowledgementBeforeTheDirectoryIsFlushedIsCaught) {
  Steps steps;
  steps.sync_directory = false;
  EXPECT_GT(BrokenPromises(steps), 0u);
}

TEST(ReplaceFile, OverwriteInPlaceIsCaught) {
  Steps steps;
  steps.through_new_file = false;
  EXPECT_GT(BrokenPromises(steps), 0u);
}

}  // namespace
}  // namespace cairn::sim
