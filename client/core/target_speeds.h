// TargetSpeeds: how long targets take lately, each against the others.
//
// A target that takes many times as long as its peers is ill (a failing disk, a
// bad link), however right its answers are. Alone it says nothing: everything
// is slow at times. So a call is called slow by what the median target takes.
//
// Threads: one loop.
#pragma once

#include <cstdint>
#include <map>

#include "format/base/ids.h"
#include "io/executor.h"

namespace cairn::client {

enum class CallKind { kGet, kPut };

class TargetSpeeds {
 public:
  // An answer came after `took_ns`, or none within it.
  void Note(CallKind kind, format::TargetId target, io::TimeNs took_ns);

  // A call that takes so long is slow: kSlowFactor times the median of the
  // targets, kSlowAfterMin at least and `most` at most. `most`, while fewer
  // than kSlowPeersMin targets are known.
  io::TimeNs SlowAfter(CallKind kind, io::TimeNs most) const;

  // Targets that either kind knows.
  uint64_t known() const;

 private:
  struct Speeds {
    std::map<format::TargetId, io::TimeNs> means;
    io::TimeNs median = 0;
    uint32_t notes = 0;  // Since the median was taken.
  };
  static void TakeMedian(Speeds* speeds);
  Speeds& of(CallKind kind) { return kind == CallKind::kGet ? gets_ : puts_; }
  const Speeds& of(CallKind kind) const {
    return kind == CallKind::kGet ? gets_ : puts_;
  }

  Speeds gets_;
  Speeds puts_;
};

}  // namespace cairn::client
