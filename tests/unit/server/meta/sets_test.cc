// Checkpoint sets: whole or invisible.
#include "format/path/errors.h"
#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

using ::testing::ElementsAre;
using Code = absl::StatusCode;

constexpr char kPath[] = "/ckpt/run1/step-100";

class SetsTest : public MetaTest {
 protected:
  struct Rank {
    uint64_t session = 0;
    uint64_t set = 0;
    uint64_t blob = 0;
    uint32_t rank = 0;
    uint32_t world = 0;
    uint64_t attempt = 1;
  };

  wire::OpenSetRequest OpenRequest(uint64_t session, uint32_t rank,
                                   uint32_t world, uint64_t attempt = 1) {
    wire::OpenSetRequest request;
    *request.mutable_id() = NextIdOf(session);
    request.set_path(kPath);
    request.set_set_id("step-100");
    request.set_attempt(attempt);
    request.set_world_size(world);
    request.set_rank(rank);
    return request;
  }
  absl::StatusOr<wire::OpenSetResponse> Open(wire::OpenSetRequest request) {
    return Await(meta_->sets().Open(std::move(request)));
  }
  uint64_t RankSession(uint32_t rank) {
    return OpenSession(absl::StrCat("host/", rank, "/rank"), ++nonce_);
  }
  // A rank of its own session, with its claim and a blob.
  Rank Join(uint32_t rank, uint32_t world, uint64_t attempt = 1) {
    Rank joined;
    joined.session = RankSession(rank);
    const auto opened = Open(OpenRequest(joined.session, rank, world, attempt));
    EXPECT_OK(opened);
    joined.set = opened.ok() ? opened->set() : 0;
    joined.blob = AllocateBlobs(joined.session, 1)[0];
    joined.rank = rank;
    joined.world = world;
    joined.attempt = attempt;
    return joined;
  }
  // Rank r of w has row r of a tensor [w, 10] of bytes.
  static std::string PartOf(const Rank& rank, uint64_t row) {
    format::ManifestPart part;
    part.rank = rank.rank;
    part.file_bytes = 4096 + 10;
    format::TensorEntry entry;
    entry.name = "weights";
    entry.shape = {rank.world, 10};
    format::TensorPart slice;
    slice.rank = rank.rank;
    slice.file_offset = 4096;
    slice.length = 10;
    slice.offset = {row, 0};
    slice.shape = {1, 10};
    entry.parts.push_back(slice);
    part.entries.push_back(entry);
    return format::EncodeManifestPart(part);
  }
  wire::CommitRankRequest CommitRankRequest(const Rank& rank) {
    wire::CommitRankRequest request;
    *request.mutable_id() = NextIdOf(rank.session);
    request.set_set(rank.set);
    request.set_attempt(rank.attempt);
    request.set_rank(rank.rank);
    request.set_epoch(meta_->map()->epoch.value);
    request.mutable_file()->set_name(RankFileName(rank.rank));
    request.mutable_file()->set_size(4096 + 10);
    AddExtent(0, 4096 + 10, rank.blob, 0,
              request.mutable_file()->add_extents());
    request.set_manifest_part(PartOf(rank, rank.rank));
    return request;
  }
  absl::StatusOr<wire::CommitRankResponse> CommitRank(
      wire::CommitRankRequest request) {
    return Await(meta_->sets().CommitRank(std::move(request)));
  }
  absl::StatusOr<wire::WaitSetResponse> WaitSet(uint64_t set,
                                                uint64_t attempt = 1,
                                                uint32_t wait_ms = 10'000) {
    wire::WaitSetRequest request;
    request.set_set(set);
    request.set_attempt(attempt);
    request.set_wait_ms(wait_ms);
    return Await(meta_->sets().Wait(std::move(request)));
  }
  absl::StatusOr<wire::GetSetResponse> GetSet(std::string path = kPath) {
    wire::GetSetRequest request;
    request.set_path(std::move(path));
    return Await(meta_->sets().Get(std::move(request)));
  }
  absl::StatusOr<std::vector<wire::SetInfo>> ListSets(std::string path,
                                                      bool unpublished = false,
                                                      uint32_t limit = 0) {
    std::vector<wire::SetInfo> sets;
    wire::ListSetsRequest request;
    request.set_path(std::move(path));
    request.set_unpublished(unpublished);
    request.set_limit(limit);
    while (true) {
      const auto page = Await(meta_->sets().List(request));
      if (!page.ok()) return page.status();
      sets.insert(sets.end(), page->sets().begin(), page->sets().end());
      if (page->next().empty()) return sets;
      request.set_after(page->next());
    }
  }
  absl::Status RemoveSet(std::string path = kPath) {
    wire::RemoveSetRequest request;
    *request.mutable_id() = NextId();
    request.set_path(std::move(path));
    return Await(meta_->sets().Remove(std::move(request))).status();
  }
  // The inode of the directory "/ckpt/run1".
  uint64_t Home() {
    const auto ckpt = Lookup(kRoot, "ckpt");
    if (!ckpt.ok()) return 0;
    const auto home = Lookup(ckpt->inode(), "run1");
    return home.ok() ? home->inode() : 0;
  }
  // All of a set of two ranks, published.
  uint64_t PublishTwo() {
    const Rank a = Join(0, 2);
    const Rank b = Join(1, 2);
    EXPECT_OK(CommitRank(CommitRankRequest(a)));
    EXPECT_OK(CommitRank(CommitRankRequest(b)));
    const auto waited = WaitSet(a.set);
    EXPECT_OK(waited);
    EXPECT_EQ(waited->state(), static_cast<uint32_t>(SetState::kPublished));
    return a.set;
  }
  // Whole, or not there at all.
  bool CheckWholeOrInvisible(uint32_t world) {
    // In this order: it may be published while we look.
    const bool named = Home() != 0 && Lookup(Home(), "step-100").ok();
    const auto listed = ListSets("/");
    EXPECT_OK(listed);
    const auto set = GetSet();
    if (!set.ok()) {
      EXPECT_EQ(set.status().code(), Code::kNotFound) << set.status();
      EXPECT_FALSE(named);
      EXPECT_TRUE(listed->empty());
      return false;
    }
    EXPECT_EQ(static_cast<uint32_t>(set->files_size()), world);
    const auto header = format::DecodeManifestHeader(set->manifest_header());
    EXPECT_OK(header);
    wire::GetManifestRequest request;
    request.set_inode(set->set().inode());
    request.set_count(static_cast<uint32_t>(header->block_first_names.size()));
    const auto blocks = Await(meta_->sets().GetManifest(request));
    EXPECT_OK(blocks);
    EXPECT_EQ(static_cast<size_t>(blocks->blocks_size()),
              header->block_first_names.size());
    const auto entries = format::DecodeManifestBlock(blocks->blocks(0));
    EXPECT_OK(entries);
    EXPECT_EQ((*entries)[0].parts.size(), world);
    for (const wire::RankFile& file : set->files()) {
      const auto found = Lookup(set->set().inode(), file.name());
      EXPECT_OK(found);
      const auto extents = GetExtents(found->inode(), 0, found->size());
      EXPECT_EQ(TotalLength(*extents), file.size());
    }
    EXPECT_EQ(ListSets("/")->size(), 1u);
    return true;
  }
  static uint64_t TotalLength(const std::vector<wire::Extent>& extents) {
    uint64_t length = 0;
    for (const wire::Extent& extent : extents) length += extent.length();
    return length;
  }

  void ExpectNothingOfSetsLeft() {
    for (const format::KeyKind kind :
         {format::KeyKind::kSet, format::KeyKind::kRank,
          format::KeyKind::kManifestBlock, format::KeyKind::kManifestHeader,
          format::KeyKind::kManifestPiece, format::KeyKind::kExtent,
          format::KeyKind::kReference, format::KeyKind::kTrash,
          format::KeyKind::kPublication, format::KeyKind::kOpenSet}) {
      EXPECT_EQ(KeysOf(kind), 0u) << static_cast<char>(kind);
    }
  }

  uint64_t nonce_ = 1000;
};

TEST_F(SetsTest, SetIsVisibleExactlyWhenAllRanksHaveCommitted) {
  std::vector<Rank> ranks;
  for (uint32_t rank = 0; rank < 4; ++rank) ranks.push_back(Join(rank, 4));
  for (const Rank& rank : ranks) {
    EXPECT_EQ(rank.set, ranks[0].set);
    EXPECT_FALSE(CheckWholeOrInvisible(4));
    const auto committed = CommitRank(CommitRankRequest(rank));
    ASSERT_OK(committed);
    EXPECT_EQ(committed->committed_ranks(), rank.rank + 1);
  }
  const auto waited = WaitSet(ranks[0].set);
  ASSERT_OK(waited);
  EXPECT_EQ(waited->state(), static_cast<uint32_t>(SetState::kPublished));
  EXPECT_TRUE(CheckWholeOrInvisible(4));
  const auto set = GetSet();
  EXPECT_EQ(set->set().tensors(), 1u);
  EXPECT_EQ(set->set().bytes(), 4 * (4096u + 10));
  EXPECT_EQ(set->set().path(), kPath);
  EXPECT_THAT(*List(set->set().inode()),
              ElementsAre("rank-00000.safetensors", "rank-00001.safetensors",
                          "rank-00002.safetensors", "rank-00003.safetensors"));
}

TEST_F(SetsTest, WaitNamesTheMissingRanks) {
  const Rank a = Join(0, 4);
  const Rank c = Join(2, 4);
  ASSERT_OK(CommitRank(CommitRankRequest(a)));
  const auto waited = WaitSet(a.set, 1, 50);
  ASSERT_OK(waited);
  EXPECT_EQ(waited->state(), static_cast<uint32_t>(SetState::kOpen));
  EXPECT_EQ(waited->committed_ranks(), 1u);
  EXPECT_THAT(waited->missing_ranks(), ElementsAre(1, 2, 3));
  EXPECT_THAT(GetSet(), StatusIs(Code::kNotFound, "missing: 1, 2, 3"));
  EXPECT_THAT(WaitSet(a.set, 2), StatusIs(Code::kInvalidArgument, "attempt"));
  const auto open = ListSets("/ckpt", true);
  ASSERT_EQ(open->size(), 1u);
  EXPECT_EQ((*open)[0].state(), static_cast<uint32_t>(SetState::kOpen));
  EXPECT_THAT((*open)[0].missing_ranks(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(ListSets("/ckpt")->empty());
  EXPECT_NE(c.set, 0u);
}

TEST_F(SetsTest, WaiterIsWokenByPublication) {
  const Rank a = Join(0, 2);
  const Rank b = Join(1, 2);
  ASSERT_OK(CommitRank(CommitRankRequest(a)));
  std::optional<absl::StatusOr<wire::WaitSetResponse>> waited;
  wire::WaitSetRequest request;
  request.set_set(a.set);
  request.set_attempt(1);
  request.set_wait_ms(60'000);
  io::Gate gate(env_);
  const io::TimeNs before = env_->NowNs();
  gate.Spawn(StoreResult(meta_->sets().Wait(request), &waited));
  ASSERT_OK(CommitRank(CommitRankRequest(b)));
  world_.Run(gate.Close());
  ASSERT_OK(*waited);
  EXPECT_EQ((*waited)->state(), static_cast<uint32_t>(SetState::kPublished));
  EXPECT_LT(env_->NowNs() - before, io::kSecond);
}

TEST_F(SetsTest, ManyRanksOpenAndCommitAtOnce) {
  constexpr uint32_t kWorld = 64;
  std::vector<uint64_t> sessions;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    sessions.push_back(RankSession(rank));
  }
  std::vector<std::optional<absl::StatusOr<wire::OpenSetResponse>>> opened(
      kWorld);
  io::Gate gate(env_);
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    gate.Spawn(StoreResult(
        meta_->sets().Open(OpenRequest(sessions[rank], rank, kWorld)),
        &opened[rank]));
  }
  world_.Run(gate.Close());
  std::vector<std::optional<absl::StatusOr<wire::CommitRankResponse>>> done(
      kWorld);
  for (uint32_t index = 0; index < kWorld; ++index) {
    ASSERT_OK(*opened[index]);
    EXPECT_EQ((*opened[index])->set(), (*opened[0])->set());
    Rank rank;
    rank.session = sessions[index];
    rank.set = (*opened[index])->set();
    rank.blob = AllocateBlobs(sessions[index], 1)[0];
    rank.rank = index;
    rank.world = kWorld;
    gate.Spawn(StoreResult(meta_->sets().CommitRank(CommitRankRequest(rank)),
                           &done[index]));
  }
  world_.Run(gate.Close());
  for (const auto& result : done) EXPECT_OK(*result);
  EXPECT_EQ(WaitSet((*opened[0])->set())->state(),
            static_cast<uint32_t>(SetState::kPublished));
  EXPECT_TRUE(CheckWholeOrInvisible(kWorld));
}

TEST_F(SetsTest, RanksMustAgreeOnTheSet) {
  const Rank a = Join(0, 2);
  EXPECT_NE(a.set, 0u);
  const uint64_t session = RankSession(1);
  EXPECT_THAT(Open(OpenRequest(session, 1, 3)),
              StatusIs(Code::kInvalidArgument, "2 ranks, not 3"));
  wire::OpenSetRequest other = OpenRequest(session, 1, 2);
  other.set_set_id("step-200");
  EXPECT_THAT(Open(other), StatusIs(Code::kInvalidArgument, "step-200"));
  EXPECT_THAT(Open(OpenRequest(session, 2, 2)),
              StatusIs(Code::kInvalidArgument, "rank 2"));
  EXPECT_THAT(Open(OpenRequest(session, 1, 2, 0)),
              StatusIs(Code::kInvalidArgument, "attempts"));
}

TEST_F(SetsTest, ClaimOfALiveRankIsKeptAndOfADeadOneTakenOver) {
  const Rank a = Join(0, 1);
  const uint64_t second = RankSession(0);
  EXPECT_THAT(Open(OpenRequest(second, 0, 1)),
              StatusIs(Code::kAlreadyExists, "host/0/rank"));
  EXPECT_OK(Open(OpenRequest(a.session, 0, 1)));  // Its own, again.
  ASSERT_OK(CloseSession(a.session));
  const auto taken = Open(OpenRequest(second, 0, 1));
  ASSERT_OK(taken);
  EXPECT_EQ(taken->set(), a.set);
  // The dead one cannot commit any more.
  EXPECT_THAT(CommitRank(CommitRankRequest(a)), StatusIs(Code::kAborted, ""));
  Rank b = a;
  b.session = second;
  b.blob = AllocateBlobs(second, 1)[0];
  EXPECT_OK(CommitRank(CommitRankRequest(b)));
  EXPECT_EQ(WaitSet(a.set)->state(),
            static_cast<uint32_t>(SetState::kPublished));
  EXPECT_TRUE(CheckWholeOrInvisible(1));
}

TEST_F(SetsTest, GreaterAttemptFencesTheSmallerAndItsSpaceComesBack) {
  const Rank old_a = Join(0, 2);
  const Rank old_b = Join(1, 2);
  ASSERT_OK(CommitRank(CommitRankRequest(old_a)));
  std::optional<absl::StatusOr<wire::WaitSetResponse>> waited;
  wire::WaitSetRequest wait;
  wait.set_set(old_a.set);
  wait.set_attempt(1);
  wait.set_wait_ms(60'000);
  io::Gate gate(env_);
  gate.Spawn(StoreResult(meta_->sets().Wait(wait), &waited));

  const Rank new_a = Join(0, 2, 2);
  const Rank new_b = Join(1, 2, 2);
  EXPECT_NE(new_a.set, old_a.set);
  world_.Run(gate.Close());
  EXPECT_EQ((*waited)->state(), static_cast<uint32_t>(SetState::kFenced));
  EXPECT_THAT(CommitRank(CommitRankRequest(old_b)),
              StatusIs(Code::kAborted, "fenced"));
  EXPECT_THAT(Open(OpenRequest(old_b.session, 1, 2, 1)),
              StatusIs(Code::kAborted, "attempt 2"));
  ASSERT_OK(CommitRank(CommitRankRequest(new_a)));
  ASSERT_OK(CommitRank(CommitRankRequest(new_b)));
  EXPECT_EQ(WaitSet(new_a.set, 2)->state(),
            static_cast<uint32_t>(SetState::kPublished));
  EXPECT_TRUE(CheckWholeOrInvisible(2));
  ASSERT_OK(CloseSession(old_a.session));
  ASSERT_OK(CloseSession(old_b.session));
  SleepAndRunPasses();
  EXPECT_TRUE(orders_.deleted.contains(format::BlobId(old_a.blob)));
  EXPECT_TRUE(orders_.deleted.contains(format::BlobId(old_b.blob)));
  EXPECT_FALSE(orders_.deleted.contains(format::BlobId(new_a.blob)));
  EXPECT_TRUE(CheckWholeOrInvisible(2));
  EXPECT_EQ(KeysOf(format::KeyKind::kSet), 1u);
  EXPECT_EQ(KeysOf(format::KeyKind::kRank), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kManifestPiece), 0u);
}

TEST_F(SetsTest, PublishedSetIsAnOrdinaryDirectoryThatCannotChange) {
  const uint64_t set = PublishTwo();
  const auto file = Lookup(set, "rank-00000.safetensors");
  ASSERT_OK(file);
  EXPECT_EQ(file->mode(), 0444u);
  EXPECT_EQ(Lookup(Home(), "step-100")->inode(), set);
  for (const absl::Status& status :
       {Create(set, "x").status(), Truncate(file->inode(), 5),
        Write(file->inode(), 0, 5, 1), Link(file->inode(), kRoot, "l"),
        Rename(set, "rank-00000.safetensors", kRoot, "r")}) {
    EXPECT_THAT(status,
                StatusIs(Code::kFailedPrecondition, format::kErrSetImmutable));
  }
  EXPECT_THAT(Rmdir(Home(), "step-100"),
              StatusIs(Code::kFailedPrecondition, format::kErrNotEmpty));
  EXPECT_THAT(Open(OpenRequest(session_, 0, 2)),
              StatusIs(Code::kAlreadyExists, kPath));
}

TEST_F(SetsTest, RenamedSetIsFoundUnderItsNewPath) {
  PublishTwo();
  ASSERT_OK(Rename(Home(), "step-100", kRoot, "best"));
  EXPECT_EQ(GetSet("/best")->set().path(), "/best");
  EXPECT_EQ((*ListSets("/"))[0].path(), "/best");
  EXPECT_TRUE(ListSets("/ckpt")->empty());
  wire::CreateRequest link =
      CreateRequest(kRoot, "latest", InodeType::kSymlink);
  link.set_symlink("best");
  ASSERT_OK(Await(meta_->names().Create(std::move(link))));
  EXPECT_EQ(GetSet("/latest")->set().path(), "/best");
}

TEST_F(SetsTest, RemovedSetIsGoneAtOnceAndItsBlobsAfterTheGrace) {
  const uint64_t set = PublishTwo();
  const auto file = Lookup(set, "rank-00001.safetensors");
  ASSERT_OK(RemoveSet());
  EXPECT_THAT(GetSet(), StatusIs(Code::kNotFound, ""));
  EXPECT_TRUE(ListSets("/")->empty());
  EXPECT_THAT(RemoveSet(), StatusIs(Code::kNotFound, ""));
  EXPECT_EQ(GetExtents(file->inode(), 0, 100)->size(), 1u);
  SleepAndRunPasses();
  EXPECT_EQ(orders_.deleted.size(), 2u);
  ExpectNothingOfSetsLeft();
  // The path is free again.
  PublishTwo();
}

// Its record goes before its manifest does: what is left must be found again.
TEST_F(SetsTest, RemovedSetLeavesNothingWhereverTheTrashIsCutShort) {
  for (uint64_t cut = 1; cut <= 8; ++cut) {
    SCOPED_TRACE(absl::StrCat("commit ", cut, " is lost"));
    PublishTwo();
    ASSERT_OK(RemoveSet());
    kv_->InjectFault(kv_->commits() + cut, ModelKvFault::kUnknownLost);
    for (int pass = 0; pass < 3; ++pass) {
      Sleep(2 * io::kSecond);
      (void)Await(meta_->trash().Pass());
      (void)Await(meta_->garbage().Pass());
    }
    SleepAndRunPasses();
    ExpectNothingOfSetsLeft();
    if (HasFailure()) break;
  }
}

TEST_F(SetsTest, RecursiveRemovalWithPlainUnlinksNeverShowsAPartialSet) {
  const uint64_t set = PublishTwo();
  ASSERT_OK(Unlink(set, "rank-00000.safetensors"));
  EXPECT_THAT(GetSet(), StatusIs(Code::kNotFound, ""));
  EXPECT_TRUE(ListSets("/")->empty());
  ASSERT_OK(Unlink(set, "rank-00001.safetensors"));
  ASSERT_OK(Rmdir(Home(), "step-100"));
  SleepAndRunPasses();
  EXPECT_EQ(orders_.deleted.size(), 2u);
  EXPECT_EQ(KeysOf(format::KeyKind::kManifestBlock), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kManifestHeader), 0u);
}

TEST_F(SetsTest, RemovingAnOpenSetFencesIt) {
  const Rank a = Join(0, 2);
  ASSERT_OK(RemoveSet());
  EXPECT_THAT(CommitRank(CommitRankRequest(a)), StatusIs(Code::kAborted, ""));
  EXPECT_TRUE(ListSets("/", true)->empty());
}

TEST_F(SetsTest, SlicesThatDoNotFitFailTheSetWithTheReason) {
  const Rank a = Join(0, 2);
  const Rank b = Join(1, 2);
  ASSERT_OK(CommitRank(CommitRankRequest(a)));
  wire::CommitRankRequest request = CommitRankRequest(b);
  Rank bad = b;
  bad.world = 3;  // Another global shape.
  request.set_manifest_part(PartOf(bad, 1));
  ASSERT_OK(CommitRank(request));
  const auto waited = WaitSet(a.set);
  ASSERT_OK(waited);
  EXPECT_EQ(waited->state(), static_cast<uint32_t>(SetState::kFailed));
  EXPECT_NE(waited->failure(), "");
  EXPECT_FALSE(CheckWholeOrInvisible(2));
  EXPECT_THAT(GetSet(), StatusIs(Code::kNotFound, "failed"));
  EXPECT_THAT(Open(OpenRequest(RankSession(0), 0, 2)),
              StatusIs(Code::kFailedPrecondition, "next attempt"));
  const Rank c = Join(0, 1, 2);
  ASSERT_OK(CommitRank(CommitRankRequest(c)));
  EXPECT_EQ(WaitSet(c.set, 2)->state(),
            static_cast<uint32_t>(SetState::kPublished));
  EXPECT_TRUE(CheckWholeOrInvisible(1));
}

TEST_F(SetsTest, CommitThatCannotBeIsRefusedAndMayBeCorrected) {
  const Rank a = Join(0, 1);
  wire::CommitRankRequest request = CommitRankRequest(a);
  request.set_manifest_part("garbage");
  EXPECT_THAT(CommitRank(request),
              StatusIs(Code::kInvalidArgument, "manifest part"));
  request = CommitRankRequest(a);
  request.mutable_file()->set_size(99);
  EXPECT_THAT(CommitRank(request), StatusIs(Code::kInvalidArgument, ""));
  request = CommitRankRequest(a);
  request.mutable_file()->set_name("other");
  EXPECT_THAT(CommitRank(request),
              StatusIs(Code::kInvalidArgument, "rank-00000"));
  request = CommitRankRequest(a);
  request.set_epoch(99);
  EXPECT_THAT(CommitRank(request), StatusIs(Code::kAborted, "map changed"));
  EXPECT_OK(CommitRank(CommitRankRequest(a)));
}

TEST_F(SetsTest, RankWrittenInARowThatChangedIsRefusedUntilWrittenAgain) {
  const Rank a = Join(0, 1);
  const wire::CommitRankRequest request = CommitRankRequest(a);
  format::ClusterMap next = *meta_->map();
  next.epoch = format::Epoch(2);
  format::Pool& pool = next.pools.begin()->second;
  const uint32_t pg = pool.PgOf(format::BlobId(a.blob), 0);
  std::swap(pool.pg_targets[2 * pg], pool.pg_targets[2 * pg + 1]);
  ASSERT_OK(Await(meta_->ReplaceMap(next)));
  EXPECT_THAT(CommitRank(request),
              StatusIs(Code::kAborted, absl::StrCat("map changed: PG ", pg)));
  EXPECT_EQ(WaitSet(a.set, 1, 0)->committed_ranks(), 0u);
  EXPECT_OK(CommitRank(CommitRankRequest(a)));
}

TEST_F(SetsTest, RepeatedCommitsCountOnce) {
  const Rank a = Join(0, 2);
  const wire::CommitRankRequest request = CommitRankRequest(a);
  ASSERT_OK(CommitRank(request));
  ASSERT_OK(CommitRank(request));
  ASSERT_OK(CommitRank(CommitRankRequest(a)));  // With a new request id, too.
  EXPECT_EQ(WaitSet(a.set, 1, 0)->committed_ranks(), 1u);
}

TEST_F(SetsTest, LargePartsAndManyExtentsAreStagedInSteps) {
  const Rank a = Join(0, 1);
  format::ManifestPart part;
  part.rank = 0;
  part.file_bytes = 0;
  for (uint64_t i = 0; i < 6000; ++i) {
    format::TensorEntry entry;
    entry.name = absl::StrCat("layer.", i, ".", std::string(100, 'x'));
    entry.shape = {10};
    format::TensorPart slice;
    slice.file_offset = i * 10;
    slice.length = 10;
    slice.offset = {0};
    slice.shape = {10};
    entry.parts.push_back(slice);
    part.entries.push_back(entry);
    part.file_bytes += 10;
  }
  wire::CommitRankRequest request = CommitRankRequest(a);
  request.mutable_file()->set_size(part.file_bytes);
  request.mutable_file()->clear_extents();
  for (uint64_t i = 0; i < 300; ++i) {
    AddExtent(i * 200, 200, a.blob, i * 1000,
              request.mutable_file()->add_extents());
  }
  request.set_manifest_part(format::EncodeManifestPart(part));
  EXPECT_GT(request.manifest_part().size(), 2 * kManifestPieceBytes);
  ASSERT_OK(CommitRank(request));
  EXPECT_EQ(WaitSet(a.set)->state(),
            static_cast<uint32_t>(SetState::kPublished));
  const auto set = GetSet();
  EXPECT_EQ(set->set().tensors(), 6000u);
  const auto file = Lookup(a.set, "rank-00000.safetensors");
  EXPECT_EQ(GetExtents(file->inode(), 0, part.file_bytes)->size(), 300u);
}

TEST_F(SetsTest, SetsAreListedInOrderOfPublicationPageByPage) {
  std::vector<std::string> expected;
  for (int i = 9; i >= 0; --i) {
    const uint64_t session = RankSession(0);
    wire::OpenSetRequest request = OpenRequest(session, 0, 1);
    const std::string path = absl::StrCat("/ckpt/s", i);
    request.set_path(path);
    const auto opened = Open(request);
    ASSERT_OK(opened);
    Rank rank;
    rank.session = session;
    rank.set = opened->set();
    rank.blob = AllocateBlobs(session, 1)[0];
    rank.world = 1;
    ASSERT_OK(CommitRank(CommitRankRequest(rank)));
    ASSERT_OK(WaitSet(rank.set));
    expected.push_back(path);
  }
  Join(0, 2);
  std::vector<std::string> listed;
  const auto pages = ListSets("/ckpt", true, 3);
  ASSERT_OK(pages);
  for (const wire::SetInfo& set : *pages) {
    listed.push_back(set.path());
  }
  expected.push_back(kPath);
  EXPECT_EQ(listed, expected);
  EXPECT_THAT(ListSets("/nowhere"), StatusIs(Code::kNotFound, "nowhere"));
}

TEST_F(SetsTest, SetWhoseWritersAreGoneIsGivenUp) {
  meta_->Start();
  const Rank a = Join(0, 2);
  ASSERT_OK(CommitRank(CommitRankRequest(a)));
  Sleep(3 * 3600 * io::kSecond);  // The lease, the idle time, the graces.
  EXPECT_EQ(KeysOf(format::KeyKind::kSet), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kOpenSet), 0u);
  EXPECT_EQ(KeysOf(format::KeyKind::kExtent), 0u);
  EXPECT_TRUE(orders_.deleted.contains(format::BlobId(a.blob)));
}

TEST_F(SetsTest, SetOfARemovedDirectoryFails) {
  const Rank a = Join(0, 1);
  const uint64_t ckpt = Lookup(kRoot, "ckpt")->inode();
  ASSERT_OK(Rmdir(ckpt, "run1"));
  ASSERT_OK(CommitRank(CommitRankRequest(a)));
  const auto waited = WaitSet(a.set);
  ASSERT_OK(waited);
  EXPECT_EQ(waited->state(), static_cast<uint32_t>(SetState::kFailed));
}

// The power fails after every single commit of the whole life of a set; after
// the restart the ranks that were not told that they are done go on.
TEST_F(SetsTest, PowerFailureAfterEveryCommitLeavesTheSetWholeOrInvisible) {
  for (uint64_t cut = 1;; ++cut) {
    SCOPED_TRACE(absl::StrCat("power lost at commit ", cut));
    std::vector<Rank> ranks{Join(0, 2), Join(1, 2)};
    std::vector<wire::CommitRankRequest> requests;
    for (const Rank& rank : ranks) requests.push_back(CommitRankRequest(rank));
    const uint64_t last = kv_->commits() + cut;
    bool crashed = false;
    std::vector<std::optional<absl::StatusOr<wire::CommitRankResponse>>> done(
        2);
    io::Gate gate(env_);
    for (size_t i = 0; i < 2; ++i) {
      gate.Spawn(StoreResult(meta_->sets().CommitRank(requests[i]), &done[i]));
    }
    for (int step = 0; step < 100'000; ++step) {
      if (kv_->commits() >= last) {
        kv_->Crash(cut % 3);  // Some of what was in flight made it.
        crashed = true;
        break;
      }
      if (gate.in_flight() == 0 && KeysOf(format::KeyKind::kPublication) > 0) {
        break;
      }
      if (!world_.Step()) break;
    }
    world_.Run(gate.Close());
    Restart();
    if (crashed) CheckWholeOrInvisible(2);
    for (size_t i = 0; i < 2; ++i) {
      // What was acknowledged is there; the rest may be repeated.
      const auto again = CommitRank(requests[i]);
      if (again.ok() || absl::IsAborted(again.status())) continue;
      ADD_FAILURE() << again.status();
    }
    const auto waited = WaitSet(ranks[0].set);
    ASSERT_OK(waited);
    EXPECT_EQ(waited->state(), static_cast<uint32_t>(SetState::kPublished));
    EXPECT_TRUE(CheckWholeOrInvisible(2));
    ASSERT_OK(RemoveSet());
    for (const Rank& rank : ranks) ASSERT_OK(CloseSession(rank.session));
    SleepAndRunPasses();
    EXPECT_EQ(KeysOf(format::KeyKind::kBlob), 0u);
    EXPECT_EQ(KeysOf(format::KeyKind::kExtent), 0u);
    if (!crashed || HasFailure()) break;
  }
}

}  // namespace
}  // namespace cairn::server
