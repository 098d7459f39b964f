// Where in a run servers crash, and what their disks keep; as text, so that a
// failure can be replayed.
//
//   "17/one:2/none"             after the 17th I/O operation of the action
//                               target 2 loses power, and with it all that was
//                               not flushed
//   "17+40/one:2/none"          40 events later: just before the 18th takes
//                               effect, when what followed the 17th was sent
//   "17/all/some:5"             all servers do; of the changes that were not
//                               flushed the first and the third survive (bits)
//   "17/one:2/torn:2"           ...a random subset, some torn at a sector,
//   drawn
//                               from seed 2
//   "17/kill:0/all,3/one:2/none"  kill -9 of the metadata service; then, after
//                               the 3rd operation from its restart on, target 2
//                               loses power
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace cairn::sim {

enum class CrashKind {
  kOne,   // Loss of power of one server.
  kAll,   // Loss of power of every server.
  kKill,  // kill -9 of one server: its disk keeps what was written.
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
  uint64_t point = 0;   // After so many operations that changed something,
                        // since the last restart, or the action's start;
  uint64_t events = 0;  // so many events later.
  CrashKind kind = CrashKind::kOne;
  uint32_t server = 0;  // A target, or 0: metadata. Not for kAll.
  Survivors survivors;
  friend bool operator==(const PlannedCrash&, const PlannedCrash&) = default;
};
using CrashPlan = std::vector<PlannedCrash>;  // One after the other.

std::string ToString(const CrashPlan& plan);
// kInvalidArgument: not such a text.
absl::StatusOr<CrashPlan> ParseCrashPlan(std::string_view text);

// A moment at which servers may crash: an I/O operation has just taken effect,
// or is about to.
struct CrashPoint {
  uint64_t number = 0;         // PlannedCrash::point,
  uint64_t events = 0;         // and events.
  uint32_t server = 0;         // Who did or does it: a target, or 0: metadata.
  uint64_t unflushed = 0;      // Changes that its crash may lose,
  uint64_t unflushed_all = 0;  // and that of all servers.
  uint64_t commits = 0;        // Of the metadata store, among both.
};

// Every crash there is at this point: all subsets of up to kSubsetBitsMax
// unflushed changes; of more, none, all, and kTornDraws torn random ones.
inline constexpr uint64_t kSubsetBitsMax = 4;
inline constexpr uint64_t kTornDraws = 3;
std::vector<PlannedCrash> CrashesAt(const CrashPoint& point);

}  // namespace cairn::sim
