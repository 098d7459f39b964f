// What clients do with the extents of files: read them, commit new ones, and
// cut files short.
//
// Fence:     a commit is one transaction that checks that the session lives,
//            that no PG row of the chunks got other targets since they were
//            written, and that the session may refer to each blob.
// Atomicity: a commit that overwrites very fragmented ranges may take several
//            transactions; then every byte is the old or the new one, and the
//            size is right, at each step between.
// Threads:   one loop.
#pragma once

#include "absl/status/statusor.h"
#include "format/wire/meta.pb.h"
#include "server/meta/extent_store.h"
#include "server/meta/sessions.h"

namespace cairn::server {

class Extents {
 public:
  Extents(Core* core, Sessions* sessions) : core_(core), sessions_(sessions) {}

  // Clipped to the range asked for and to the file's size.
  // kNotFound, kFailedPrecondition: no file.
  io::Task<absl::StatusOr<wire::GetExtentsResponse>> Get(
      wire::GetExtentsRequest request);

  // kAborted: the session is lost; or kErrMapChanged: write the stripes of the
  //   changed rows again and commit with the new map's epoch (and a new
  //   request id); or a blob was reclaimed: write its data again elsewhere.
  io::Task<absl::StatusOr<wire::CommitExtentsResponse>> Commit(
      wire::CommitExtentsRequest request);

  // Finishes cutting away what lies beyond the size of a file marked as
  // trimming. OK if it is gone or not marked.
  io::Task<absl::Status> FinishTrim(format::InodeId inode);

  // kAborted (format::kErrMapChanged) unless every PG row that holds stripes of
  // the extents has had its targets since `epoch` or longer; the commit will
  // fail if the map changes meanwhile.
  absl::Status ExpectRows(uint64_t epoch,
                          const std::vector<format::Extent>& extents,
                          Txn* txn) const;
  // That `session` may refer to each blob of `extents`.
  io::Task<absl::Status> CheckBlobs(Txn* txn, format::SessionId session,
                                    std::vector<format::Extent> extents);
  // As much of `extents` from `skip` bytes on (counted over all of them) as
  // fits; returns how many bytes that are.
  io::Task<absl::StatusOr<uint64_t>> Fill(Txn* txn, ExtentUpdate* update,
                                          std::vector<format::Extent> extents,
                                          uint64_t skip);

 private:
  io::Task<absl::StatusOr<wire::GetExtentsResponse>> GetIn(
      Txn* txn, const wire::GetExtentsRequest* request);
  io::Task<absl::StatusOr<wire::CommitExtentsResponse>> CommitIn(
      Txn* txn, const wire::CommitExtentsRequest* request);
  // Commits leading parts of what does not fit in one transaction.
  io::Task<absl::Status> CommitParts(const wire::CommitExtentsRequest* request);
  io::Task<absl::Status> CommitPartIn(Txn* txn,
                                      const wire::CommitExtentsRequest* request,
                                      uint64_t skip, uint64_t* written);
  io::Task<absl::Status> TrimPage(Txn* txn, format::InodeId inode, bool* more);

  Core* const core_;
  Sessions* const sessions_;
};

// kInvalidArgument: counts, lengths or offsets beyond what can be.
absl::StatusOr<std::vector<format::Extent>> ExtentsFromProto(
    const google::protobuf::RepeatedPtrField<wire::Extent>& protos,
    uint32_t count_max);
uint64_t TotalBytes(const std::vector<format::Extent>& extents);

}  // namespace cairn::server
