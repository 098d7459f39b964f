// The target's RPCs from a client's side, over the simulated network.
#include "server/target/target_service.h"

#include <algorithm>

#include "format/target/chunk_record.h"
#include "format/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/rpc/channel.h"
#include "io/rpc/server.h"
#include "server/target/limits.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/target/store_harness.h"

namespace cairn::server {
namespace {

using ::cairn::testing::StatusIs;
using format::kKiB;
using format::kMiB;
using format::Method;

constexpr uint16_t kPort = 7400;

// Sends a chunk with its checksums, or with a wrong one.
class ChunkSource final : public io::PayloadSource {
 public:
  ChunkSource(const TestChunk* chunk, bool corrupt)
      : bytes_(chunk->bytes()), checksums_(chunk->record.block_checksums) {
    if (corrupt) checksums_.back() ^= 1;
    trailer_.resize(trailer_bytes());
    format::FillTrailer(trailer_, absl::StatusCode::kOk, checksums_);
  }
  uint64_t size_bytes() const override { return bytes_.size(); }
  uint32_t trailer_bytes() const override {
    return format::TrailerBytes(static_cast<uint32_t>(checksums_.size()));
  }
  std::span<const format::ConstBytes> Next() override {
    piece_ = bytes_.subspan(
        given_, std::min<uint64_t>(100'000, bytes_.size() - given_));
    given_ += piece_.size();
    return {&piece_, 1};
  }
  format::ConstBytes Trailer() override { return trailer_; }

 private:
  const format::ConstBytes bytes_;
  std::vector<uint64_t> checksums_;
  std::vector<uint8_t> trailer_;
  format::ConstBytes piece_;
  uint64_t given_ = 0;
};

// Takes a range and holds it against its trailer, as a client does.
class RangeSink final : public io::PayloadSink {
 public:
  RangeSink(format::ChunkId chunk, uint64_t offset, uint64_t length)
      : hasher_(chunk, offset, length), bytes(length, '\0') {}
  absl::Status Begin(uint64_t payload_bytes, uint32_t /*trailer_bytes*/,
                     std::string_view /*body*/) override {
    if (payload_bytes == bytes.size()) return absl::OkStatus();
    return absl::InternalError("not the length that was asked for");
  }
  std::span<const format::MutableBytes> Next(uint64_t remaining) override {
    auto* const start = reinterpret_cast<uint8_t*>(bytes.data());
    piece_ = {start + (bytes.size() - remaining), remaining};
    return {&piece_, 1};
  }
  void Arrived() override { hasher_.Update(piece_); }
  absl::Status Finish(format::ConstBytes trailer) override {
    const std::vector<uint64_t>& sums = hasher_.Checksums();
    if (format::TrailerChecksumCount(trailer) != sums.size()) {
      return absl::InternalError("wrong count of checksums");
    }
    for (uint32_t i = 0; i < sums.size(); ++i) {
      if (format::TrailerChecksum(trailer, i) != sums[i]) {
        return absl::DataLossError("checksum differs");
      }
    }
    return absl::OkStatus();
  }

 private:
  format::BlockHasher hasher_;
  format::MutableBytes piece_;

 public:
  std::string bytes;
};

wire::ChunkRef ToRef(format::ChunkId id) {
  wire::ChunkRef ref;
  ref.set_blob(id.blob.value);
  ref.set_stripe(id.stripe);
  ref.set_shard(id.shard);
  return ref;
}

wire::PutChunkRequest PutRequest(format::ChunkId id) {
  wire::PutChunkRequest request;
  request.set_target(3);
  *request.mutable_chunk() = ToRef(id);
  request.set_pg(kPg);
  request.set_stripe_bytes(1000);
  return request;
}

class TargetServiceTest : public ::testing::Test {
 protected:
  explicit TargetServiceTest(uint32_t large_buffers = 16)
      : target_(Options(large_buffers)), service_(target_.env) {
    CAIRN_CHECK(target_.Format().ok());
    CAIRN_CHECK(target_.Open().ok());
    service_.AddStore(target_.store.get());
    io::ServerOptions options;
    options.cluster_id = TestIdentity().cluster_id;
    options.server_name = "cairnd";
    options.serves_target = [this](uint32_t id) { return service_.Serves(id); };
    server_ = io::RpcServer::Create(target_.env, options);
    service_.Register(server_.get());
    auto listener =
        Await(&target_.world, target_.env->Listen(target_.env->Address(kPort)));
    CAIRN_CHECK(listener.ok());
    server_->Serve(*std::move(listener));
    client_env_ = target_.world.Start(target_.world.AddNode());
    channel_ = MakeChannel(0);
  }
  ~TargetServiceTest() override {
    target_.world.Run(channel_->Close());
    target_.world.Run(server_->Close());
  }

  static sim::WorldOptions Options(uint32_t large_buffers) {
    sim::WorldOptions options;
    options.pool_large_buffers = large_buffers;
    return options;
  }
  std::unique_ptr<io::Channel> MakeChannel(uint32_t role) {
    io::ChannelOptions options;
    options.address = target_.env->Address(kPort);
    options.cluster_id = TestIdentity().cluster_id;
    options.expect_target = 3;
    options.role = role;
    return io::Channel::Create(client_env_, options);
  }

  absl::StatusOr<wire::PutChunkResponse> Put(const TestChunk& chunk,
                                             wire::PutChunkRequest request,
                                             bool corrupt = false) {
    ChunkSource source(&chunk, corrupt);
    io::CallOptions options;
    options.source = &source;
    return Await(&target_.world,
                 io::CallProto<wire::PutChunkResponse>(
                     channel_.get(), Method::kPutChunk, request, options));
  }
  absl::StatusOr<wire::GetChunkResponse> Get(format::ChunkId id,
                                             uint64_t offset, uint64_t length,
                                             io::PayloadSink* sink) {
    wire::GetChunkRequest request;
    request.set_target(3);
    *request.mutable_chunk() = ToRef(id);
    request.set_pg(kPg);
    request.set_offset(offset);
    request.set_length(length);
    io::CallOptions options;
    options.sink = sink;
    return Await(&target_.world,
                 io::CallProto<wire::GetChunkResponse>(
                     channel_.get(), Method::kGetChunk, request, options));
  }
  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(io::Channel* channel, Method method,
                                Request request) {
    return Await(&target_.world,
                 io::CallProto<Response>(channel, method, std::move(request),
                                         io::CallOptions()));
  }

  SimTarget target_;
  TargetService service_;
  std::unique_ptr<io::RpcServer> server_;
  sim::SimEnv* client_env_ = nullptr;
  std::unique_ptr<io::Channel> channel_;
};

TEST_F(TargetServiceTest, PutChunkComesBackByteForByte) {
  for (const uint64_t size : {uint64_t{1}, uint64_t{65537}, 4 * kMiB}) {
    SCOPED_TRACE(size);
    const TestChunk chunk(MakeChunkId(size), size);
    const auto put = Put(chunk, PutRequest(chunk.id));
    ASSERT_OK(put);
    EXPECT_EQ(put->digest(), chunk.record.digest);
    RangeSink sink(chunk.id, 0, size);
    const auto got = Get(chunk.id, 0, size, &sink);
    ASSERT_OK(got);
    EXPECT_EQ(got->chunk_bytes(), size);
    EXPECT_EQ(got->stripe_bytes(), 1000u);
    EXPECT_EQ(got->digest(), chunk.record.digest);
    EXPECT_TRUE(sink.bytes == format::AsText(chunk.bytes()));
  }
}

TEST_F(TargetServiceTest, RangeComesWithChecksumsOfExactlyWhatIsSent) {
  const TestChunk chunk(MakeChunkId(1), 300'001);
  ASSERT_OK(Put(chunk, PutRequest(chunk.id)));
  const std::vector<std::pair<uint64_t, uint64_t>> ranges = {
      {0, 1},           {65535, 2},        {100, 200'000},
      {65536, 65536},   {262144, 37'857},  {300'000, 1},
      {65536, 234'465}, {131071, 131'074}, {5, 65531}};
  for (const auto& [offset, length] : ranges) {
    SCOPED_TRACE(absl::StrCat(length, " at ", offset));
    RangeSink sink(chunk.id, offset, length);
    ASSERT_OK(Get(chunk.id, offset, length, &sink));
    EXPECT_TRUE(sink.bytes ==
                format::AsText(chunk.bytes().subspan(offset, length)));
  }
}

TEST_F(TargetServiceTest, PayloadDamagedOnItsWayIsRefusedAndNothingIsStored) {
  const TestChunk chunk(MakeChunkId(1), 200 * kKiB);
  EXPECT_THAT(Put(chunk, PutRequest(chunk.id), true),
              StatusIs(absl::StatusCode::kDataLoss, "block 3 was damaged"));
  EXPECT_EQ(target_.store->stats().chunks, 0u);
  EXPECT_EQ(target_.store->stats().used_bytes, 0u);
  EXPECT_OK(Put(chunk, PutRequest(chunk.id)));
}

TEST_F(TargetServiceTest, PutOfOtherBytesUnderAStoredIdIsRefused) {
  const TestChunk chunk(MakeChunkId(1), 10 * kKiB);
  const TestChunk other(MakeChunkId(1), 10 * kKiB, 1);
  ASSERT_OK(Put(chunk, PutRequest(chunk.id)));
  EXPECT_OK(Put(chunk, PutRequest(chunk.id)));
  EXPECT_THAT(Put(other, PutRequest(other.id)),
              StatusIs(absl::StatusCode::kAlreadyExists, "1:1/0/0"));
}

TEST_F(TargetServiceTest, RequestsForChunksThatCannotBeAreRefused) {
  const TestChunk chunk(MakeChunkId(1), 1000);
  const auto refused = [&](auto change) {
    wire::PutChunkRequest request = PutRequest(chunk.id);
    change(&request);
    return Put(chunk, request).status();
  };
  using Request = wire::PutChunkRequest;
  const auto invalid = StatusIs(absl::StatusCode::kInvalidArgument, "");
  EXPECT_THAT(refused([](Request* r) { r->set_pg(1u << 31); }), invalid);
  EXPECT_THAT(refused([](Request* r) { r->mutable_chunk()->set_shard(40); }),
              invalid);
  EXPECT_THAT(refused([](Request* r) { r->mutable_chunk()->set_blob(0); }),
              invalid);
  EXPECT_THAT(refused([](Request* r) { r->mutable_chunk()->set_blob(7); }),
              invalid);
  EXPECT_THAT(
      refused([](Request* r) { r->mutable_chunk()->set_stripe(1u << 31); }),
      invalid);
  EXPECT_THAT(refused([](Request* r) { r->set_stripe_bytes(~0ull); }), invalid);
  EXPECT_THAT(refused([](Request* r) { r->set_target(4); }),
              StatusIs(absl::StatusCode::kFailedPrecondition, "cluster map"));
  EXPECT_OK(refused([](Request*) {}));  // The connection still works.
}

TEST_F(TargetServiceTest, PutWithoutPayloadIsRefused) {
  EXPECT_THAT(Call<wire::PutChunkResponse>(channel_.get(), Method::kPutChunk,
                                           PutRequest(MakeChunkId(1))),
              StatusIs(absl::StatusCode::kInvalidArgument, "0 bytes"));
}

TEST_F(TargetServiceTest, GetOfLengthZeroGivesTheRecordOnly) {
  const TestChunk chunk(MakeChunkId(1), 5000);
  ASSERT_OK(Put(chunk, PutRequest(chunk.id)));
  const auto record = Get(chunk.id, 0, 0, nullptr);
  ASSERT_OK(record);
  EXPECT_EQ(record->chunk_bytes(), 5000u);
  EXPECT_EQ(record->digest(), chunk.record.digest);
  EXPECT_THAT(Get(MakeChunkId(2), 0, 0, nullptr),
              StatusIs(absl::StatusCode::kNotFound, "1:2/0/0"));
}

TEST_F(TargetServiceTest, GetOfWhatIsNotThereOrDamagedSaysWhich) {
  const TestChunk chunk(MakeChunkId(1), 5000);
  ASSERT_OK(Put(chunk, PutRequest(chunk.id)));
  RangeSink sink(chunk.id, 0, 5000);
  EXPECT_THAT(Get(MakeChunkId(2), 0, 5000, &sink),
              StatusIs(absl::StatusCode::kNotFound, "1:2/0/0"));
  EXPECT_THAT(Get(chunk.id, 1, 5000, &sink),
              StatusIs(absl::StatusCode::kOutOfRange, "5000"));
  EXPECT_THAT(Get(chunk.id, ~0ull, 5000, &sink),
              StatusIs(absl::StatusCode::kOutOfRange, ""));
  EXPECT_THAT(Get(chunk.id, 0, ~0ull, &sink),
              StatusIs(absl::StatusCode::kOutOfRange, ""));
  ASSERT_OK(target_.disk()->CorruptFile("/t/slab-000000", 100));
  EXPECT_THAT(Get(chunk.id, 0, 5000, &sink),
              StatusIs(absl::StatusCode::kDataLoss, "1:1/0/0"));
}

TEST_F(TargetServiceTest, OnlyTheMetadataServiceMayDelete) {
  const TestChunk chunk(MakeChunkId(1), 5000);
  ASSERT_OK(Put(chunk, PutRequest(chunk.id)));
  wire::DeleteBlobsRequest request;
  request.set_target(3);
  request.add_blobs(chunk.id.blob.value);
  EXPECT_THAT(Call<wire::DeleteBlobsResponse>(channel_.get(),
                                              Method::kDeleteBlobs, request),
              StatusIs(absl::StatusCode::kPermissionDenied, "metadata"));
  EXPECT_EQ(target_.store->stats().chunks, 1u);
  const std::unique_ptr<io::Channel> metadata = MakeChannel(1);
  const auto deleted = Call<wire::DeleteBlobsResponse>(
      metadata.get(), Method::kDeleteBlobs, request);
  EXPECT_OK(deleted);
  EXPECT_EQ(deleted->chunks(), 1u);
  EXPECT_EQ(deleted->bytes(), 5000u);
  EXPECT_EQ(target_.store->stats().chunks, 0u);
  target_.world.Run(metadata->Close());
}

TEST_F(TargetServiceTest, ListGivesAllChunksOfTheGroupPageByPage) {
  for (uint32_t stripe = 0; stripe < 5; ++stripe) {
    const TestChunk chunk(MakeChunkId(1, stripe), 100 + stripe);
    ASSERT_OK(Put(chunk, PutRequest(chunk.id)));
  }
  wire::ListChunksRequest request;
  request.set_target(3);
  request.set_pool(1);
  request.set_pg(kPg);
  request.set_limit(2);
  uint32_t next_stripe = 0;
  do {
    const auto page = Call<wire::ListChunksResponse>(
        channel_.get(), Method::kListChunks, request);
    ASSERT_OK(page);
    for (const wire::ChunkInfo& info : page->chunks()) {
      EXPECT_EQ(info.chunk().stripe(), next_stripe);
      EXPECT_EQ(info.chunk_bytes(), 100 + next_stripe);
      ++next_stripe;
    }
    request.set_after(page->next());
  } while (!request.after().empty());
  EXPECT_EQ(next_stripe, 5u);
}

TEST_F(TargetServiceTest, StatusTellsWhatTheStoreCounts) {
  const TestChunk chunk(MakeChunkId(1), 5000);
  wire::PutChunkRequest put = PutRequest(chunk.id);
  put.set_meta_sequence(77);
  ASSERT_OK(Put(chunk, put));
  wire::TargetStatusRequest request;
  request.set_target(3);
  const auto status = Call<wire::TargetStatusResponse>(
      channel_.get(), Method::kTargetStatus, request);
  ASSERT_OK(status);
  EXPECT_EQ(status->capacity_bytes(), 12 * kMiB);
  EXPECT_EQ(status->used_bytes(), 8 * kKiB);
  EXPECT_EQ(status->chunks(), 1u);
  EXPECT_EQ(status->puts(), 1u);
  EXPECT_EQ(status->put_bytes(), 5000u);
  EXPECT_EQ(status->meta_sequence(), 77u);
  EXPECT_EQ(status->boot_epoch(), 1u);
  EXPECT_EQ(status->disk_generation(), 5u);
  EXPECT_EQ(status->failed(), "");
}

TEST_F(TargetServiceTest, PingAnswers) {
  EXPECT_OK(Await(&target_.world, channel_->Call(Method::kPing, std::string(),
                                                 io::CallOptions())));
}

class ServiceWithOneBuffer : public TargetServiceTest {
 protected:
  ServiceWithOneBuffer() : TargetServiceTest(1) {}
};

io::Task<void> PutOver(io::Channel* channel, const TestChunk* chunk,
                       absl::Status* status) {
  ChunkSource source(chunk, false);
  io::CallOptions options;
  options.source = &source;
  const auto response = co_await io::CallProto<wire::PutChunkResponse>(
      channel, Method::kPutChunk, PutRequest(chunk->id), options);
  *status = response.status();
}

TEST_F(ServiceWithOneBuffer, PutsWaitForItAndAllAreStored) {
  std::vector<TestChunk> chunks;
  std::vector<std::unique_ptr<io::Channel>> channels;
  for (uint32_t stripe = 0; stripe < 6; ++stripe) {
    chunks.emplace_back(MakeChunkId(1, stripe), 1 * kMiB);
    channels.push_back(MakeChannel(0));
  }
  std::vector<absl::Status> statuses(chunks.size());
  io::Gate gate(&target_.world);
  for (size_t i = 0; i < chunks.size(); ++i) {
    gate.Spawn(PutOver(channels[i].get(), &chunks[i], &statuses[i]));
  }
  target_.world.Run(gate.Close());
  for (const absl::Status& status : statuses) EXPECT_OK(status);
  EXPECT_EQ(target_.store->stats().chunks, 6u);
  for (const auto& channel : channels) target_.world.Run(channel->Close());
}

class ServiceWithTwoBuffers : public TargetServiceTest {
 protected:
  ServiceWithTwoBuffers() : TargetServiceTest(2) {}
};

io::Task<void> GetOver(io::Channel* channel, format::ChunkId id,
                       uint64_t offset, absl::Status* status) {
  RangeSink sink(id, offset, 65536);
  wire::GetChunkRequest request;
  request.set_target(3);
  *request.mutable_chunk() = ToRef(id);
  request.set_pg(kPg);
  request.set_offset(offset);
  request.set_length(65536);
  io::CallOptions options;
  options.sink = &sink;
  const auto response = co_await io::CallProto<wire::GetChunkResponse>(
      channel, Method::kGetChunk, request, options);
  *status = response.status();
}

// Reads that have the disk's turns must not wait for the buffers of writes
// that wait for a turn.
TEST_F(ServiceWithTwoBuffers, ReadsAndWritesNeverWaitForEachOther) {
  const TestChunk stored(MakeChunkId(1), 4 * kMiB);
  ASSERT_OK(Put(stored, PutRequest(stored.id)));
  std::vector<TestChunk> chunks;
  std::vector<std::unique_ptr<io::Channel>> channels;
  io::Gate gate(&target_.world);
  constexpr uint32_t kReads = 2 * kDiskOpsInFlightMax;
  std::vector<absl::Status> statuses(kReads + 4);
  for (uint32_t i = 0; i < 4; ++i) {
    chunks.emplace_back(MakeChunkId(2, i), 1 * kMiB);
    channels.push_back(MakeChannel(0));
  }
  for (uint32_t i = 0; i < 4; ++i) {
    gate.Spawn(PutOver(channels[i].get(), &chunks[i], &statuses[kReads + i]));
  }
  for (uint32_t i = 0; i < kReads; ++i) {
    gate.Spawn(GetOver(channel_.get(), stored.id, i * 65536, &statuses[i]));
  }
  target_.world.Run(gate.Close());
  for (const absl::Status& status : statuses) EXPECT_OK(status);
  for (const auto& channel : channels) target_.world.Run(channel->Close());
}

}  // namespace
}  // namespace cairn::server
