// The contents of one simulated file: what its readers see (the page cache),
// and what a loss of power would leave (the durable state).
//
// Every change is numbered and kept apart until a flush covers it. A flush of
// one change also covers the earlier ones that it lies over, so that changes
// reach the durable state in an order that a device could have produced.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/sim/random.h"
#include "tests/sim/sparse_bytes.h"

namespace cairn::sim {

enum class Unflushed {
  kDropAll,
  kRandom,   // Each change survives, is dropped, or (a write) is torn.
  kKeepAll,  // As when the device wrote everything just in time.
  kChosen,   // Each survives whole or not, as CrashOptions::survivors says.
};

struct CrashOptions {
  Unflushed unflushed = Unflushed::kRandom;
  // With kRandom: a write may keep only a prefix of whole sectors.
  bool tear = true;
  // A torn write keeps each of its sectors or not, instead of a prefix.
  bool scatter = false;
  // With kChosen: bit i is the i-th change that waits (Disk::unflushed()). A
  // name still needs the earlier ones of its directory; from bit 64 on all are
  // lost.
  uint64_t survivors = 0;
  // With kRandom: draws from this seed. 0: from the disk's own.
  uint64_t seed = 0;
  // Peers are not told: their connections to the node stay half open until
  // they send something to the node after it is up again.
  bool half_open = false;
};

inline constexpr uint64_t kSectorBytes = 512;

class FileData {
 public:
  // `used_bytes` counts the space in use on the disk; it must outlive this.
  explicit FileData(uint64_t* used_bytes) : used_bytes_(used_bytes) {}
  FileData(const FileData&) = delete;
  FileData& operator=(const FileData&) = delete;
  ~FileData() { *used_bytes_ -= charged_bytes_; }

  uint64_t size_bytes() const { return cached_.size_bytes(); }
  // By how much the disk's use would grow.
  uint64_t GrowthOfWrite(uint64_t offset, uint64_t size_bytes) const;
  uint64_t GrowthOfReserve(uint64_t size_bytes) const;

  void Read(uint64_t offset, format::MutableBytes to) const {
    cached_.Read(offset, to);
  }
  // What the range held before its last write; zeros: nothing.
  void ReadReplaced(uint64_t offset, format::MutableBytes to) const;
  // These return the number of the change.
  uint64_t Write(uint64_t offset, format::ConstBytes from);
  uint64_t Resize(uint64_t size_bytes);
  uint64_t Reserve(uint64_t size_bytes);

  uint64_t last_change() const { return last_change_; }
  // Makes durable every change up to number `change`.
  void FlushUpTo(uint64_t change);
  // Makes durable that change, and the earlier ones it lies over.
  void FlushOne(uint64_t change);
  // A failed flush: the cache still shows the changes up to `change`, no later
  // flush will write them.
  void ForgetUpTo(uint64_t change);
  // A flush that lied: a loss of power takes them, unless a later flush covers
  // them. False: there were none.
  bool DoomUpTo(uint64_t change);
  bool DoomOne(uint64_t change);
  // The cache is read from the device again.
  void DropCache();

  struct Losses {  // Of changes that were not flushed.
    uint64_t whole = 0;
    uint64_t torn = 0;
  };
  Losses Crash(const CrashOptions& options, Random* random);
  // Changes that a loss of power may take.
  uint64_t unflushed() const { return unflushed_.size(); }
  // Inverts the bits of `mask` in the cache and on the device.
  void Flip(uint64_t offset, uint8_t mask);

  // Pages in use; the offset of a seeded byte in them (may be past the end).
  uint64_t stored_pages() const {
    return cached_.stored_bytes() / SparseBytes::kPageBytes;
  }
  uint64_t StoredByte(uint64_t page, Random* random) const;
  // Whether the byte is on the device and no change waits to overwrite it.
  bool IsSettled(uint64_t offset) const;

 private:
  struct Change {
    uint64_t number;
    bool is_resize;
    uint64_t offset;  // For a resize: the new size.
    std::vector<uint8_t> bytes;
    bool doomed = false;  // A flush lied about it.
  };
  void Charge();
  enum class Fate { kGone, kTorn, kWhole };
  // Applies what a loss of power leaves of the change.
  Fate Survive(const Change& change, const CrashOptions& options,
               Random* random);
  Fate SurviveChosen(const Change& change, bool chosen);
  uint64_t ApplyTorn(const Change& change, bool scatter, Random* random);
  void KeepReplaced(uint64_t offset, uint64_t size_bytes);
  static void Apply(const Change& change, SparseBytes* to, uint64_t bytes_max);
  std::vector<bool> CoveredBy(size_t index) const;

  uint64_t* const used_bytes_;
  uint64_t charged_bytes_ = 0;
  uint64_t reserved_bytes_ = 0;
  uint64_t last_change_ = 0;
  SparseBytes cached_;
  SparseBytes durable_;
  SparseBytes replaced_;  // What overwrites took away, for stale reads.
  std::vector<Change> unflushed_;  // In order of number.
};

}  // namespace cairn::sim
