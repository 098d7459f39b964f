// Whatever a process says, and whatever the record is: the judge's answer keeps
// the numbers ascending, and lets nobody in who has not what was granted.
#include <cstddef>
#include <cstdint>
#include <string>

#include "format/base/status.h"
#include "server/meta/join_judge.h"

namespace {

using cairn::format::ClusterId;
using cairn::format::JoinVerdict;
using cairn::server::JoinDecision;
using cairn::wire::RegisterTargetRequest;

void CheckGranted(const cairn::store::Member& before,
                  const RegisterTargetRequest& request,
                  const JoinDecision& decision) {
  const bool held =
      before.admission() != 0 && before.incarnation() == request.incarnation();
  if (held && request.admission() < before.admission()) {
    CAIRN_CHECK(decision.admission == before.admission());
    return;
  }
  CAIRN_CHECK(decision.admission == decision.member.granted());
  CAIRN_CHECK(decision.member.granted_incarnation() == request.incarnation());
  CAIRN_CHECK(decision.member.admission() == before.admission());
}

void CheckAdmitted(const cairn::store::Member& before,
                   const RegisterTargetRequest& request,
                   const JoinDecision& decision) {
  CAIRN_CHECK(!before.removed());
  CAIRN_CHECK(before.disk_generation() == request.disk_generation());
  CAIRN_CHECK(decision.admission == request.admission());
  CAIRN_CHECK(decision.member.admission() == request.admission());
  CAIRN_CHECK(decision.member.admission() >= before.admission());
  CAIRN_CHECK(decision.member.incarnation() == request.incarnation());
}

void Check(const cairn::store::Member& before,
           const RegisterTargetRequest& request, bool holder_alive) {
  ClusterId cluster;
  cluster.bytes.fill('c');
  const JoinDecision decision =
      cairn::server::JudgeJoin(cluster, &before, request, holder_alive);
  switch (decision.verdict) {
    case JoinVerdict::kGranted:
      return CheckGranted(before, request, decision);
    case JoinVerdict::kAdmitted:
      return CheckAdmitted(before, request, decision);
    case JoinVerdict::kQuarantined:
      CAIRN_CHECK(!decision.changed && !decision.reason.empty());
      return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const size_t cut = size == 0 ? 0 : data[0] % size;
  RegisterTargetRequest request;
  cairn::store::Member before;
  (void)request.ParseFromString(bytes.substr(0, cut));
  (void)before.ParseFromString(bytes.substr(cut));
  Check(before, request, size % 2 == 0);
  // A fuzzer seldom finds the right cluster and generation.
  request.set_cluster_id(std::string(16, 'c'));
  before.set_disk_generation(request.disk_generation());
  Check(before, request, size % 2 == 0);
  return 0;
}
