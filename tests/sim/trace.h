// What an event or a trace entry of a World is; part of the trace hash.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn::sim {

enum class Trace : uint8_t {
  kResume,
  kTimer,
  kPost,
  kArrival,
  kRead,
  kWrite,
  kSync,
  kName,  // Open, rename, remove, directories.
  kStart,
  kDeath,
  kFault,  // A fault fired or, as an event, ends by itself.
};
inline constexpr size_t kTraceKinds = static_cast<size_t>(Trace::kFault) + 1;

constexpr const char* NameOf(Trace what) {
  constexpr const char* kNames[kTraceKinds] = {
      "resume", "timer", "post",  "arrival", "read", "write",
      "sync",   "name",  "start", "death",   "fault"};
  return kNames[static_cast<size_t>(what)];
}

}  // namespace cairn::sim
