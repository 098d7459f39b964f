// Numbers of the RPC methods; the table in docs/format/messages.md says what
// each takes and gives. Persisted on the wire: add values, never renumber.
#pragma once

#include <cstdint>
#include <string_view>

namespace cairn::format {

enum class Method : uint16_t {
  kPing = 1,

  // Targets (target.proto).
  kPutChunk = 16,
  kGetChunk = 17,
  kListChunks = 18,
  kDeleteBlobs = 19,  // From metadata only.
  kTargetStatus = 20,
  kRebuildShard = 21,  // From metadata only.
  kDropGroup = 22,     // From metadata only.

  // Metadata: cluster and sessions (meta.proto).
  kGetMap = 32,
  kOpenSession = 33,
  kRenewSession = 34,
  kCloseSession = 35,
  kAllocateBlobs = 36,
  kClusterStatus = 37,

  // Metadata: namespace (meta.proto).
  kLookup = 48,
  kGetAttr = 49,
  kSetAttr = 50,
  kCreate = 51,  // Files, directories and symlinks.
  kLink = 52,
  kUnlink = 53,
  kRmdir = 54,
  kRename = 55,
  kReadDir = 56,
  kReadLink = 57,
  kGetExtents = 58,
  kCommitExtents = 59,  // Also truncate.

  // Metadata: checkpoint sets (checkpoint.proto).
  kOpenSet = 80,
  kCommitRank = 81,
  kWaitSet = 82,
  kListSets = 83,
  kGetSet = 84,
  kGetManifest = 85,
  kRemoveSet = 86,

  // Metadata: members and pools (member.proto).
  kRegisterTarget = 96,  // Asked by a target's process.
  kAllocateTarget = 97,
  kListTargets = 98,
  kChangeTarget = 99,
  kCreatePool = 100,
};

// "PutChunk"; "method 999" is for the caller to print when this is empty.
std::string_view MethodName(Method method);

}  // namespace cairn::format
