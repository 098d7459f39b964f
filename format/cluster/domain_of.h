// What no two members of a row should share, as text that compares.
#pragma once

#include <string>

#include "format/cluster/cluster_map.h"

namespace cairn::format {

inline std::string DomainOf(const TargetInfo& target, FailureDomain kind) {
  switch (kind) {
    case FailureDomain::kHost:
      return target.host;
    case FailureDomain::kRack:
      return target.rack;
    case FailureDomain::kTarget:
      break;
  }
  return std::to_string(target.id.value);
}

}  // namespace cairn::format
