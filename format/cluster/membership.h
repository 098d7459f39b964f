// What metadata answers a process that claims to be a target, and what an
// operator may ask of one. docs/format/membership.md.
#pragma once

#include <cstdint>
#include <string_view>

namespace cairn::format {

// Persisted on the wire: add values, never renumber.
enum class JoinVerdict : uint32_t {
  kGranted = 1,      // Make the admission durable, and ask again.
  kAdmitted = 2,     // Serve.
  kQuarantined = 3,  // Serve nothing.
};

// Persisted: add values, never renumber.
enum class QuarantineCause : uint32_t {
  kForeign = 1,         // A disk of another cluster.
  kUnknownTarget = 2,   // This cluster never gave that id.
  kRemoved = 3,         // The target was removed from the cluster.
  kDiskGeneration = 4,  // Formatted by another step than the one known here.
  kOldImage = 5,        // The disk is older than what was served of it.
  kDuplicate = 6,       // Another process serves the target now.
};
// "old-image"...; "unknown" for what is none.
std::string_view ToString(QuarantineCause cause);

// Persisted on the wire: add values, never renumber.
enum class TargetChange : uint32_t {
  kAdd = 1,     // Into the map: pools may use it.
  kDrain = 2,   // No new data; what it has is to go elsewhere.
  kUndrain = 3,
  kRemove = 4,  // For good; only if no row names it.
  kForget = 5,  // Its records of quarantine.
};

}  // namespace cairn::format
