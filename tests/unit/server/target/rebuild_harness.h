// A few targets of one row, each a process on a node of its own with the real
// store and service, and an orderer that plays the metadata service.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "format/erasure/reed_solomon.h"
#include "format/extent/stripe.h"
#include "format/wire/rebuild_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/rpc/channel.h"
#include "io/rpc/server.h"
#include "server/target/target_service.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/target/store_harness.h"

namespace cairn::server {

inline constexpr uint16_t kRowPort = 7500;

// Target 1 has shard 0 and so on; the last one is new and has none.
class RowHarness {
 public:
  RowHarness(std::string scheme, uint32_t chunk_size, uint64_t seed = 1,
             ScrubOptions scrub_options = {})
      : world(sim::WorldOptions{.seed = seed}), scrub(scrub_options) {
    pool.id = format::PoolId(1);
    pool.scheme = *format::ParseScheme(scheme);
    pool.chunk_size = chunk_size;
    for (uint32_t id = 1; id <= pool.scheme.shards() + 1; ++id) {
      Member& member = members_.emplace_back();
      member.node = world.AddNode();
      member.env = world.Start(member.node, 8);
      FormatOptions format = TestFormat(format::IndexKind::kLog);
      format.identity.target_id = format::TargetId(id);
      CAIRN_CHECK(Await(&world, FormatTarget(member.env, kDir, format)).ok());
      Open(id);
    }
    orderer_ = world.Start(world.AddNode(), 1);
  }
  ~RowHarness() {
    for (uint32_t id = 1; id <= members_.size(); ++id) {
      if (members_[id - 1].store != nullptr) Close(id);
    }
    for (auto& [id, channel] : channels_) world.Run(channel->Close());
  }

  uint32_t new_target() const { return static_cast<uint32_t>(members_.size()); }
  ChunkStore* store(uint32_t id) { return members_[id - 1].store.get(); }
  sim::SimEnv* env(uint32_t id) { return members_[id - 1].env; }

  void Open(uint32_t id) {
    Member& member = members_[id - 1];
    TargetIdentity expect = TestIdentity();
    expect.target_id = format::TargetId(id);
    auto opened = Await(&world, ChunkStore::Open(member.env, kDir, expect));
    CAIRN_CHECK(opened.ok());
    member.store = *std::move(opened);
    member.service = std::make_unique<TargetService>(member.env, scrub);
    member.service->AddStore(member.store.get());
    io::ServerOptions options;
    options.cluster_id = expect.cluster_id;
    options.server_name = "cairnd";
    options.serves_target = [id](uint32_t asked) { return asked == id; };
    member.server = io::RpcServer::Create(member.env, options);
    member.service->Register(member.server.get());
    auto listener =
        Await(&world, member.env->Listen(member.env->Address(kRowPort)));
    CAIRN_CHECK(listener.ok());
    member.server->Serve(*std::move(listener));
  }
  void Close(uint32_t id) {
    Member& member = members_[id - 1];
    world.Run(member.server->Close());
    member.server.reset();
    world.Run(member.service->Close());
    member.service.reset();
    (void)Await(&world, member.store->Close());
    member.store.reset();
  }
  // As kill -9 and a new process.
  void Kill(uint32_t id) {
    world.Kill(members_[id - 1].env);
    Close(id);
    members_[id - 1].env = world.Start(members_[id - 1].node, 8);
  }
  void Restart(uint32_t id) {
    Kill(id);
    Open(id);
  }

  // The shards of a stripe with bytes that follow from its id; empty ones have
  // no chunk.
  std::vector<std::vector<uint8_t>> ShardsOf(format::ChunkId stripe,
                                             uint64_t stripe_bytes) const {
    const uint32_t k = pool.scheme.data_shards;
    const uint64_t column = format::ShardBytes(pool, 0, stripe_bytes);
    std::vector<std::vector<uint8_t>> shards(pool.scheme.shards(),
                                             std::vector<uint8_t>(column, 0));
    for (uint32_t shard = 0; shard < k; ++shard) {
      const uint64_t bytes = format::ShardBytes(pool, shard, stripe_bytes);
      for (uint64_t i = 0; i < bytes; ++i) {
        shards[shard][i] = static_cast<uint8_t>(format::Mix64(
            stripe.blob.value + 977 * stripe.stripe + 31 * shard + i));
      }
    }
    if (pool.scheme.kind == format::SchemeKind::kReplicate) {
      for (uint32_t copy = k; copy < shards.size(); ++copy) {
        shards[copy] = shards[0];
      }
    } else {
      std::vector<const uint8_t*> data;
      std::vector<uint8_t*> parity;
      for (uint32_t shard = 0; shard < shards.size(); ++shard) {
        if (shard < k) data.push_back(shards[shard].data());
        if (shard >= k) parity.push_back(shards[shard].data());
      }
      format::ReedSolomon(k, pool.scheme.parity_shards)
          .Encode(data, parity, column);
    }
    for (uint32_t shard = 0; shard < shards.size(); ++shard) {
      shards[shard].resize(format::ShardBytes(pool, shard, stripe_bytes));
    }
    return shards;
  }

  // Puts a stripe on all targets of the row but those in `without`.
  void PutStripe(format::ChunkId stripe, uint64_t stripe_bytes,
                 std::vector<uint32_t> without = {}) {
    const auto shards = ShardsOf(stripe, stripe_bytes);
    for (uint32_t shard = 0; shard < shards.size(); ++shard) {
      const uint32_t target = shard + 1;
      if (shards[shard].empty() ||
          std::find(without.begin(), without.end(), target) != without.end()) {
        continue;
      }
      ASSERT_OK(Put(target, {stripe.blob, stripe.stripe, shard}, shards[shard],
                    stripe_bytes));
    }
  }
  absl::Status Put(uint32_t target, format::ChunkId chunk,
                   const std::vector<uint8_t>& bytes, uint64_t stripe_bytes) {
    io::Buffer buffer =
        env(target)->pool()->TryAcquire(format::AllocatedBytesOf(bytes.size()));
    CAIRN_CHECK(static_cast<bool>(buffer));
    const auto payload =
        buffer.bytes().first(format::AllocatedBytesOf(bytes.size()));
    std::fill(payload.begin(), payload.end(), uint8_t{0});
    std::copy(bytes.begin(), bytes.end(), payload.begin());
    format::BlockHasher hasher(chunk, 0, bytes.size());
    hasher.Update(format::ConstBytes(payload).first(bytes.size()));
    ChunkRecord record;
    record.chunk_bytes = bytes.size();
    record.stripe_bytes = stripe_bytes;
    record.block_checksums = hasher.Checksums();
    record.digest =
        format::ChunkDigest(chunk, bytes.size(), record.block_checksums);
    return Await(&world, store(target)->Put(kPg, chunk, std::move(record),
                                            payload, 0, Access()));
  }
  // What the target has of the chunk, verified; kNotFound...
  absl::StatusOr<std::vector<uint8_t>> ReadFrom(uint32_t target,
                                                format::ChunkId chunk) {
    const auto record = Await(&world, store(target)->Find(kPg, chunk));
    if (!record.ok()) return record.status();
    if (!record->has_value()) return absl::NotFoundError("no such chunk");
    const uint64_t size = (*record)->chunk_bytes;
    const auto bytes = Await(&world, ReadChunk(store(target), chunk, size));
    if (!bytes.ok()) return bytes.status();
    return std::vector<uint8_t>(bytes->begin(), bytes->end());
  }
  // Flips a bit in every block of everything that the target stores.
  void Corrupt(uint32_t target) {
    sim::Disk* const disk = world.disk(members_[target - 1].node);
    const auto names = disk->List(kDir);
    CAIRN_CHECK(names.ok());
    for (const std::string& name : *names) {
      if (name.rfind("slab-", 0) != 0) continue;
      const std::string path = std::string(kDir) + "/" + name;
      const auto info = disk->Stat(path);
      for (uint64_t at = 0; at < (*info)->size_bytes;
           at += format::kDiskAlignBytes) {
        CAIRN_CHECK(disk->CorruptFile(path, at).ok());
      }
    }
  }

  // "Make shard `shard`", from all other targets of the row.
  wire::RebuildShardRequest OrderFor(uint32_t shard) const {
    wire::RebuildShardRequest request;
    request.set_target(new_target());
    request.set_pool(1);
    request.set_pg(kPg);
    request.set_shard(shard);
    request.mutable_scheme()->set_kind(static_cast<uint32_t>(pool.scheme.kind));
    request.mutable_scheme()->set_data_shards(pool.scheme.data_shards);
    request.mutable_scheme()->set_parity_shards(pool.scheme.parity_shards);
    request.set_chunk_size(pool.chunk_size);
    request.set_fence_epoch(5);
    request.set_meta_sequence(100);
    for (uint32_t other = 0; other < pool.scheme.shards(); ++other) {
      if (other != shard) AddSource(other, &request);
    }
    return request;
  }
  // "Make your chunks of these stripes anew where they are not good."
  wire::RebuildShardRequest RepairFor(
      uint32_t shard, const std::vector<format::ChunkId>& stripes) {
    wire::RebuildShardRequest request = OrderFor(shard);
    request.set_target(shard + 1);
    request.set_fence_epoch(++repairs_);  // Another one with each.
    for (const format::ChunkId& stripe : stripes) {
      wire::StripeRef* const ref = request.add_repair();
      ref->set_blob(stripe.blob.value);
      ref->set_stripe(stripe.stripe);
    }
    return request;
  }
  absl::Status DeleteBlob(uint32_t target, format::BlobId blob,
                          uint64_t sequence) {
    wire::DeleteBlobsRequest request;
    request.set_target(target);
    request.add_blobs(blob.value);
    request.set_meta_sequence(sequence);
    return Call<wire::DeleteBlobsResponse>(format::Method::kDeleteBlobs,
                                           std::move(request))
        .status();
  }
  wire::TargetStatusResponse StatusOf(uint32_t target) {
    wire::TargetStatusRequest request;
    request.set_target(target);
    const auto status = Call<wire::TargetStatusResponse>(
        format::Method::kTargetStatus, std::move(request));
    EXPECT_OK(status);
    return status.ok() ? *status : wire::TargetStatusResponse();
  }
  void Sleep(io::TimeNs time) { world.RunUntil(world.NowNs() + time); }
  void AddSource(uint32_t shard, wire::RebuildShardRequest* request) const {
    wire::RebuildSource* const source = request->add_sources();
    source->set_target(shard + 1);
    source->set_shard(shard);
    source->set_address(sim::World::Address(members_[shard].node, kRowPort));
  }
  wire::DropGroupRequest DropFor(std::vector<uint32_t> row,
                                 uint64_t sequence = 100) const {
    wire::DropGroupRequest request;
    request.set_target(new_target());
    request.set_pool(1);
    request.set_pg(kPg);
    request.set_epoch(6);
    for (const uint32_t target : row) request.add_row(target);
    request.set_meta_sequence(sequence);
    return request;
  }

  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(format::Method method, Request request,
                                uint32_t role = 1) {
    std::unique_ptr<io::Channel>& channel = channels_[{request.target(), role}];
    if (channel == nullptr) {
      io::ChannelOptions options;
      options.address =
          sim::World::Address(members_[request.target() - 1].node, kRowPort);
      options.role = role;
      options.client_name = "metadata";
      channel = io::Channel::Create(orderer_, std::move(options));
    }
    io::CallOptions call;
    call.deadline = world.NowNs() + 60 * io::kSecond;
    return Await(&world, io::CallProto<Response>(channel.get(), method,
                                                 std::move(request), call));
  }
  absl::StatusOr<wire::RebuildShardResponse> Order(
      wire::RebuildShardRequest request) {
    return Call<wire::RebuildShardResponse>(format::Method::kRebuildShard,
                                            std::move(request));
  }
  absl::StatusOr<wire::DropGroupResponse> Drop(wire::DropGroupRequest request) {
    return Call<wire::DropGroupResponse>(format::Method::kDropGroup,
                                         std::move(request));
  }
  // Orders until it is over; a lost connection is no answer.
  wire::RebuildShardResponse OrderToTheEnd(
      const wire::RebuildShardRequest& request) {
    for (int i = 0; i < 1000; ++i) {
      const auto answer = Order(request);
      if (answer.ok() && answer->state() != static_cast<uint32_t>(
                                                format::RebuildState::kRunning))
        return *answer;
      world.RunUntil(world.NowNs() + 50 * io::kMillisecond);
    }
    ADD_FAILURE() << "the rebuild does not end";
    return wire::RebuildShardResponse();
  }

  static constexpr char kDir[] = "/t";
  sim::World world;
  const ScrubOptions scrub;  // Of all stores that are opened.
  format::Pool pool;

 private:
  struct Member {
    sim::NodeId node;
    sim::SimEnv* env = nullptr;
    std::unique_ptr<ChunkStore> store;
    std::unique_ptr<TargetService> service;
    std::unique_ptr<io::RpcServer> server;
  };
  std::deque<Member> members_;
  sim::SimEnv* orderer_ = nullptr;
  uint64_t repairs_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<io::Channel>>
      channels_;
};

inline constexpr auto kRebuildDone =
    static_cast<uint32_t>(format::RebuildState::kDone);
inline constexpr auto kRebuildFailed =
    static_cast<uint32_t>(format::RebuildState::kFailed);

}  // namespace cairn::server
