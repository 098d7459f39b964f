// The scenarios of the crash enumeration: stage.h says what one is.
#pragma once

#include <memory>
#include <string>

#include "tests/sim/crash_points/stage.h"

namespace cairn::sim {

// Two ranks save a set to publication, beside an older one.
std::unique_ptr<Scenario> MakeSaveScenario(const std::string& scheme);
// The same as the first thing that happens: targets make their slabs in it.
std::unique_ptr<Scenario> MakeFirstSaveScenario(const std::string& scheme);

// A range across chunk borders of a published file is overwritten, and
// fsynced.
std::unique_ptr<Scenario> MakeOverwriteScenario(const std::string& scheme);

// A published file is truncated, written anew, and fsynced.
std::unique_ptr<Scenario> MakeRewriteScenario(const std::string& scheme);

// A file is replaced as programs do it: a new one is written beside it,
// fsynced, and renamed over it.
std::unique_ptr<Scenario> MakeReplaceScenario(const std::string& scheme);

// A file is unlinked and a set removed; their grace times pass and the targets
// free the chunks; a new file takes the space.
std::unique_ptr<Scenario> MakeDeleteScenario(const std::string& scheme);

// What a target that starts finds in its index log, beside chunks and erasures.
enum class LogEnd {
  kTorn,       // A frame of which only some sectors were written.
  kUnflushed,  // A frame that a killed process wrote and did not flush.
  kLong,       // So much of it that the first commit rewrites it; torn, too.
};
// A target starts after a crash. Data has one copy: what it loses is lost.
std::unique_ptr<Scenario> MakeTargetStartScenario(LogEnd end);

// The metadata service starts after a crash, with deletions pending and a set
// half saved, while a client waits for it.
std::unique_ptr<Scenario> MakeMetaStartScenario();

// What all of them run on: small chunks, short leases and grace times.
ClusterOptions SmallCluster(uint64_t seed, const std::string& scheme);

}  // namespace cairn::sim
