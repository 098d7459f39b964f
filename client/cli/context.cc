#include "client/cli/context.h"

#include <cstdio>

namespace cairn::client::cli {

absl::StatusOr<std::unique_ptr<Cluster>> Context::Connect(
    const std::string& name) const {
  Options options;
  options.address = cluster;
  options.timeout_ms = timeout_s * 1000;
  options.name = name;
  return Cluster::Connect(std::move(options));
}

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kDataLoss:
      return kExitDamaged;
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnavailable:
      return kExitNoAnswer;
    default:
      return kExitFailed;
  }
}

void PrintJson(const nlohmann::json& value) {
  // Names may hold any UTF-8; what is not is replaced, never an exception.
  std::printf(
      "%s\n",
      value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
          .c_str());
}

}  // namespace cairn::client::cli
