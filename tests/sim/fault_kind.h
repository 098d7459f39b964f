// The kinds of faults that a simulated World can do, and how often each fired.
//
// "Fired" means that it changed something: a rate that was never drawn, a cut
// that no byte ran into, a slow disk that nobody used do not count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::sim {

// In the trace hash by number: add at the end of a group only together with a
// new expected hash in the tests.
enum class FaultKind : uint8_t {
  // Disk.
  kDiskReadError,
  kDiskWriteError,
  kDiskSyncError,
  kDiskNameError,
  kDiskFull,
  kLostWrite,
  kMisdirectedWrite,
  kMisdirectedRead,
  kStaleRead,
  kZeroedRead,
  kBitRot,
  kLyingSync,
  kUnflushedLost,  // A write or name that a loss of power took whole...
  kTornWrite,      // ...or in part.
  kSlowDisk,
  kHungDisk,
  // Network.
  kLinkCut,  // A segment, or a connection attempt, was held back.
  kLatencySpike,
  kSlowLink,
  kConnectionReset,
  kEarlyEnd,  // The end of the stream in the middle of what was sent.
  kHalfOpen,
  kCorruptSegment,
  kTinySegments,
  kConnectRefused,
  kConnectTimeout,
  // Machines, processes, clocks.
  kKill,
  kPowerLoss,
  kPause,
  kWallClockJump,
  kClockDrift,
};
inline constexpr size_t kFaultKinds =
    static_cast<size_t>(FaultKind::kClockDrift) + 1;

// "misdirected-write".
std::string_view NameOf(FaultKind kind);

class FaultCounts {
 public:
  void Add(FaultKind kind) { ++counts_[static_cast<size_t>(kind)]; }
  void Add(const FaultCounts& other);
  uint64_t of(FaultKind kind) const {
    return counts_[static_cast<size_t>(kind)];
  }
  uint64_t total() const;
  // One line for each kind that fired: "lost-write 3\n".
  std::string Table() const;

 private:
  std::array<uint64_t, kFaultKinds> counts_{};
};

}  // namespace cairn::sim
