#include "tests/sim/disk_faults.h"

#include <utility>

namespace cairn::sim {
namespace {

bool CanHave(DiskOp op, DiskEffect effect) {
  switch (effect) {
    case DiskEffect::kError:
      return true;
    case DiskEffect::kLost:
      return op == DiskOp::kWrite;
    case DiskEffect::kMisdirected:
      return op == DiskOp::kRead || op == DiskOp::kWrite;
    case DiskEffect::kStale:
    case DiskEffect::kZeroed:
    case DiskEffect::kRot:
      return op == DiskOp::kRead;
    case DiskEffect::kLie:
      return op == DiskOp::kSync || op == DiskOp::kDurable;
  }
  return false;
}

}  // namespace

void DiskFaults::Arm(DiskFault fault) {
  CAIRN_CHECK(CanHave(fault.op, fault.effect));
  CAIRN_CHECK(!fault.status.ok());
  armed_.push_back(std::move(fault));
}

std::optional<DiskHit> DiskFaults::Draw(DiskOp op, std::string_view path) {
  std::optional<DiskHit> hit = DrawArmed(op, path);
  if (hit || path.find(rates_.path_contains) == path.npos) return hit;
  const std::optional<DiskEffect> effect = DrawByRate(op);
  if (!effect) return std::nullopt;
  return DiskHit{*effect, absl::DataLossError("EIO (drawn)"),
                 rates_.path_contains};
}

// Every armed fault counts the operation; the last one that is due wins.
std::optional<DiskHit> DiskFaults::DrawArmed(DiskOp op, std::string_view path) {
  std::optional<DiskHit> hit;
  for (DiskFault& fault : armed_) {
    if (fault.op != op || fault.times == 0) continue;
    if (path.find(fault.path_contains) == path.npos) continue;
    if (fault.nth > 1) {
      --fault.nth;
      continue;
    }
    --fault.times;
    hit = DiskHit{fault.effect, fault.status, fault.path_contains};
  }
  return hit;
}

std::optional<DiskEffect> DiskFaults::DrawByRate(DiskOp op) {
  switch (op) {
    case DiskOp::kRead:
      if (Hits(rates_.read_error)) return DiskEffect::kError;
      if (Hits(rates_.misdirected_read)) return DiskEffect::kMisdirected;
      if (Hits(rates_.stale_read)) return DiskEffect::kStale;
      if (Hits(rates_.zeroed_read)) return DiskEffect::kZeroed;
      if (Hits(rates_.bit_rot)) return DiskEffect::kRot;
      return std::nullopt;
    case DiskOp::kWrite:
      if (Hits(rates_.write_error)) return DiskEffect::kError;
      if (Hits(rates_.lost_write)) return DiskEffect::kLost;
      if (Hits(rates_.misdirected_write)) return DiskEffect::kMisdirected;
      return std::nullopt;
    case DiskOp::kSync:
    case DiskOp::kDurable:
      if (Hits(rates_.sync_error)) return DiskEffect::kError;
      if (Hits(rates_.lying_sync)) return DiskEffect::kLie;
      return std::nullopt;
    case DiskOp::kName:
      if (Hits(rates_.name_error)) return DiskEffect::kError;
      return std::nullopt;
  }
  return std::nullopt;
}

uint64_t DiskFaults::DrawSlowness() {
  return Hits(rates_.slow) ? rates_.slow_factor : 1;
}

}  // namespace cairn::sim
