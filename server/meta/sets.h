// Checkpoint sets: opened by their ranks one by one, published all at once.
//
// Life:       the first rank's OpenSet makes a directory that no name leads to;
//             each rank's commit puts its file there. When the last rank has
//             committed, the manifest parts are merged and stored, and ONE
//             transaction gives the directory its name. A crash at any point
//             leaves the set whole or invisible; Load() goes on publishing.
// Attempts:   a greater attempt of the same path fences the smaller, durably.
// Claims:     a rank belongs to the session that opened it until that session
//             ends; then another session may take it over.
// Memory:     of each open set: a bit per rank. While publishing: its parts and
//             its manifest.
// Threads:    one loop; merging runs on a helper thread.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "format/checkpoint/manifest.h"
#include "format/wire/checkpoint.pb.h"
#include "server/meta/extents.h"
#include "server/meta/namespace.h"
#include "server/meta/sessions.h"

namespace cairn::server {

// "rank-00007.safetensors".
std::string RankFileName(uint32_t rank);

class Sets {
 public:
  Sets(Core* core, Sessions* sessions, Namespace* names, Extents* extents)
      : core_(core), sessions_(sessions), names_(names), extents_(extents) {}

  // Learns which ranks of the open sets have committed; starts to publish those
  // that are complete.
  io::Task<absl::Status> Load();
  // Gives up sets in which nobody alive has a claim; until core->stopping.
  io::Task<void> IdleLoop();

  // kAlreadyExists: the path is a published set or something else, or the rank
  //   is claimed by a live session (named). kAborted: a newer attempt exists.
  // kInvalidArgument: another world size or set id than the other ranks'.
  io::Task<absl::StatusOr<wire::OpenSetResponse>> Open(
      wire::OpenSetRequest request);
  // kAborted: fenced by a newer attempt, or the claim was taken over, or as
  //   CommitExtents. kInvalidArgument: the manifest part does not fit.
  io::Task<absl::StatusOr<wire::CommitRankResponse>> CommitRank(
      wire::CommitRankRequest request);
  // Answers as soon as the set is no longer open, at the latest after wait_ms.
  io::Task<absl::StatusOr<wire::WaitSetResponse>> Wait(
      wire::WaitSetRequest request);
  // In order of publication; then, if asked for, open and failed ones.
  io::Task<absl::StatusOr<wire::ListSetsResponse>> List(
      wire::ListSetsRequest request);
  // kNotFound: none is published there; says if one is open, and what it lacks.
  io::Task<absl::StatusOr<wire::GetSetResponse>> Get(
      wire::GetSetRequest request);
  // As many blocks as fit in an answer, at least one if there is one.
  io::Task<absl::StatusOr<wire::GetManifestResponse>> GetManifest(
      wire::GetManifestRequest request);
  io::Task<absl::StatusOr<wire::RemoveSetResponse>> Remove(
      wire::RemoveSetRequest request);

 private:
  // What memory knows of an open set.
  struct Live {
    explicit Live(io::Env* env) : loaded(env), changed(env) {}
    io::Event loaded;
    io::Event changed;  // Set for ever once the set is no longer open.
    std::vector<bool> committed;
    uint32_t count = 0;
    bool publishing = false;
    io::TimeNs active_ns = 0;
  };

  // --- sets_open.cc
  io::Task<absl::StatusOr<wire::OpenSetResponse>> OpenIn(
      Txn* txn, const wire::OpenSetRequest* request);
  io::Task<absl::StatusOr<wire::OpenSetResponse>> MakeSet(
      Txn* txn, const wire::OpenSetRequest* request, format::InodeId parent,
      std::string name);
  io::Task<absl::StatusOr<wire::OpenSetResponse>> JoinSet(
      Txn* txn, const wire::OpenSetRequest* request, format::InodeId set,
      store::CheckpointSet record);
  io::Task<absl::Status> Claim(Txn* txn, const wire::OpenSetRequest* request,
                               format::InodeId set);
  absl::StatusOr<uint32_t> ChoosePool(uint32_t asked) const;
  // Marks an open set as fenced and puts it into the trash.
  void FenceSet(Txn* txn, format::InodeId set, store::CheckpointSet record,
                std::string reason);

  // --- sets_live.cc
  // shared: waiters hold it across its removal from the map.
  io::Task<absl::StatusOr<std::shared_ptr<Live>>> FindLive(format::InodeId set,
                                                           uint32_t world_size);
  io::Task<absl::Status> LoadRanks(format::InodeId set, Live* live);
  void NoteCommitted(format::InodeId set, uint32_t rank);
  void NoteEnded(format::InodeId set);
  io::Task<absl::Status> CheckIdle(format::InodeId set);
  io::Task<absl::Status> AbandonIn(Txn* txn, format::InodeId set);
  std::vector<uint32_t> MissingRanks(const Live& live) const;

  // --- sets_commit.cc
  io::Task<absl::StatusOr<wire::CommitRankResponse>> CommitIn(
      Txn* txn, const wire::CommitRankRequest* request);
  // The rank's record, if the request may still change it.
  io::Task<absl::StatusOr<store::Rank>> GuardRank(
      Txn* txn, const wire::CommitRankRequest* request);
  io::Task<absl::Status> ClearFile(const wire::CommitRankRequest* request,
                                   format::InodeId file);
  io::Task<absl::Status> ClearPage(Txn* txn,
                                   const wire::CommitRankRequest* request,
                                   format::InodeId file, bool* more);
  io::Task<absl::Status> StageExtents(const wire::CommitRankRequest* request,
                                      format::InodeId file);
  io::Task<absl::Status> StageExtentsPart(
      Txn* txn, const wire::CommitRankRequest* request, format::InodeId file,
      uint64_t skip, uint64_t* written);
  io::Task<absl::Status> StagePieces(const wire::CommitRankRequest* request);
  io::Task<absl::Status> StagePiecesPart(Txn* txn,
                                         const wire::CommitRankRequest* request,
                                         uint32_t first, uint32_t count);
  void PutFile(Txn* txn, const wire::CommitRankRequest* request,
               store::Rank* rank);

  // --- sets_publish.cc
  void StartPublish(format::InodeId set);
  io::Task<void> PublishLoop(format::InodeId set);
  io::Task<absl::Status> Publish(format::InodeId set);
  io::Task<absl::StatusOr<std::vector<std::string>>> LoadParts(
      format::InodeId set, uint32_t world_size);
  io::Task<absl::Status> StoreManifest(format::InodeId set,
                                       const format::Manifest* manifest);
  io::Task<absl::Status> StorePairs(format::InodeId set,
                                    std::vector<KvWrite> pairs);
  io::Task<absl::Status> StorePairsIn(Txn* txn, format::InodeId set,
                                      const std::vector<KvWrite>* pairs);
  io::Task<absl::Status> FailSet(format::InodeId set, std::string reason);
  io::Task<absl::Status> FailIn(Txn* txn, format::InodeId set,
                                std::string reason);
  io::Task<absl::Status> PublishIn(Txn* txn, format::InodeId set,
                                   const format::Manifest* manifest);

  // --- sets_query.cc
  struct SetPlace;
  io::Task<absl::StatusOr<store::CheckpointSet>> ReadSet(format::InodeId set);
  io::Task<absl::StatusOr<wire::ListSetsResponse>> ListIn(
      Txn* txn, const wire::ListSetsRequest* request);
  io::Task<absl::Status> ListPublished(Txn* txn, format::InodeId root,
                                       uint64_t after, uint32_t limit,
                                       wire::ListSetsResponse* response);
  io::Task<absl::Status> ListOpen(Txn* txn, format::InodeId root,
                                  uint64_t after, uint32_t limit,
                                  wire::ListSetsResponse* response);
  io::Task<absl::StatusOr<wire::SetInfo>> MakeInfo(Txn* txn,
                                                   format::InodeId set,
                                                   store::CheckpointSet record);
  io::Task<absl::StatusOr<wire::GetSetResponse>> GetIn(
      Txn* txn, const wire::GetSetRequest* request);
  io::Task<absl::Status> NoSet(Txn* txn, std::string path);
  io::Task<absl::Status> AddFiles(Txn* txn, format::InodeId set,
                                  wire::GetSetResponse* response);
  io::Task<absl::StatusOr<wire::GetManifestResponse>> GetManifestIn(
      Txn* txn, const wire::GetManifestRequest* request);

  // --- sets_remove.cc
  io::Task<absl::StatusOr<wire::RemoveSetResponse>> RemoveIn(
      Txn* txn, const wire::RemoveSetRequest* request);
  io::Task<absl::Status> RemovePublished(Txn* txn, format::InodeId parent,
                                         std::string name, format::InodeId set);
  io::Task<absl::Status> RemoveOpen(Txn* txn, format::InodeId parent,
                                    std::string name);
  // The directory that holds, or may hold, the last component of `path`.
  io::Task<absl::StatusOr<SetPlace>> FindPlace(Txn* txn, std::string path);

  Core* const core_;
  Sessions* const sessions_;
  Namespace* const names_;
  Extents* const extents_;
  std::map<uint64_t, std::shared_ptr<Live>> live_;  // By inode.
};

struct Sets::SetPlace {
  format::InodeId parent;
  std::string name;
};

}  // namespace cairn::server
