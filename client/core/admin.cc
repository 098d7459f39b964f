#include "client/core/admin.h"

#include <utility>

namespace cairn::client {

using format::Method;
using io::Task;

Task<absl::StatusOr<wire::ListTargetsResponse>> ListTargets(
    Core* core, io::TimeNs deadline) {
  wire::ListTargetsRequest request;
  co_return co_await core->Query<wire::ListTargetsResponse>(
      Method::kListTargets, request, deadline);
}

Task<absl::StatusOr<wire::ChangeTargetResponse>> ChangeTarget(
    Core* core, uint32_t target, format::TargetChange change,
    io::TimeNs deadline) {
  wire::ChangeTargetRequest request;
  request.set_target(target);
  request.set_change(static_cast<uint32_t>(change));
  co_return co_await core->Query<wire::ChangeTargetResponse>(
      Method::kChangeTarget, request, deadline);
}

Task<absl::StatusOr<wire::CreatePoolResponse>> CreatePool(
    Core* core, wire::CreatePoolRequest request, io::TimeNs deadline) {
  co_return co_await core->Query<wire::CreatePoolResponse>(
      Method::kCreatePool, std::move(request), deadline);
}

}  // namespace cairn::client
