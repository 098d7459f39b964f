#include "format/wire/method.h"

namespace cairn::format {
namespace {

struct Named {
  Method method;
  std::string_view name;
};

constexpr Named kNames[] = {
    {Method::kPing, "Ping"},
    {Method::kPutChunk, "PutChunk"},
    {Method::kGetChunk, "GetChunk"},
    {Method::kListChunks, "ListChunks"},
    {Method::kDeleteBlobs, "DeleteBlobs"},
    {Method::kTargetStatus, "TargetStatus"},
    {Method::kRebuildShard, "RebuildShard"},
    {Method::kDropGroup, "DropGroup"},
    {Method::kGetMap, "GetMap"},
    {Method::kOpenSession, "OpenSession"},
    {Method::kRenewSession, "RenewSession"},
    {Method::kCloseSession, "CloseSession"},
    {Method::kAllocateBlobs, "AllocateBlobs"},
    {Method::kClusterStatus, "ClusterStatus"},
    {Method::kLookup, "Lookup"},
    {Method::kGetAttr, "GetAttr"},
    {Method::kSetAttr, "SetAttr"},
    {Method::kCreate, "Create"},
    {Method::kLink, "Link"},
    {Method::kUnlink, "Unlink"},
    {Method::kRmdir, "Rmdir"},
    {Method::kRename, "Rename"},
    {Method::kReadDir, "ReadDir"},
    {Method::kReadLink, "ReadLink"},
    {Method::kGetExtents, "GetExtents"},
    {Method::kCommitExtents, "CommitExtents"},
    {Method::kOpenSet, "OpenSet"},
    {Method::kCommitRank, "CommitRank"},
    {Method::kWaitSet, "WaitSet"},
    {Method::kListSets, "ListSets"},
    {Method::kGetSet, "GetSet"},
    {Method::kGetManifest, "GetManifest"},
    {Method::kRemoveSet, "RemoveSet"},
    {Method::kRegisterTarget, "RegisterTarget"},
    {Method::kAllocateTarget, "AllocateTarget"},
    {Method::kListTargets, "ListTargets"},
    {Method::kChangeTarget, "ChangeTarget"},
    {Method::kCreatePool, "CreatePool"},
};

}  // namespace

std::string_view MethodName(Method method) {
  for (const Named& named : kNames) {
    if (named.method == method) return named.name;
  }
  return "";
}

}  // namespace cairn::format
