// JudgeJoin: may a process that claims to be a target serve it? Pure: the whole
// rule in one place. docs/format/membership.md.
//
// Each start of a target is let in under a number, its *admission*, that is
// greater than all before. It is granted first, made durable on the disk by the
// process, and confirmed; only then does the process serve, and only then does
// the number count. So a disk with a smaller number lacks chunks that may have
// been acknowledged since: it is an old image, or a copy. No clock decides.
//
// Repeats: a request that comes twice, or late, gets the same answer and has no
//          second effect; one of a process that is gone wastes a number.
// Threads: none. Lifetime: values only.
#pragma once

#include <cstdint>
#include <string>

#include "format/base/ids.h"
#include "format/cluster/membership.h"
#include "format/wire/member.pb.h"
#include "format/wire/store.pb.h"

namespace cairn::server {

struct JoinDecision {
  format::JoinVerdict verdict = format::JoinVerdict::kQuarantined;
  uint64_t admission = 0;  // With kGranted and kAdmitted.
  // With kQuarantined:
  format::QuarantineCause cause = format::QuarantineCause::kUnknownTarget;
  std::string reason;
  // What is to be stored before the answer is given, if it differs from before.
  store::Member member;
  bool changed = false;
};

// Null `known`: the cluster never gave this target id. `holder_alive`: the
// process that was let in last was asked just now, and answered.
JoinDecision JudgeJoin(const format::ClusterId& cluster,
                       const store::Member* known,
                       const wire::RegisterTargetRequest& request,
                       bool holder_alive);

// Whether the answer depends on `holder_alive`: ask the holder first.
bool DependsOnHolder(const format::ClusterId& cluster,
                     const store::Member* known,
                     const wire::RegisterTargetRequest& request);

}  // namespace cairn::server
