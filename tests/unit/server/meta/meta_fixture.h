// A metadata service on the model engine in virtual time, and short names for
// its operations.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "format/wire/rebuild_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/meta/kv/model_kv.h"
#include "server/meta/service.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"
#include "tests/support/status_matchers.h"

namespace cairn::server {

using ::cairn::testing::StatusIs;
using format::InodeType;
using format::SetState;

inline constexpr uint64_t kRoot = format::kRootInode.value;

// Remembers what it was told; fails on demand.
class FakeOrders final : public TargetOrders {
 public:
  io::Task<absl::Status> DeleteBlobs(format::TargetId target,
                                     std::vector<format::BlobId> blobs,
                                     uint64_t) override {
    ++delete_orders[target];
    if (failing.contains(target)) {
      co_return absl::UnavailableError("target is down");
    }
    for (const format::BlobId blob : blobs) deleted[blob].insert(target);
    co_return absl::OkStatus();
  }
  io::Task<absl::StatusOr<wire::RebuildShardResponse>> RebuildShard(
      wire::RebuildShardRequest request) override {
    rebuild_orders.push_back(request);
    if (failing.contains(format::TargetId(request.target()))) {
      co_return absl::UnavailableError("target is down");
    }
    // As a target does: the order after a failure starts it again.
    bool& failed = home_failed[{request.target(), request.pg()}];
    if (home_failing.contains(request.target()) && !failed) {
      failed = true;
      wire::RebuildShardResponse failure;
      failure.set_state(static_cast<uint32_t>(format::RebuildState::kFailed));
      failure.set_home_failed(true);
      co_return failure;
    }
    failed = false;
    co_return rebuild_answer;
  }
  io::Task<absl::Status> DropGroup(wire::DropGroupRequest request) override {
    if (failing.contains(format::TargetId(request.target()))) {
      co_return absl::UnavailableError("target is down");
    }
    drops.push_back(std::move(request));
    co_return absl::OkStatus();
  }
  io::Task<absl::StatusOr<wire::ListChunksResponse>> ListChunks(
      wire::ListChunksRequest request) override {
    wire::ListChunksResponse response;
    const auto group = groups.find({request.target(), request.pg()});
    if (group != groups.end()) {
      for (const wire::ChunkInfo& chunk : group->second) {
        *response.add_chunks() = chunk;
      }
    }
    ++list_orders;
    for (const uint64_t blob : listed[request.target()]) {
      response.add_chunks()->mutable_chunk()->set_blob(blob);
    }
    co_return response;
  }
  io::Task<absl::StatusOr<wire::TargetStatusResponse>> Status(
      format::TargetId target) override {
    if (failing.contains(target)) {
      co_return absl::UnavailableError("target is down");
    }
    wire::TargetStatusResponse status;
    status.set_meta_sequence(mark);
    status.set_failed(problems[target]);
    status.set_incarnation(incarnations[target]);
    *status.mutable_scrub() = scrubs[target];
    co_return status;
  }
  io::Task<absl::StatusOr<wire::TargetStatusResponse>> Heartbeat(
      format::TargetId target, io::TimeNs) override {
    return Status(target);
  }

  void SetAddress(format::TargetId target, std::string address) override {
    addresses[target] = std::move(address);
  }

  std::map<format::TargetId, std::string> addresses;
  std::map<format::TargetId, uint64_t> incarnations;  // Who serves it.
  std::map<format::BlobId, std::set<format::TargetId>> deleted;
  std::map<format::TargetId, uint64_t> delete_orders;
  std::set<format::TargetId> failing;
  std::map<format::TargetId, std::string> problems;  // Takes no writes.
  uint64_t mark = 0;
  std::vector<wire::RebuildShardRequest> rebuild_orders;
  wire::RebuildShardResponse rebuild_answer;
  std::set<uint32_t> home_failing;
  std::map<std::pair<uint32_t, uint32_t>, bool> home_failed;
  std::vector<wire::DropGroupRequest> drops;
  std::map<uint32_t, std::vector<uint64_t>> listed;  // Blobs, by target.
  // Chunks, by target and group.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<wire::ChunkInfo>> groups;
  uint64_t list_orders = 0;
  std::map<format::TargetId, wire::ScrubProgress> scrubs;
};

// One pool (id 1) of replicate:2 over three targets.
inline format::ClusterMap TestMap() {
  format::ClusterMap map;
  map.cluster_id.bytes[0] = 1;
  map.epoch = format::Epoch(1);
  for (uint32_t id = 1; id <= 3; ++id) {
    format::TargetInfo target;
    target.id = format::TargetId(id);
    target.host = absl::StrCat("host", id);
    target.capacity_bytes = format::kGiB;
    map.targets[target.id] = target;
  }
  format::Pool pool;
  pool.id = format::PoolId(1);
  pool.name = "default";
  pool.scheme = {format::SchemeKind::kReplicate, 1, 1};
  pool.stripe_width = 3;
  pool.pg_count = 3;
  for (const uint32_t id : {1, 2, 2, 3, 3, 1}) {
    pool.pg_targets.push_back(format::TargetId(id));
  }
  map.pools[pool.id] = pool;
  return map;
}

template <typename T>
io::Task<void> StoreResult(io::Task<T> task, std::optional<T>* out) {
  out->emplace(co_await std::move(task));
}

class MetaTest : public ::testing::Test {
 protected:
  MetaTest() : MetaTest(1) {}
  explicit MetaTest(uint64_t seed) : world_({.seed = seed}) {
    options_.trash_grace_ms = 1000;
    options_.orphan_grace_ms = 500;
    options_.garbage_retry_ms = 500;
    node_ = world_.AddNode();
    env_ = world_.Start(node_);
    OpenKv();
    EXPECT_OK(Await(MetaService::Bootstrap(env_, kv_.get(), TestMap())));
    OpenService();
    session_ = OpenSession("host/1/test", 1);
  }
  ~MetaTest() override { Shutdown(); }

  template <typename T>
  T Await(io::Task<T> task) {
    std::optional<T> out;
    world_.Run(StoreResult(std::move(task), &out));
    return *std::move(out);
  }
  void Sleep(io::TimeNs time) { world_.RunUntil(world_.NowNs() + time); }

  void OpenKv() { kv_ = std::make_unique<ModelKv>(env_, &disk_); }
  void OpenService() {
    auto opened = Await(MetaService::Open(env_, kv_.get(), &orders_, options_));
    ASSERT_OK(opened);
    meta_ = *std::move(opened);
  }
  void Shutdown() {
    if (meta_ != nullptr) EXPECT_OK(Await(meta_->Close()));
    meta_.reset();
    if (kv_ != nullptr) EXPECT_OK(Await(kv_->Close()));
    kv_.reset();
  }
  // Clean or not, the store is what it is.
  void Restart() {
    Shutdown();
    OpenKv();
    OpenService();
  }

  uint64_t OpenSession(std::string client, uint64_t nonce) {
    wire::OpenSessionRequest request;
    request.set_client(std::move(client));
    request.set_nonce(nonce);
    const auto response = Await(meta_->sessions().Open(std::move(request)));
    EXPECT_OK(response);
    return response.ok() ? response->session() : 0;
  }
  absl::Status CloseSession(uint64_t session) {
    wire::CloseSessionRequest request;
    request.set_session(session);
    return Await(meta_->sessions().Close(std::move(request))).status();
  }
  wire::MutationId NextId() { return NextIdOf(session_); }
  wire::MutationId NextIdOf(uint64_t session) {
    wire::MutationId id;
    id.set_session(session);
    id.set_request(++requests_);
    return id;
  }

  wire::CreateRequest CreateRequest(uint64_t parent, std::string name,
                                    InodeType type = InodeType::kFile) {
    wire::CreateRequest request;
    *request.mutable_id() = NextId();
    request.set_parent(parent);
    request.set_name(std::move(name));
    request.set_type(static_cast<uint32_t>(type));
    request.set_mode(0644);
    if (type == InodeType::kSymlink) request.set_symlink("target");
    return request;
  }
  // The inode.
  absl::StatusOr<uint64_t> Create(uint64_t parent, std::string name,
                                  InodeType type = InodeType::kFile) {
    const auto response = Await(
        meta_->names().Create(CreateRequest(parent, std::move(name), type)));
    if (!response.ok()) return response.status();
    return response->attributes().inode();
  }
  uint64_t MakeFile(uint64_t parent, std::string name) {
    const auto made = Create(parent, std::move(name));
    EXPECT_OK(made);
    return made.value_or(0);
  }
  uint64_t MakeDir(uint64_t parent, std::string name) {
    const auto made = Create(parent, std::move(name), InodeType::kDirectory);
    EXPECT_OK(made);
    return made.value_or(0);
  }
  absl::Status Unlink(uint64_t parent, std::string name) {
    wire::UnlinkRequest request;
    *request.mutable_id() = NextId();
    request.set_parent(parent);
    request.set_name(std::move(name));
    return Await(meta_->names().Unlink(std::move(request))).status();
  }
  absl::Status Rmdir(uint64_t parent, std::string name) {
    wire::RmdirRequest request;
    *request.mutable_id() = NextId();
    request.set_parent(parent);
    request.set_name(std::move(name));
    return Await(meta_->names().Rmdir(std::move(request))).status();
  }
  absl::Status Link(uint64_t inode, uint64_t parent, std::string name) {
    wire::LinkRequest request;
    *request.mutable_id() = NextId();
    request.set_inode(inode);
    request.set_parent(parent);
    request.set_name(std::move(name));
    return Await(meta_->names().Link(std::move(request))).status();
  }
  absl::Status Rename(uint64_t from, std::string from_name, uint64_t to,
                      std::string to_name, bool no_replace = false) {
    wire::RenameRequest request;
    *request.mutable_id() = NextId();
    request.set_from_parent(from);
    request.set_from_name(std::move(from_name));
    request.set_to_parent(to);
    request.set_to_name(std::move(to_name));
    request.set_no_replace(no_replace);
    return Await(meta_->names().Rename(std::move(request))).status();
  }
  absl::StatusOr<wire::Attributes> Lookup(uint64_t parent, std::string name) {
    wire::LookupRequest request;
    request.set_parent(parent);
    request.set_name(std::move(name));
    const auto response = Await(meta_->names().Lookup(std::move(request)));
    if (!response.ok()) return response.status();
    return response->attributes();
  }
  absl::StatusOr<wire::Attributes> GetAttr(uint64_t inode) {
    wire::GetAttrRequest request;
    request.set_inode(inode);
    const auto response = Await(meta_->names().GetAttr(std::move(request)));
    if (!response.ok()) return response.status();
    return response->attributes();
  }
  absl::Status Truncate(uint64_t inode, uint64_t size) {
    wire::SetAttrRequest request;
    *request.mutable_id() = NextId();
    request.set_inode(inode);
    request.set_size(size);
    return Await(meta_->names().SetAttr(std::move(request))).status();
  }
  absl::StatusOr<std::vector<std::string>> List(uint64_t inode,
                                                uint32_t limit = 0) {
    std::vector<std::string> names;
    wire::ReadDirRequest request;
    request.set_inode(inode);
    request.set_limit(limit);
    while (true) {
      const auto page = Await(meta_->names().ReadDir(request));
      if (!page.ok()) return page.status();
      for (const auto& entry : page->entries()) names.push_back(entry.name());
      if (!page->more()) return names;
      request.set_after(names.back());
    }
  }

  std::vector<uint64_t> AllocateBlobs(uint64_t session, uint32_t count) {
    wire::AllocateBlobsRequest request;
    *request.mutable_id() = NextIdOf(session);
    request.set_pool(1);
    request.set_count(count);
    const auto response =
        Await(meta_->sessions().AllocateBlobs(std::move(request)));
    EXPECT_OK(response);
    if (!response.ok()) return std::vector<uint64_t>(count);
    return {response->blobs().begin(), response->blobs().end()};
  }
  static void AddExtent(uint64_t offset, uint64_t length, uint64_t blob,
                        uint64_t blob_offset, wire::Extent* extent) {
    extent->set_file_offset(offset);
    extent->set_length(length);
    extent->set_blob(blob);
    extent->set_blob_offset(blob_offset);
  }
  wire::CommitExtentsRequest CommitRequest(uint64_t inode) {
    wire::CommitExtentsRequest request;
    *request.mutable_id() = NextId();
    request.set_inode(inode);
    request.set_epoch(meta_->map()->epoch.value);
    return request;
  }
  absl::StatusOr<wire::CommitExtentsResponse> Commit(
      wire::CommitExtentsRequest request) {
    return Await(meta_->extents().Commit(std::move(request)));
  }
  absl::Status Write(uint64_t inode, uint64_t offset, uint64_t length,
                     uint64_t blob, uint64_t blob_offset = 0) {
    wire::CommitExtentsRequest request = CommitRequest(inode);
    AddExtent(offset, length, blob, blob_offset, request.add_extents());
    return Commit(std::move(request)).status();
  }
  absl::StatusOr<std::vector<wire::Extent>> GetExtents(uint64_t inode,
                                                       uint64_t offset,
                                                       uint64_t length,
                                                       uint32_t limit = 0) {
    std::vector<wire::Extent> extents;
    wire::GetExtentsRequest request;
    request.set_inode(inode);
    request.set_offset(offset);
    request.set_length(length);
    request.set_limit(limit);
    while (true) {
      const auto page = Await(meta_->extents().Get(request));
      if (!page.ok()) return page.status();
      extents.insert(extents.end(), page->extents().begin(),
                     page->extents().end());
      if (!page->more()) return extents;
      const uint64_t next =
          extents.back().file_offset() + extents.back().length();
      request.set_length(request.offset() + request.length() - next);
      request.set_offset(next);
    }
  }
  // Works off trash and garbage that is due.
  void RunPasses() {
    for (int i = 0; i < 3; ++i) {
      EXPECT_OK(Await(meta_->trash().Pass()));
      EXPECT_OK(Await(meta_->garbage().Pass()));
    }
  }
  // Until every grace time is over.
  void SleepAndRunPasses() {
    for (int i = 0; i < 3; ++i) {
      Sleep(2 * io::kSecond);
      RunPasses();
    }
  }
  uint64_t KeysOf(format::KeyKind kind) {
    uint64_t count = 0;
    for (const auto& [key, value] : disk_.pairs) {
      count += key[0] == static_cast<char>(kind);
    }
    return count;
  }

  sim::World world_;
  sim::NodeId node_;
  sim::SimEnv* env_ = nullptr;
  ModelKvDisk disk_;
  FakeOrders orders_;
  MetaOptions options_;
  std::unique_ptr<ModelKv> kv_;
  std::unique_ptr<MetaService> meta_;
  uint64_t session_ = 0;
  uint64_t requests_ = 0;
};

}  // namespace cairn::server
