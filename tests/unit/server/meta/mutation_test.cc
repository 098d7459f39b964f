// Mutations take effect at most once, whatever is lost or repeated.
#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

using Code = absl::StatusCode;

class MutationTest : public MetaTest {
 protected:
  absl::StatusOr<wire::CreateResponse> Send(wire::CreateRequest request) {
    return Await(meta_->names().Create(std::move(request)));
  }
};

TEST_F(MutationTest, RepeatGetsTheFirstAnswer) {
  const wire::CreateRequest request = CreateRequest(kRoot, "f");
  const auto first = Send(request);
  const auto second = Send(request);
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_EQ(first->SerializeAsString(), second->SerializeAsString());
  // Also when the world has moved on.
  ASSERT_OK(Rename(kRoot, "f", kRoot, "g"));
  EXPECT_EQ(Send(request)->SerializeAsString(), first->SerializeAsString());
  EXPECT_THAT(Lookup(kRoot, "f"), StatusIs(Code::kNotFound, ""));
}

TEST_F(MutationTest, RepeatAfterARestartGetsTheFirstAnswer) {
  const wire::CreateRequest request = CreateRequest(kRoot, "f");
  const auto first = Send(request);
  Restart();
  const auto second = Send(request);
  ASSERT_OK(second);
  EXPECT_EQ(first->SerializeAsString(), second->SerializeAsString());
}

TEST_F(MutationTest, TwinsInFlightHaveOneEffect) {
  const wire::CreateRequest request = CreateRequest(kRoot, "f");
  std::vector<std::optional<absl::StatusOr<wire::CreateResponse>>> answers(5);
  io::Gate gate(env_);
  for (auto& answer : answers) {
    gate.Spawn(StoreResult(meta_->names().Create(request), &answer));
  }
  world_.Run(gate.Close());
  for (const auto& answer : answers) {
    ASSERT_OK(*answer);
    EXPECT_EQ((*answer)->attributes().inode(),
              (*answers[0])->attributes().inode());
  }
  EXPECT_EQ(List(kRoot)->size(), 1u);
}

TEST_F(MutationTest, UnknownOutcomeIsResolvedByTheStoredAnswer) {
  MakeFile(kRoot, "warm");
  for (const ModelKvFault fault :
       {ModelKvFault::kUnknownApplied, ModelKvFault::kUnknownLost,
        ModelKvFault::kAbort}) {
    const std::string name = absl::StrCat("f", static_cast<int>(fault));
    kv_->InjectFault(kv_->commits() + 1, fault);
    const auto answer = Send(CreateRequest(kRoot, name));
    ASSERT_OK(answer);
    EXPECT_EQ(Lookup(kRoot, name)->inode(), answer->attributes().inode());
  }
  EXPECT_EQ(List(kRoot)->size(), 4u);
}

TEST_F(MutationTest, EveryKindOfMutationMayBeSentTwice) {
  const uint64_t directory = MakeDir(kRoot, "d");
  const uint64_t file = MakeFile(kRoot, "f");
  const uint64_t blob = AllocateBlobs(session_, 1)[0];

  wire::LinkRequest link;
  *link.mutable_id() = NextId();
  link.set_inode(file);
  link.set_parent(directory);
  link.set_name("l");
  EXPECT_OK(Await(meta_->names().Link(link)));
  EXPECT_OK(Await(meta_->names().Link(link)));
  EXPECT_EQ(GetAttr(file)->nlink(), 2u);

  wire::CommitExtentsRequest append = CommitRequest(file);
  append.set_append(true);
  AddExtent(0, 100, blob, 0, append.add_extents());
  EXPECT_EQ(Commit(append)->appended_at(), 0u);
  EXPECT_EQ(Commit(append)->appended_at(), 0u);
  EXPECT_EQ(GetAttr(file)->size(), 100u);

  wire::RenameRequest rename;
  *rename.mutable_id() = NextId();
  rename.set_from_parent(kRoot);
  rename.set_from_name("f");
  rename.set_to_parent(kRoot);
  rename.set_to_name("g");
  EXPECT_OK(Await(meta_->names().Rename(rename)));
  EXPECT_OK(Await(meta_->names().Rename(rename)));

  wire::UnlinkRequest unlink;
  *unlink.mutable_id() = NextId();
  unlink.set_parent(directory);
  unlink.set_name("l");
  EXPECT_OK(Await(meta_->names().Unlink(unlink)));
  EXPECT_OK(Await(meta_->names().Unlink(unlink)));
  EXPECT_EQ(GetAttr(file)->nlink(), 1u);

  wire::RmdirRequest rmdir;
  *rmdir.mutable_id() = NextId();
  rmdir.set_parent(kRoot);
  rmdir.set_name("d");
  EXPECT_OK(Await(meta_->names().Rmdir(rmdir)));
  EXPECT_OK(Await(meta_->names().Rmdir(rmdir)));

  wire::AllocateBlobsRequest allocate;
  *allocate.mutable_id() = NextId();
  allocate.set_pool(1);
  allocate.set_count(3);
  const auto blobs = Await(meta_->sessions().AllocateBlobs(allocate));
  EXPECT_EQ(
      Await(meta_->sessions().AllocateBlobs(allocate))->SerializeAsString(),
      blobs->SerializeAsString());
}

TEST_F(MutationTest, AnswersAreForgottenOnceTheClientHasThem) {
  for (int i = 0; i < 50; ++i) {
    wire::CreateRequest request = CreateRequest(kRoot, absl::StrCat("f", i));
    request.mutable_id()->set_done_below(request.id().request());
    ASSERT_OK(Send(std::move(request)));
  }
  EXPECT_LE(KeysOf(format::KeyKind::kResult), 2u);
}

TEST_F(MutationTest, LateCopyOfAForgottenRequestIsRefused) {
  const wire::CreateRequest old = CreateRequest(kRoot, "f");
  ASSERT_OK(Send(old));
  ASSERT_OK(Unlink(kRoot, "f"));
  wire::CreateRequest next = CreateRequest(kRoot, "g");
  next.mutable_id()->set_done_below(next.id().request());
  ASSERT_OK(Send(next));
  EXPECT_THAT(Send(old), StatusIs(Code::kAborted, "answered before"));
  Restart();
  EXPECT_THAT(Send(old), StatusIs(Code::kAborted, "answered before"));
  EXPECT_THAT(Lookup(kRoot, "f"), StatusIs(Code::kNotFound, ""));
}

TEST_F(MutationTest, MutationWithoutALiveSessionIsRefused) {
  wire::CreateRequest request = CreateRequest(kRoot, "f");
  request.mutable_id()->set_session(12345);
  EXPECT_THAT(Send(request), StatusIs(Code::kAborted, "session 12345"));
  request = CreateRequest(kRoot, "f");
  request.mutable_id()->set_request(0);
  EXPECT_THAT(Send(request), StatusIs(Code::kInvalidArgument, ""));
}

TEST_F(MutationTest, ConflictsAreRetriedAndManyWritersOfOneNameAgree) {
  // All replace the same name; each must succeed, and one file is left.
  for (int i = 0; i < 16; ++i) MakeFile(kRoot, absl::StrCat("f", i));
  std::vector<std::optional<absl::StatusOr<wire::RenameResponse>>> done(16);
  io::Gate gate(env_);
  for (int i = 0; i < 16; ++i) {
    wire::RenameRequest request;
    *request.mutable_id() = NextId();
    request.set_from_parent(kRoot);
    request.set_from_name(absl::StrCat("f", i));
    request.set_to_parent(kRoot);
    request.set_to_name("winner");
    gate.Spawn(StoreResult(meta_->names().Rename(std::move(request)),
                           &done[static_cast<size_t>(i)]));
  }
  world_.Run(gate.Close());
  for (const auto& result : done) EXPECT_OK(*result);
  EXPECT_EQ(List(kRoot)->size(), 1u);
  EXPECT_EQ(KeysOf(format::KeyKind::kTrash), 15u);
}

}  // namespace
}  // namespace cairn::server
