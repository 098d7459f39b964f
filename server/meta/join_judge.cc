#include "server/meta/join_judge.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "format/path/names.h"

namespace cairn::server {

using format::JoinVerdict;
using format::QuarantineCause;

namespace {

std::string PlaceText(const std::string& host, const std::string& directory) {
  return absl::StrCat(format::EscapeForDisplay(directory), " on host ",
                      format::EscapeForDisplay(host));
}

std::string PlaceOf(const wire::RegisterTargetRequest& request) {
  return PlaceText(request.host(), request.directory());
}

std::string ClusterText(const std::string& bytes) {
  format::ClusterId id;
  if (bytes.size() != id.bytes.size()) return "(none)";
  std::memcpy(id.bytes.data(), bytes.data(), bytes.size());
  return ToString(id);
}

bool IsOurs(const format::ClusterId& cluster, const std::string& bytes) {
  return bytes.size() == cluster.bytes.size() &&
         std::memcmp(bytes.data(), cluster.bytes.data(), bytes.size()) == 0;
}

JoinDecision Quarantine(QuarantineCause cause, std::string reason) {
  JoinDecision decision;
  decision.verdict = JoinVerdict::kQuarantined;
  decision.cause = cause;
  decision.reason = std::move(reason);
  return decision;
}

JoinDecision Duplicate(const store::Member& known,
                       const wire::RegisterTargetRequest& request) {
  return Quarantine(
      QuarantineCause::kDuplicate,
      absl::StrCat("target ", request.target(), " is served by the process at ",
                   known.address(), " from ",
                   PlaceText(known.host(), known.directory()), "; ",
                   PlaceOf(request),
                   " claims to be it, too: it is a copy of that disk. Stop the "
                   "process of the copy, and empty its directory"));
}

JoinDecision OldImage(const store::Member& known,
                      const wire::RegisterTargetRequest& request) {
  return Quarantine(
      QuarantineCause::kOldImage,
      absl::StrCat(
          PlaceOf(request), " holds an older state of target ",
          request.target(), " (admission ", request.admission(),
          "; it was served up to admission ", known.admission(), ", last from ",
          PlaceText(known.host(), known.directory()),
          "): an old image or copy of the disk was put back, and chunks "
          "acknowledged since then are missing on it. Start the newest disk of "
          "this target; if there is none any more, empty the directory and "
          "format it as a new target"));
}

// Who the disk says it is, before it matters when it was served.
bool JudgeIdentity(const format::ClusterId& cluster, const store::Member* known,
                   const wire::RegisterTargetRequest& request,
                   JoinDecision* decision) {
  if (!IsOurs(cluster, request.cluster_id())) {
    *decision = Quarantine(
        QuarantineCause::kForeign,
        absl::StrCat(PlaceOf(request), " is a disk of cluster ",
                     ClusterText(request.cluster_id()), ", not of this one (",
                     ToString(cluster),
                     "): mount the right disk, or start it with the metadata "
                     "service of its own cluster"));
  } else if (known == nullptr) {
    *decision = Quarantine(
        QuarantineCause::kUnknownTarget,
        absl::StrCat(PlaceOf(request), " claims to be target ",
                     request.target(),
                     ", an id that this cluster never gave. Empty the "
                     "directory and format it with: cairnd format"));
  } else if (known->removed()) {
    *decision = Quarantine(
        QuarantineCause::kRemoved,
        absl::StrCat("target ", request.target(),
                     " was removed from the cluster, and ", PlaceOf(request),
                     " is its old disk: nothing on it counts any more. To use "
                     "the disk again, empty the directory and format it with: "
                     "cairnd format"));
  } else if (known->disk_generation() != request.disk_generation()) {
    *decision = Quarantine(
        QuarantineCause::kDiskGeneration,
        absl::StrCat(PlaceOf(request), " has disk generation ",
                     request.disk_generation(), " of target ", request.target(),
                     ", but the cluster's has ", known->disk_generation(),
                     ": it is a disk from before, or from after, another "
                     "format. Start the disk that belongs here, or empty the "
                     "directory and format it as a new target"));
  } else {
    return true;
  }
  return false;
}

bool IsHolder(const store::Member& known,
              const wire::RegisterTargetRequest& request) {
  return known.admission() != 0 && known.incarnation() == request.incarnation();
}

bool MayConfirm(const store::Member& known,
                const wire::RegisterTargetRequest& request) {
  return known.granted() > known.admission() &&
         known.granted() == request.admission() &&
         known.granted_incarnation() == request.incarnation();
}

// Where it is now; empty names stay what they were.
void NotePlace(const wire::RegisterTargetRequest& request,
               JoinDecision* decision) {
  const std::string before = decision->member.SerializeAsString();
  store::Member& member = decision->member;
  member.set_address(request.address());
  if (!request.host().empty()) member.set_host(request.host());
  if (!request.rack().empty()) member.set_rack(request.rack());
  member.set_directory(request.directory());
  member.set_capacity_bytes(request.capacity_bytes());
  if (member.SerializeAsString() != before) decision->changed = true;
}

JoinDecision Admit(const store::Member& known,
                   const wire::RegisterTargetRequest& request) {
  JoinDecision decision;
  decision.verdict = JoinVerdict::kAdmitted;
  decision.member = known;
  if (!IsHolder(known, request)) {
    decision.changed = true;
    decision.member.set_admission(known.granted());
    decision.member.set_incarnation(request.incarnation());
  }
  decision.admission = decision.member.admission();
  NotePlace(request, &decision);
  return decision;
}

JoinDecision Grant(const store::Member& known,
                   const wire::RegisterTargetRequest& request) {
  JoinDecision decision;
  decision.verdict = JoinVerdict::kGranted;
  decision.member = known;
  const bool again = known.granted() > request.admission() &&
                     known.granted() > known.admission() &&
                     known.granted_incarnation() == request.incarnation();
  if (!again) {
    // Above the disk's own too: metadata may have lost its newest changes, with
    // the operator's consent.
    decision.changed = true;
    decision.member.set_granted(
        std::max({known.granted(), known.admission(), request.admission()}) +
        1);
    decision.member.set_granted_incarnation(request.incarnation());
  }
  decision.admission = decision.member.granted();
  return decision;
}

}  // namespace

bool DependsOnHolder(const format::ClusterId& cluster,
                     const store::Member* known,
                     const wire::RegisterTargetRequest& request) {
  JoinDecision ignored;
  if (!JudgeIdentity(cluster, known, request, &ignored)) return false;
  return known->admission() != 0 && !IsHolder(*known, request);
}

JoinDecision JudgeJoin(const format::ClusterId& cluster,
                       const store::Member* known,
                       const wire::RegisterTargetRequest& request,
                       bool holder_alive) {
  JoinDecision decision;
  if (!JudgeIdentity(cluster, known, request, &decision)) return decision;
  if (IsHolder(*known, request)) {
    if (request.admission() == known->admission()) {
      return Admit(*known, request);
    }
    if (request.admission() < known->admission()) {
      // Its own request from before it confirmed, late: what it was granted.
      decision.verdict = JoinVerdict::kGranted;
      decision.admission = known->admission();
      decision.member = *known;
      return decision;
    }
    return Grant(*known, request);
  }
  if (holder_alive) return Duplicate(*known, request);
  if (MayConfirm(*known, request)) return Admit(*known, request);
  if (request.admission() < known->admission()) {
    return OldImage(*known, request);
  }
  return Grant(*known, request);
}

}  // namespace cairn::server
