// The answer to `cairn status`, from the service's message.
#pragma once

#include "client/core/core.h"
#include "io/task.h"

namespace cairn::client {

io::Task<absl::StatusOr<ClusterStatus>> ReportStatus(Core* core,
                                                     io::TimeNs deadline);

}  // namespace cairn::client
