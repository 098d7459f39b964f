#include "format/wire/method.h"

namespace cairn::format {

std::string_view MethodName(Method method) {
  switch (method) {
    case Method::kPing:
      return "Ping";
    case Method::kPutChunk:
      return "PutChunk";
    case Method::kGetChunk:
      return "GetChunk";
    case Method::kListChunks:
      return "ListChunks";
    case Method::kDeleteBlobs:
      return "DeleteBlobs";
    case Method::kTargetStatus:
      return "TargetStatus";
    case Method::kRebuildShard:
      return "RebuildShard";
    case Method::kDropGroup:
      return "DropGroup";
    case Method::kGetMap:
      return "GetMap";
    case Method::kOpenSession:
      return "OpenSession";
    case Method::kRenewSession:
      return "RenewSession";
    case Method::kCloseSession:
      return "CloseSession";
    case Method::kAllocateBlobs:
      return "AllocateBlobs";
    case Method::kClusterStatus:
      return "ClusterStatus";
    case Method::kLookup:
      return "Lookup";
    case Method::kGetAttr:
      return "GetAttr";
    case Method::kSetAttr:
      return "SetAttr";
    case Method::kCreate:
      return "Create";
    case Method::kLink:
      return "Link";
    case Method::kUnlink:
      return "Unlink";
    case Method::kRmdir:
      return "Rmdir";
    case Method::kRename:
      return "Rename";
    case Method::kReadDir:
      return "ReadDir";
    case Method::kReadLink:
      return "ReadLink";
    case Method::kGetExtents:
      return "GetExtents";
    case Method::kCommitExtents:
      return "CommitExtents";
    case Method::kOpenSet:
      return "OpenSet";
    case Method::kCommitRank:
      return "CommitRank";
    case Method::kWaitSet:
      return "WaitSet";
    case Method::kListSets:
      return "ListSets";
    case Method::kGetSet:
      return "GetSet";
    case Method::kGetManifest:
      return "GetManifest";
    case Method::kRemoveSet:
      return "RemoveSet";
  }
  return "";
}

}  // namespace cairn::format
