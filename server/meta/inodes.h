// Reading inodes and directory entries inside transactions: the small steps
// that namespace, extents and sets share.
//
// Every function takes a Txn; what it reads through it is expected at commit
// unless it says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "format/checkpoint/set_state.h"
#include "format/wire/meta.pb.h"
#include "server/meta/core.h"

namespace cairn::server {

inline bool IsDirectory(const store::Inode& inode) {
  return inode.type() == static_cast<uint32_t>(format::InodeType::kDirectory);
}
inline bool IsFile(const store::Inode& inode) {
  return inode.type() == static_cast<uint32_t>(format::InodeType::kFile);
}

absl::Status NoSuchInode(format::InodeId inode);
absl::Status NoSuchName(std::string_view name);
// kFailedPrecondition with one of format/path/errors.h.
absl::Status Precondition(std::string_view phrase, std::string_view name);

// kNotFound: there is none.
io::Task<absl::StatusOr<store::Inode>> GetInode(Txn* txn,
                                                format::InodeId inode);
// Also kFailedPrecondition: it is no directory.
io::Task<absl::StatusOr<store::Inode>> GetDirectory(Txn* txn,
                                                    format::InodeId inode);
// Also kFailedPrecondition: it is a checkpoint set's directory.
io::Task<absl::StatusOr<store::Inode>> GetMutableDirectory(
    Txn* txn, format::InodeId inode);
io::Task<absl::StatusOr<std::optional<store::DirectoryEntry>>> GetDirent(
    Txn* txn, format::InodeId parent, std::string name);
// True if the directory has no entry now. Not expected: see Txn::ExpectEmpty.
io::Task<absl::StatusOr<bool>> DirectoryIsEmpty(Txn* txn,
                                                format::InodeId directory);

// What clients see. Reads a directory's time, unexpected.
io::Task<absl::StatusOr<wire::Attributes>> MakeAttributes(Txn* txn,
                                                          format::InodeId inode,
                                                          store::Inode record);
// For files and symlinks, and directories made in this transaction.
wire::Attributes ToAttributes(format::InodeId inode,
                              const store::Inode& record);

// Notes that entries of the directory changed (written, not read).
void TouchDirectory(Txn* txn, format::InodeId directory, uint64_t now_ns);

// How many directories lie between `directory` and the root, at most
// kDirectoryDepthMax + 1; `meets` is set if `looked_for` is on the way (itself
// included). Reads without expectations: the caller guards against moves.
struct Ancestry {
  uint32_t depth = 0;
  bool meets = false;
};
io::Task<absl::StatusOr<Ancestry>> WalkUp(Txn* txn, format::InodeId directory,
                                          format::InodeId looked_for);

}  // namespace cairn::server
