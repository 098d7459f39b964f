// Where in a run servers crash, and what their disks keep; as text, so that a
// failure can be replayed.
//
//   "17/one/none"               after the 17th I/O operation of the action the
//                               server that did it loses power, and with it all
//                               that was not flushed
//   "17/all/some:5"             all servers do; of the changes that were not
//                               flushed the first and the third survive (bits)
//   "17/one/torn:2"             ...a random subset, some torn at a sector,
//   drawn
//                               from seed 2
//   "17/kill/all,3/one/none"    kill -9 of the server; then, after the 3rd
//                               operation from its restart on, a loss of power
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace cairn::sim {

enum class CrashKind {
  kOne,   // Loss of power of the server that did the operation.
  kAll,   // Loss of power of every server.
  kKill,  // kill -9 of that server: its disk keeps what was written.
};

// Of the changes that were not flushed. A kill concerns only commits of the
// metadata store that nobody was told of: kNone or kAll.
enum class SurvivorKind { kNone, kAll, kSome, kTorn };

struct Survivors {
  SurvivorKind kind = SurvivorKind::kNone;
  uint64_t value = 0;  // kSome: bits. kTorn: a seed.
  friend bool operator==(const Survivors&, const Survivors&) = default;
};

struct PlannedCrash {
  uint64_t point = 1;  // Counted from the last restart, or the action's start.
  CrashKind kind = CrashKind::kOne;
  Survivors survivors;
  friend bool operator==(const PlannedCrash&, const PlannedCrash&) = default;
};
using CrashPlan = std::vector<PlannedCrash>;  // One after the other.

std::string ToString(const CrashPlan& plan);
// kInvalidArgument: not such a text.
absl::StatusOr<CrashPlan> ParseCrashPlan(std::string_view text);

// A moment at which servers may crash: an I/O operation has just ended.
struct CrashPoint {
  uint32_t server = 0;         // Who did it: a target, or 0: metadata.
  uint64_t unflushed = 0;      // Changes that its crash may lose,
  uint64_t unflushed_all = 0;  // and that of all servers.
  uint64_t commits = 0;        // Of the metadata store, among both.
};

// Every crash there is at this point: all subsets of up to kSubsetBitsMax
// unflushed changes; of more, none, all, and kTornDraws torn random ones.
inline constexpr uint64_t kSubsetBitsMax = 4;
inline constexpr uint64_t kTornDraws = 3;
std::vector<PlannedCrash> CrashesAt(uint64_t number, const CrashPoint& point);

}  // namespace cairn::sim
