#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

using Code = absl::StatusCode;

class SessionsTest : public MetaTest {
 protected:
  absl::Status Renew(uint64_t session) {
    wire::RenewSessionRequest request;
    request.set_session(session);
    return Await(meta_->sessions().Renew(request)).status();
  }
};

TEST_F(SessionsTest, RepeatedOpenGivesTheSameSession) {
  const uint64_t first = OpenSession("a", 7);
  EXPECT_EQ(OpenSession("a", 7), first);
  EXPECT_NE(OpenSession("a", 8), first);
  EXPECT_NE(OpenSession("b", 7), first);
  Restart();
  EXPECT_EQ(OpenSession("a", 7), first);
}

TEST_F(SessionsTest, TwinOpensInFlightMakeOneSession) {
  wire::OpenSessionRequest request;
  request.set_client("twin");
  request.set_nonce(1);
  std::optional<absl::StatusOr<wire::OpenSessionResponse>> first;
  std::optional<absl::StatusOr<wire::OpenSessionResponse>> second;
  io::Gate gate(env_);
  gate.Spawn(StoreResult(meta_->sessions().Open(request), &first));
  gate.Spawn(StoreResult(meta_->sessions().Open(request), &second));
  world_.Run(gate.Close());
  ASSERT_OK(*first);
  ASSERT_OK(*second);
  EXPECT_EQ((*first)->session(), (*second)->session());
}

TEST_F(SessionsTest, OpenThatMeetsAConflictIsTriedAgain) {
  kv_->InjectFault(kv_->commits() + 1, ModelKvFault::kAbort);
  EXPECT_NE(OpenSession("other", 1), 0u);
}

TEST_F(SessionsTest, SessionOfAnOpenOfUnknownOutcomeDoesNotStayForEver) {
  meta_->Start();
  wire::OpenSessionRequest request;
  request.set_client("unlucky");
  request.set_nonce(1);
  kv_->InjectFault(kv_->commits() + 1, ModelKvFault::kUnknownApplied);
  EXPECT_THAT(Await(meta_->sessions().Open(request)),
              StatusIs(Code::kUnavailable, ""));
  EXPECT_EQ(KeysOf(format::KeyKind::kSession), 2u);
  Sleep(5 * io::kSecond);
  EXPECT_EQ(KeysOf(format::KeyKind::kSession), 1u);
  EXPECT_OK(Renew(session_));
}

TEST_F(SessionsTest, SessionThatDoesNotRenewIsFenced) {
  meta_->Start();
  Sleep(20 * io::kSecond);
  EXPECT_OK(Renew(session_));
  Sleep(20 * io::kSecond);
  EXPECT_OK(Renew(session_));
  Sleep(32 * io::kSecond);
  EXPECT_THAT(Renew(session_), StatusIs(Code::kAborted, "lost"));
  EXPECT_THAT(Create(kRoot, "f"), StatusIs(Code::kAborted, "lost"));
  EXPECT_EQ(KeysOf(format::KeyKind::kSession), 0u);
}

TEST_F(SessionsTest, MutationsRenewTheLease) {
  meta_->Start();
  for (int i = 0; i < 6; ++i) {
    Sleep(20 * io::kSecond);
    EXPECT_OK(Create(kRoot, absl::StrCat("f", i)));
  }
}

TEST_F(SessionsTest, RestartGivesAWholeLease) {
  meta_->Start();
  Sleep(25 * io::kSecond);
  Restart();
  meta_->Start();
  Sleep(25 * io::kSecond);
  EXPECT_OK(Renew(session_));
}

TEST_F(SessionsTest, ClosedSessionLeavesNothingBehind) {
  const uint64_t session = OpenSession("short", 1);
  AllocateBlobs(session, 48);
  AllocateBlobs(session, 48);
  ASSERT_OK(CloseSession(session));
  ASSERT_OK(CloseSession(session));
  Sleep(io::kSecond);
  EXPECT_THAT(Renew(session), StatusIs(Code::kAborted, "lost"));
  EXPECT_EQ(KeysOf(format::KeyKind::kOwnedBlob), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kResult), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kSession), 1u);
  SleepAndRunPasses();
  EXPECT_EQ(KeysOf(format::KeyKind::kBlob), 0u);
  EXPECT_EQ(orders_.deleted.size(), 96u);
}

TEST_F(SessionsTest, ReclaimingGoesOnAfterARestart) {
  const uint64_t session = OpenSession("short", 1);
  AllocateBlobs(session, 48);
  AllocateBlobs(session, 48);
  // The fence is durable, and the power fails soon after.
  wire::CloseSessionRequest request;
  request.set_session(session);
  ASSERT_OK(Await(meta_->sessions().Close(request)));
  Restart();
  EXPECT_THAT(Renew(session), StatusIs(Code::kAborted, "lost"));
  meta_->Start();
  Sleep(10 * io::kSecond);
  EXPECT_EQ(KeysOf(format::KeyKind::kOwnedBlob), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kBlob), 0u);
}

TEST_F(SessionsTest, FenceStopsAMutationThatIsUnderWay) {
  const uint64_t session = OpenSession("slow", 1);
  wire::CreateRequest request = CreateRequest(kRoot, "f");
  *request.mutable_id() = NextIdOf(session);
  wire::CloseSessionRequest close;
  close.set_session(session);
  // Whichever commits first, a file exists exactly if its maker was told so.
  std::optional<absl::StatusOr<wire::CreateResponse>> created;
  std::optional<absl::StatusOr<wire::CloseSessionResponse>> closed;
  io::Gate gate(env_);
  gate.Spawn(StoreResult(meta_->sessions().Close(close), &closed));
  gate.Spawn(StoreResult(meta_->names().Create(request), &created));
  world_.Run(gate.Close());
  EXPECT_OK(*closed);
  EXPECT_EQ(Lookup(kRoot, "f").ok(), created->ok());
  if (!created->ok()) {
    EXPECT_THAT(*created, StatusIs(Code::kAborted, "lost"));
  }
}

TEST_F(SessionsTest, BlobsAreNeverGivenTwice) {
  std::set<uint64_t> seen;
  for (int i = 0; i < 5; ++i) {
    for (const uint64_t blob : AllocateBlobs(session_, 48)) {
      EXPECT_TRUE(seen.insert(blob).second);
      EXPECT_EQ(format::BlobId(blob).pool(), format::PoolId(1));
    }
    Restart();
  }
}

TEST_F(SessionsTest, ImpossibleAllocationsAreRefused) {
  wire::AllocateBlobsRequest request;
  *request.mutable_id() = NextId();
  request.set_pool(9);
  request.set_count(1);
  EXPECT_THAT(Await(meta_->sessions().AllocateBlobs(request)),
              StatusIs(Code::kInvalidArgument, "pool 9"));
  *request.mutable_id() = NextId();
  request.set_pool(1);
  request.set_count(kBlobsPerAllocationMax + 1);
  EXPECT_THAT(Await(meta_->sessions().AllocateBlobs(request)),
              StatusIs(Code::kInvalidArgument, "blobs"));
}

}  // namespace
}  // namespace cairn::server
