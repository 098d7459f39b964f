// SeededFaultPoints: which fault points of the code fire, from a seed, and how
// often each was come by.
//
// Each point is on in one of four seeds, with a rate of its own, so that points
// do not hide each other. They fire between Arm() and Disarm() only; what is
// come by is counted always.
//
// Determinism: each point has a random stream of its own, from the seed and its
//           name: points that are added change nothing for the others.
// Lifetime: installed for the whole process while it lives; one at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "format/base/fault_points.h"
#include "io/executor.h"
#include "tests/sim/campaign/attack.h"
#include "tests/sim/random.h"

namespace cairn::sim {

// In the order of AllFaultPoints() and AllSometimes().
struct PointCounts {
  std::vector<uint64_t> reached;
  std::vector<uint64_t> fired;
  std::vector<uint64_t> sometimes;
};

class SeededFaultPoints : public FaultPoints {
 public:
  explicit SeededFaultPoints(uint64_t seed);
  ~SeededFaultPoints() override;
  SeededFaultPoints(const SeededFaultPoints&) = delete;
  SeededFaultPoints& operator=(const SeededFaultPoints&) = delete;

  // `log` learns of points that make operations fail; where `may_fail` is
  // false, those stay off. Both outlive what may come by a point.
  void Arm(io::Executor* executor, AttackLog* log, bool may_fail);
  void Disarm() { armed_ = false; }
  // Prints each point that fires; null: none.
  void TraceTo(std::FILE* out) { trace_ = out; }

  bool Fires(std::string_view name) override;
  void Reached(std::string_view name) override;

  const PointCounts& counts() const { return counts_; }
  // "client.put.repeated 1/16": those that are on.
  std::string ToString() const;

 private:
  struct Point {
    size_t number;
    uint64_t one_in;  // 0: off.
    bool may_fail;    // Whether a workload may be told of an error.
    Random random;
  };

  absl::flat_hash_map<std::string_view, Point> points_;
  absl::flat_hash_map<std::string_view, size_t> sometimes_;
  PointCounts counts_;
  bool armed_ = false;
  bool errors_too_ = false;
  io::Executor* executor_ = nullptr;
  AttackLog* log_ = nullptr;
  std::FILE* trace_ = nullptr;
};

}  // namespace cairn::sim
