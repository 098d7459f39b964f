#include "format/base/fault_points.h"

namespace cairn {

namespace {
FaultPoints* installed = nullptr;
}  // namespace

void SetFaultPoints(FaultPoints* points) { installed = points; }

bool FaultPointFires(std::string_view name) {
  return installed != nullptr && installed->Fires(name);
}

void SometimesReached(std::string_view name) {
  if (installed != nullptr) installed->Reached(name);
}

}  // namespace cairn
