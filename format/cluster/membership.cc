#include "format/cluster/membership.h"

namespace cairn::format {

std::string_view ToString(QuarantineCause cause) {
  switch (cause) {
    case QuarantineCause::kForeign:
      return "foreign-disk";
    case QuarantineCause::kUnknownTarget:
      return "unknown-target";
    case QuarantineCause::kRemoved:
      return "removed-target";
    case QuarantineCause::kDiskGeneration:
      return "other-format";
    case QuarantineCause::kOldImage:
      return "old-image";
    case QuarantineCause::kDuplicate:
      return "duplicate";
  }
  return "unknown";
}

}  // namespace cairn::format
