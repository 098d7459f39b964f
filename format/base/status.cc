#include "format/base/status.h"

namespace cairn {

absl::Status Annotate(absl::Status status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(
      status.code(), absl::StrCat(AbslText(context), ": ", status.message()));
  status.ForEachPayload([&](auto type, const auto& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}

void CheckFailed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
  std::fflush(stderr);
  std::abort();
}

}  // namespace cairn
