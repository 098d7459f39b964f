// Fault points and "sometimes": named places in the code that a simulator
// drives and counts. In .cc files only, above io/.
//
//   if (table_.full() || CAIRN_FAULT_POINT("target.put.full")) { ... }
//   CAIRN_SOMETIMES(attempts > 1, "client.put.sent_again");
//
// A fault point is an expression of type bool: true when the simulator wants
// the rare path taken now. The path must be legal there at any time: an error
// that callers must expect, a smaller batch, a delay, one more try. A
// "sometimes" counts how often it was come by with its condition true; it
// proves that tests reach a rare path, and changes nothing.
//
// Names:    layer.part.what, of lower case letters and '_'; each used once.
// Release:  without CAIRN_FAULT_POINTS a point is `false` and a "sometimes" is
//           no code: its condition is not evaluated (so must have no effect),
//           and no name is in the program. Sources with points are compiled a
//           second time, with it, for the simulator: tests/fault_points.
// Threads:  one. The pointer below is the one process-wide variable of the
//           project: a parameter through every layer to some fifty places
//           would be a cost to code that is not there.
// Lifetime: the FaultPoints outlives its being set.
#pragma once

#include <string_view>

namespace cairn {

class FaultPoints {
 public:
  virtual ~FaultPoints() = default;
  // Code comes by the fault point `name`: shall it take the rare path?
  virtual bool Fires(std::string_view name) = 0;
  // Code came by the "sometimes" `name` with its condition true.
  virtual void Reached(std::string_view name) = 0;
};

// Null, as at first: no point fires, nothing is counted.
void SetFaultPoints(FaultPoints* points);

// For the macros.
bool FaultPointFires(std::string_view name);
void SometimesReached(std::string_view name);

}  // namespace cairn

#ifdef CAIRN_FAULT_POINTS
#define CAIRN_FAULT_POINT(name) (::cairn::FaultPointFires(name))
#define CAIRN_SOMETIMES(condition, name) \
  ((condition) ? ::cairn::SometimesReached(name) : static_cast<void>(0))
#else
#define CAIRN_FAULT_POINT(name) (false)
// Variables that only a condition names count as used.
#define CAIRN_SOMETIMES(condition, name) \
  static_cast<void>(sizeof((condition) ? 1 : 0))
#endif
