// P: the bare whole path that save and load are measured against.
//
// One client process, one TCP connection over loopback, one server process, an
// O_DIRECT file: XXH3 on both ends, an ack for each chunk; no protocol, no
// metadata, no placement. Blocking on one io_uring per process. What Cairn does
// more than this is what its ratio to P shows.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::bench {

struct PathResult {
  double seconds = 0;
  double cpu_seconds = 0;  // User and system, client and server.
  uint64_t bytes = 0;
  double gb_per_second() const {
    return static_cast<double>(bytes) / 1e9 / seconds;
  }
  double cpu_per_gb() const {
    return cpu_seconds / (static_cast<double>(bytes) / 1e9);
  }
};

// What an ack of a write means.
enum class AckAfter {
  kWrite,       // The disk took it: a loss of power may lose it.
  kDurable,     // RWF_DSYNC on each write: on stable storage.
  kGroupFlush,  // The same by one flush for all writes that have finished.
};

struct BarePathOptions {
  std::string file;     // Prewritten; at least `bytes` long.
  uint64_t bytes = 0;   // A multiple of 4 MiB.
  bool write = true;    // Else read.
  uint32_t window = 8;  // Chunks of 4 MiB in flight; 16 for reads.
  AckAfter ack = AckAfter::kWrite;
};

// Makes the file (prewritten with noise) if it is missing or too short.
void PrepareBareFile(const std::string& file, uint64_t bytes);

PathResult RunBarePath(const BarePathOptions& options);

}  // namespace cairn::bench
