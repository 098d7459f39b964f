// What operators ask the metadata service: targets that join, and pools.
//
// All: kUnavailable, kDeadlineExceeded: no answer in time. Other errors are the
// service's, and say what to do.
// Threads: the Core's loop.
#pragma once

#include "client/core/core.h"
#include "format/cluster/membership.h"
#include "format/wire/member.pb.h"

namespace cairn::client {

io::Task<absl::StatusOr<wire::ListTargetsResponse>> ListTargets(
    Core* core, io::TimeNs deadline);

// Repeated after a lost answer: `changed` may then say that it was so already.
io::Task<absl::StatusOr<wire::ChangeTargetResponse>> ChangeTarget(
    Core* core, uint32_t target, format::TargetChange change,
    io::TimeNs deadline);

io::Task<absl::StatusOr<wire::CreatePoolResponse>> CreatePool(
    Core* core, wire::CreatePoolRequest request, io::TimeNs deadline);

}  // namespace cairn::client
