// The service over RPC, on the simulated network; and its orders to targets.
#include "io/rpc/channel.h"
#include "server/cluster/target_client.h"
#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

using Code = absl::StatusCode;

class MetaRpcTest : public MetaTest {
 protected:
  MetaRpcTest() {
    io::ServerOptions options;
    options.cluster_id = TestMap().cluster_id;
    options.server_name = "cairnd/1";
    server_ = io::RpcServer::Create(env_, options);
    meta_->Register(server_.get());
    Await(Serve(server_.get(), env_, env_->Address(7400)));
    client_env_ = world_.Start(world_.AddNode());
    io::ChannelOptions channel;
    channel.address = env_->Address(7400);
    channel.cluster_id = options.cluster_id;
    channel.server_name = "metadata";
    channel_ = io::Channel::Create(client_env_, channel);
  }
  ~MetaRpcTest() override {
    world_.Run(channel_->Close());
    world_.Run(server_->Close());
  }
  static io::Task<bool> Serve(io::RpcServer* server, io::Env* env,
                              std::string address) {
    absl::StatusOr<std::unique_ptr<io::Listener>> listener =
        co_await env->Listen(std::move(address));
    EXPECT_OK(listener);
    if (listener.ok()) server->Serve(*std::move(listener));
    co_return listener.ok();
  }
  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(format::Method method, Request request) {
    return Await(io::CallProto<Response>(channel_.get(), method,
                                         std::move(request), {}));
  }

  std::unique_ptr<io::RpcServer> server_;
  sim::SimEnv* client_env_ = nullptr;
  std::unique_ptr<io::Channel> channel_;
};

TEST_F(MetaRpcTest, ASessionCreatesWritesAndReadsOverTheNetwork) {
  wire::OpenSessionRequest open;
  open.set_client("remote");
  open.set_nonce(3);
  const auto session =
      Call<wire::OpenSessionResponse>(format::Method::kOpenSession, open);
  ASSERT_OK(session);
  session_ = session->session();
  const auto made = Call<wire::CreateResponse>(format::Method::kCreate,
                                               CreateRequest(kRoot, "f"));
  ASSERT_OK(made);
  const uint64_t inode = made->attributes().inode();
  wire::AllocateBlobsRequest allocate;
  *allocate.mutable_id() = NextId();
  allocate.set_pool(1);
  allocate.set_count(1);
  const auto blobs = Call<wire::AllocateBlobsResponse>(
      format::Method::kAllocateBlobs, allocate);
  ASSERT_OK(blobs);
  wire::CommitExtentsRequest commit = CommitRequest(inode);
  AddExtent(0, 10, blobs->blobs(0), 0, commit.add_extents());
  const auto committed =
      Call<wire::CommitExtentsResponse>(format::Method::kCommitExtents, commit);
  ASSERT_OK(committed);
  EXPECT_EQ(committed->attributes().size(), 10u);
  EXPECT_EQ(committed->sequence(), kv_->durable_sequence());
  wire::GetExtentsRequest get;
  get.set_inode(inode);
  get.set_length(100);
  EXPECT_EQ(Call<wire::GetExtentsResponse>(format::Method::kGetExtents, get)
                ->extents_size(),
            1);
}

TEST_F(MetaRpcTest, ErrorsCrossTheNetworkWithCodeAndMessage) {
  wire::LookupRequest request;
  request.set_parent(kRoot);
  request.set_name("absent");
  EXPECT_THAT(Call<wire::LookupResponse>(format::Method::kLookup, request),
              StatusIs(Code::kNotFound, "absent"));
}

TEST_F(MetaRpcTest, BytesThatAreNoRequestAreRefused) {
  const auto answer = Await(
      channel_->Call(format::Method::kLookup, std::string("\xff\xff"), {}));
  EXPECT_THAT(answer, StatusIs(Code::kInvalidArgument, "parse"));
}

TEST_F(MetaRpcTest, MapIsSentOnlyToThoseWhoDoNotHaveIt) {
  wire::GetMapRequest request;
  const auto first =
      Call<wire::GetMapResponse>(format::Method::kGetMap, request);
  ASSERT_OK(first);
  EXPECT_EQ(first->map().targets_size(), 3);
  request.set_known_epoch(first->epoch());
  EXPECT_FALSE(
      Call<wire::GetMapResponse>(format::Method::kGetMap, request)->has_map());
}

class MetaStatusTest : public MetaTest {};

TEST_F(MetaStatusTest, StatusNamesTheTargetsThatDoNotAnswer) {
  orders_.failing.insert(format::TargetId(2));
  const auto status = Await(meta_->ClusterStatus(wire::ClusterStatusRequest()));
  ASSERT_OK(status);
  ASSERT_EQ(status->target_errors_size(), 3);
  EXPECT_EQ(status->target_errors(0), "");
  EXPECT_EQ(status->target_errors(1), "target is down");
}

TEST_F(MetaStatusTest, OldCopyOfTheStoreIsRecognisedByTheTargetsMark) {
  EXPECT_OK(Await(meta_->CheckHighWaterMarks()));
  orders_.mark = kv_->sequence() + 1;
  EXPECT_THAT(Await(meta_->CheckHighWaterMarks()),
              StatusIs(Code::kFailedPrecondition, "old copy"));
}

TEST_F(MetaStatusTest, StoreIsInitialisedOnce) {
  EXPECT_THAT(Await(MetaService::Bootstrap(env_, kv_.get(), TestMap())),
              StatusIs(Code::kAlreadyExists, "initialised"));
}

TEST_F(MetaStatusTest, EmptyStoreIsNotServed) {
  ModelKvDisk empty;
  ModelKv kv(env_, &empty);
  EXPECT_THAT(Await(MetaService::Open(env_, &kv, &orders_, options_)),
              StatusIs(Code::kFailedPrecondition, "init"));
  EXPECT_OK(Await(kv.Close()));
}

// A target that answers what it is told to.
class TargetClientTest : public ::testing::Test {
 protected:
  TargetClientTest() : world_({.seed = 1}) {
    target_env_ = world_.Start(world_.AddNode());
    env_ = world_.Start(world_.AddNode());
    io::ServerOptions options;
    options.cluster_id = TestMap().cluster_id;
    options.serves_target = [](uint32_t target) { return target == 5; };
    server_ = io::RpcServer::Create(target_env_, options);
    server_->Handle(format::Method::kDeleteBlobs, [this](io::ServerCall* call) {
      return Answer(this, call);
    });
    std::optional<bool> serving;
    world_.Run(StoreResult(Listen(server_.get(), target_env_), &serving));
    TargetClientOptions client;
    client.cluster_id = options.cluster_id;
    client_ = std::make_unique<TargetClient>(env_, client);
  }
  ~TargetClientTest() override {
    world_.Run(client_->Close());
    world_.Run(server_->Close());
  }
  static io::Task<bool> Listen(io::RpcServer* server, sim::SimEnv* env) {
    absl::StatusOr<std::unique_ptr<io::Listener>> listener =
        co_await env->Listen(env->Address(40001));
    EXPECT_OK(listener);
    if (listener.ok()) server->Serve(*std::move(listener));
    co_return listener.ok();
  }
  static io::Task<void> Answer(TargetClientTest* test, io::ServerCall* call) {
    const std::string_view body = call->body();
    EXPECT_TRUE(test->request_.ParseFromArray(body.data(),
                                              static_cast<int>(body.size())));
    test->role_ = call->role();
    std::string answer = wire::DeleteBlobsResponse().SerializeAsString();
    co_await call->Reply(std::move(answer));
  }
  absl::Status Delete(uint32_t target) {
    std::optional<absl::Status> status;
    std::vector<format::BlobId> blobs{format::BlobId(7), format::BlobId(8)};
    world_.Run(StoreResult(
        client_->DeleteBlobs(format::TargetId(target), blobs, 99), &status));
    return *status;
  }

  sim::World world_;
  sim::SimEnv* target_env_ = nullptr;
  sim::SimEnv* env_ = nullptr;
  std::unique_ptr<io::RpcServer> server_;
  std::unique_ptr<TargetClient> client_;
  wire::DeleteBlobsRequest request_;
  uint32_t role_ = 0;
};

TEST_F(TargetClientTest, OrderReachesTheTargetInTheMetadataRole) {
  client_->SetAddress(format::TargetId(5), target_env_->Address(40001));
  ASSERT_OK(Delete(5));
  EXPECT_EQ(request_.target(), 5u);
  EXPECT_EQ(request_.meta_sequence(), 99u);
  EXPECT_EQ(request_.blobs_size(), 2);
  EXPECT_EQ(role_, 1u);
}

TEST_F(TargetClientTest, TargetWithoutAddressIsUnavailable) {
  EXPECT_THAT(Delete(6), StatusIs(Code::kUnavailable, "target 6"));
}

TEST_F(TargetClientTest, NewAddressReplacesAWrongOne) {
  client_->SetAddress(format::TargetId(5), target_env_->Address(1));
  EXPECT_FALSE(Delete(5).ok());
  client_->SetAddress(format::TargetId(5), target_env_->Address(40001));
  EXPECT_OK(Delete(5));
}

}  // namespace
}  // namespace cairn::server
