// Which operations of a simulated disk go wrong, and how: faults armed one by
// one, and rates drawn from the seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/base/status.h"
#include "tests/sim/fault_kind.h"
#include "tests/sim/random.h"

namespace cairn::sim {

enum class DiskOp {
  kRead,
  kWrite,
  kSync,     // Sync() and SyncDirectory().
  kDurable,  // What makes a write with WriteOptions::durable durable.
  kName,     // Open, stat, list, mkdir, rename, remove.
};

enum class DiskEffect {
  kError,        // Any operation: fails with DiskFault::status.
  kLost,         // Write: acknowledged, never stored. The file's size grows.
  kMisdirected,  // Read, write: of another place of the same file or of another
                 // that matches path_contains; at once on the device. Where
                 // there is no other place: kLost, kZeroed.
  kStale,        // Read: what the range held before its last write.
  kZeroed,       // Read: one block of zeros in it.
  kRot,          // Read: one bit in the range flips first, for good.
  kLie,          // Sync, durable: OK, but lost with the power, unless a later
                 // Sync() is honest.
};

struct DiskFault {
  DiskOp op = DiskOp::kWrite;
  uint64_t nth = 1;    // Counted from when it is armed; 1: the next one.
  uint64_t times = 1;  // How many in a row fail.
  absl::Status status = absl::DataLossError("EIO (injected)");
  std::string path_contains;  // Only files opened by such a path.
  DiskEffect effect = DiskEffect::kError;
};

// Each: one in so many operations; 0: none.
struct DiskFaultRates {
  uint64_t read_error = 0;
  uint64_t write_error = 0;
  uint64_t sync_error = 0;  // Durable writes too.
  uint64_t name_error = 0;
  uint64_t lost_write = 0;
  uint64_t misdirected_write = 0;
  uint64_t misdirected_read = 0;
  uint64_t stale_read = 0;
  uint64_t zeroed_read = 0;
  uint64_t bit_rot = 0;     // Of reads: the rot that a read finds.
  uint64_t lying_sync = 0;  // Durable writes too.
  uint64_t slow = 0;        // Takes `slow_factor` times as long.
  uint64_t slow_factor = 100;
  // Only files opened by such a path. Not for `slow`.
  std::string path_contains;
};

// What hits one operation.
struct DiskHit {
  DiskEffect effect = DiskEffect::kError;
  absl::Status status;
  std::string path_contains;  // Of the fault: also limits where it misdirects.
};

// What a fault left on the disk. Reads that went wrong leave nothing.
struct Damage {
  FaultKind kind = FaultKind::kBitRot;
  std::string path;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

class DiskFaults {
 public:
  explicit DiskFaults(uint64_t seed) : random_(seed) {}

  void Arm(DiskFault fault);
  void Disarm() { armed_.clear(); }
  void set_rates(DiskFaultRates rates) { rates_ = std::move(rates); }

  // What the operation runs into: an armed fault, else one drawn by rate.
  std::optional<DiskHit> Draw(DiskOp op, std::string_view path);
  // By how much an operation takes longer.
  uint64_t DrawSlowness();
  Random* random() { return &random_; }

 private:
  std::optional<DiskHit> DrawArmed(DiskOp op, std::string_view path);
  std::optional<DiskEffect> DrawByRate(DiskOp op);
  bool Hits(uint64_t rate) { return rate > 0 && random_.OneIn(rate); }

  Random random_;
  DiskFaultRates rates_;
  std::vector<DiskFault> armed_;
};

}  // namespace cairn::sim
