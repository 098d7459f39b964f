// The namespace: names, directories, links, attributes.
//
// Every operation is one transaction. Creates in one directory do not conflict
// with each other: they expect that the directory's inode is unchanged (it is
// still there) and write only their own entry. Moves of directories between
// parents are serialised on one key, so that no two of them make a loop.
// The link count of a directory is always 1.
//
// Errors of all: kNotFound (a parent or name is absent), kInvalidArgument (a
//   name that cannot be; format/path/names.h), kFailedPrecondition with a
//   phrase of format/path/errors.h, kAborted (the session of a mutation is
//   lost), kUnavailable (try again).
// Threads: one loop.
#pragma once

#include "absl/status/statusor.h"
#include "format/wire/meta.pb.h"
#include "server/meta/extents.h"
#include "server/meta/inodes.h"
#include "server/meta/sessions.h"

namespace cairn::server {

class Namespace {
 public:
  Namespace(Core* core, Sessions* sessions, Extents* extents)
      : core_(core), sessions_(sessions), extents_(extents) {}

  io::Task<absl::StatusOr<wire::LookupResponse>> Lookup(
      wire::LookupRequest request);
  io::Task<absl::StatusOr<wire::GetAttrResponse>> GetAttr(
      wire::GetAttrRequest request);
  // Sorted bytewise by name. A page is stable: entries that are there all the
  // time are seen exactly once, whatever else changes between pages.
  io::Task<absl::StatusOr<wire::ReadDirResponse>> ReadDir(
      wire::ReadDirRequest request);
  io::Task<absl::StatusOr<wire::ReadLinkResponse>> ReadLink(
      wire::ReadLinkRequest request);

  // kAlreadyExists; with open_existing a file that is there is the answer.
  io::Task<absl::StatusOr<wire::CreateResponse>> Create(
      wire::CreateRequest request);
  io::Task<absl::StatusOr<wire::LinkResponse>> Link(wire::LinkRequest request);
  io::Task<absl::StatusOr<wire::UnlinkResponse>> Unlink(
      wire::UnlinkRequest request);
  io::Task<absl::StatusOr<wire::RmdirResponse>> Rmdir(
      wire::RmdirRequest request);
  io::Task<absl::StatusOr<wire::RenameResponse>> Rename(
      wire::RenameRequest request);
  io::Task<absl::StatusOr<wire::SetAttrResponse>> SetAttr(
      wire::SetAttrRequest request);

  // The directory at `path`, made with its parents where absent.
  io::Task<absl::StatusOr<format::InodeId>> MakeDirectories(
      std::vector<std::string> names);
  // Follows symlinks, the last one too. kNotFound names the missing component.
  io::Task<absl::StatusOr<format::InodeId>> Resolve(Txn* txn, std::string path);
  // The absolute path of a directory, from the names its ancestors have now.
  io::Task<absl::StatusOr<std::string>> PathOf(Txn* txn,
                                               format::InodeId directory);

 private:
  struct RenameState;

  io::Task<absl::StatusOr<wire::LookupResponse>> LookupIn(
      Txn* txn, const wire::LookupRequest* request);
  io::Task<absl::StatusOr<wire::GetAttrResponse>> GetAttrIn(
      Txn* txn, const wire::GetAttrRequest* request);
  io::Task<absl::StatusOr<wire::ReadDirResponse>> ReadDirIn(
      Txn* txn, const wire::ReadDirRequest* request);
  io::Task<absl::StatusOr<wire::ReadLinkResponse>> ReadLinkIn(
      Txn* txn, const wire::ReadLinkRequest* request);
  io::Task<absl::StatusOr<wire::CreateResponse>> CreateIn(
      Txn* txn, const wire::CreateRequest* request);
  io::Task<absl::StatusOr<wire::CreateResponse>> OpenExisting(
      Txn* txn, const wire::CreateRequest* request, format::InodeId inode);
  io::Task<absl::StatusOr<wire::LinkResponse>> LinkIn(
      Txn* txn, const wire::LinkRequest* request);
  io::Task<absl::StatusOr<wire::UnlinkResponse>> UnlinkIn(
      Txn* txn, const wire::UnlinkRequest* request);
  io::Task<absl::StatusOr<wire::RmdirResponse>> RmdirIn(
      Txn* txn, const wire::RmdirRequest* request);
  io::Task<absl::StatusOr<wire::RenameResponse>> RenameIn(
      Txn* txn, const wire::RenameRequest* request);
  io::Task<absl::Status> LoadRename(Txn* txn,
                                    const wire::RenameRequest* request,
                                    RenameState* state);
  io::Task<absl::Status> CheckMoveOfDirectory(
      Txn* txn, const wire::RenameRequest* request, RenameState* state);
  io::Task<absl::Status> ReplaceTarget(Txn* txn,
                                       const wire::RenameRequest* request,
                                       RenameState* state);
  io::Task<absl::StatusOr<wire::SetAttrResponse>> SetAttrIn(
      Txn* txn, const wire::SetAttrRequest* request);
  io::Task<absl::Status> SetSize(Txn* txn, format::InodeId inode, uint64_t size,
                                 store::Inode* record);
  io::Task<absl::Status> MakeDirectoryIn(Txn* txn, format::InodeId parent,
                                         std::string name,
                                         format::InodeId* made);

  // One name of `inode` is gone; without names it goes to the trash.
  void DropLink(Txn* txn, format::InodeId inode, store::Inode record);
  // Directory `inode` is gone (its entry is the caller's): kFailedPrecondition
  // unless it is empty, which the commit then expects.
  io::Task<absl::Status> DropDirectory(Txn* txn, format::InodeId inode,
                                       std::string name);
  // A file of a published set is being unlinked: the set stops being one; what
  // is left is an ordinary directory.
  io::Task<absl::Status> DissolveSet(Txn* txn, format::InodeId set,
                                     store::Inode* directory);

  Core* const core_;
  Sessions* const sessions_;
  Extents* const extents_;
};

}  // namespace cairn::server
