// Members and pools of a whole metadata service, told what targets say.
#include "server/meta/membership.h"

#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

using format::JoinVerdict;
using format::QuarantineCause;
using format::TargetChange;
using format::TargetId;
using format::TargetState;
using ::testing::HasSubstr;

class MembershipTest : public MetaTest {
 protected:
  wire::RegisterTargetRequest Request(uint32_t target, uint64_t incarnation,
                                      uint64_t admission = 0) {
    wire::RegisterTargetRequest request;
    const format::ClusterId id = meta_->map()->cluster_id;
    request.set_cluster_id(id.bytes.data(), id.bytes.size());
    request.set_target(target);
    request.set_disk_generation(1);
    request.set_admission(admission);
    request.set_incarnation(incarnation);
    request.set_address(absl::StrCat("10.0.0.", target, ":7500"));
    request.set_host(absl::StrCat("host", target));
    request.set_directory(absl::StrCat("/disk", target));
    request.set_capacity_bytes(format::kGiB);
    return request;
  }
  absl::StatusOr<wire::RegisterTargetResponse> Register(
      wire::RegisterTargetRequest request) {
    return Await(meta_->membership().Register(std::move(request)));
  }
  static JoinVerdict VerdictOf(
      const absl::StatusOr<wire::RegisterTargetResponse>& response) {
    EXPECT_OK(response);
    return response.ok() ? static_cast<JoinVerdict>(response->verdict())
                         : JoinVerdict{};
  }
  // A whole start of a process; it answers heartbeats from then on. Returns
  // the admission.
  uint64_t Join(wire::RegisterTargetRequest request) {
    const auto granted = Register(request);
    EXPECT_EQ(VerdictOf(granted), JoinVerdict::kGranted);
    if (!granted.ok()) return 0;
    request.set_admission(granted->admission());
    EXPECT_EQ(VerdictOf(Register(request)), JoinVerdict::kAdmitted);
    orders_.incarnations[TargetId(request.target())] = request.incarnation();
    return granted->admission();
  }
  absl::StatusOr<wire::AllocateTargetResponse> Allocate(uint64_t nonce) {
    wire::AllocateTargetRequest request;
    request.set_nonce(nonce);
    request.set_host("new-host");
    request.set_rack("new-rack");
    return Await(meta_->membership().Allocate(std::move(request)));
  }
  absl::StatusOr<bool> Change(uint32_t target, TargetChange change) {
    wire::ChangeTargetRequest request;
    request.set_target(target);
    request.set_change(static_cast<uint32_t>(change));
    const auto response = Await(meta_->membership().Change(std::move(request)));
    if (!response.ok()) return response.status();
    return response->changed();
  }
  wire::ListTargetsResponse List() {
    auto list = Await(meta_->membership().List(wire::ListTargetsRequest()));
    EXPECT_OK(list);
    return list.ok() ? *list : wire::ListTargetsResponse();
  }
  wire::CreatePoolRequest PoolRequest(std::string name) {
    wire::CreatePoolRequest request;
    request.set_name(std::move(name));
    request.mutable_scheme()->set_kind(
        static_cast<uint32_t>(format::SchemeKind::kReplicate));
    request.mutable_scheme()->set_data_shards(1);
    request.mutable_scheme()->set_parity_shards(1);
    request.set_chunk_size(64 * 1024);
    request.set_failure_domain(
        static_cast<uint32_t>(format::FailureDomain::kHost));
    return request;
  }
  absl::StatusOr<wire::CreatePoolResponse> CreatePool(
      wire::CreatePoolRequest request) {
    return Await(meta_->pools().Create(std::move(request)));
  }
  uint64_t epoch() { return meta_->map()->epoch.value; }
  // A fourth target that is in service and that no row names.
  uint32_t AddSpare() {
    const auto given = Allocate(55);
    EXPECT_OK(given);
    const uint32_t id = given.ok() ? given->target() : 0;
    Join(Request(id, 900));
    EXPECT_OK(Change(id, TargetChange::kAdd));
    return id;
  }
};

TEST_F(MembershipTest, TargetOfTheMapJoinsAndItsAddressIsInTheMap) {
  EXPECT_EQ(Join(Request(2, 11)), 1u);
  EXPECT_EQ(meta_->map()->FindTarget(TargetId(2))->address, "10.0.0.2:7500");
  EXPECT_EQ(orders_.addresses[TargetId(2)], "10.0.0.2:7500");
}

TEST_F(MembershipTest, AskingAgainRaisesNoEpochAndWritesNothing) {
  Join(Request(2, 11));
  const uint64_t before = epoch();
  const uint64_t sequence = kv_->sequence();
  EXPECT_EQ(VerdictOf(Register(Request(2, 11, 1))), JoinVerdict::kAdmitted);
  EXPECT_EQ(epoch(), before);
  EXPECT_EQ(kv_->sequence(), sequence);
}

TEST_F(MembershipTest, NewAddressIsFoundWithoutANewEpoch) {
  Join(Request(2, 11));
  const uint64_t before = epoch();
  orders_.incarnations.clear();  // The process died.
  wire::RegisterTargetRequest moved = Request(2, 12, 1);
  moved.set_address("10.0.0.77:1");
  EXPECT_EQ(Join(moved), 2u);
  EXPECT_EQ(epoch(), before);
  EXPECT_EQ(meta_->map()->FindTarget(TargetId(2))->address, "10.0.0.77:1");
  EXPECT_EQ(orders_.addresses[TargetId(2)], "10.0.0.77:1");
}

TEST_F(MembershipTest, TargetOnAnotherHostMakesANewMap) {
  Join(Request(2, 11));
  const uint64_t before = epoch();
  wire::RegisterTargetRequest moved = Request(2, 11, 1);
  moved.set_host("elsewhere");
  EXPECT_EQ(VerdictOf(Register(moved)), JoinVerdict::kAdmitted);
  EXPECT_EQ(epoch(), before + 1);
  EXPECT_EQ(meta_->map()->FindTarget(TargetId(2))->host, "elsewhere");
}

TEST_F(MembershipTest, MembersAndAddressesSurviveARestart) {
  Join(Request(2, 11));
  Restart();
  EXPECT_EQ(meta_->map()->FindTarget(TargetId(2))->address, "10.0.0.2:7500");
  EXPECT_EQ(VerdictOf(Register(Request(2, 11, 1))), JoinVerdict::kAdmitted);
  orders_.incarnations.clear();
  const auto old = Register(Request(2, 12, 0));
  EXPECT_EQ(VerdictOf(old), JoinVerdict::kQuarantined);
  EXPECT_THAT(old->reason(), HasSubstr("older state"));
}

TEST_F(MembershipTest, NumberGrantedBeforeARestartIsConfirmedAfterIt) {
  const auto granted = Register(Request(2, 11));
  ASSERT_OK(granted);
  Restart();
  EXPECT_EQ(VerdictOf(Register(Request(2, 11, granted->admission()))),
            JoinVerdict::kAdmitted);
}

TEST_F(MembershipTest, DuplicateIsListedUntilItIsForgotten) {
  Join(Request(2, 11));
  wire::RegisterTargetRequest copy = Request(2, 12, 1);
  copy.set_directory("/copy");
  const auto turned_away = Register(copy);
  EXPECT_EQ(VerdictOf(turned_away), JoinVerdict::kQuarantined);
  EXPECT_THAT(turned_away->reason(), HasSubstr("is served by the process"));
  const uint64_t sequence = kv_->sequence();
  EXPECT_EQ(VerdictOf(Register(copy)), JoinVerdict::kQuarantined);
  EXPECT_EQ(kv_->sequence(), sequence);  // Noted once.
  Restart();
  ASSERT_EQ(List().quarantined_size(), 1);
  EXPECT_EQ(List().quarantined(0).directory(), "/copy");
  EXPECT_EQ(List().quarantined(0).cause(),
            static_cast<uint32_t>(QuarantineCause::kDuplicate));
  const auto status = Await(meta_->ClusterStatus(wire::ClusterStatusRequest()));
  ASSERT_OK(status);
  EXPECT_EQ(status->quarantined_size(), 1);
  EXPECT_TRUE(*Change(2, TargetChange::kForget));
  EXPECT_FALSE(*Change(2, TargetChange::kForget));
  Restart();
  EXPECT_EQ(List().quarantined_size(), 0);
}

TEST_F(MembershipTest, PlaceThatJoinsAfterAllLeavesTheQuarantine) {
  Join(Request(2, 11));
  EXPECT_EQ(VerdictOf(Register(Request(2, 12, 1))), JoinVerdict::kQuarantined);
  EXPECT_EQ(List().quarantined_size(), 1);
  EXPECT_EQ(VerdictOf(Register(Request(2, 11, 1))), JoinVerdict::kAdmitted);
  EXPECT_EQ(List().quarantined_size(), 0);
  Restart();
  EXPECT_EQ(List().quarantined_size(), 0);
}

TEST_F(MembershipTest, ForeignDiskIsNotedAndTouchesNoMember) {
  wire::RegisterTargetRequest foreign = Request(2, 11);
  foreign.set_cluster_id(std::string(16, 'f'));
  foreign.set_meta_sequence(1ULL << 40);
  EXPECT_EQ(VerdictOf(Register(foreign)), JoinVerdict::kQuarantined);
  EXPECT_EQ(List().quarantined_size(), 1);
  EXPECT_EQ(Join(Request(2, 12)), 1u);
}

TEST_F(MembershipTest, TargetThatHasSeenNewerMetadataIsRefused) {
  wire::RegisterTargetRequest request = Request(2, 11);
  request.set_meta_sequence(kv_->sequence() + 1000);
  EXPECT_THAT(Register(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, "old copy"));
  Shutdown();
  options_.accept_metadata_loss = true;
  OpenKv();
  OpenService();
  EXPECT_EQ(VerdictOf(Register(request)), JoinVerdict::kGranted);
  EXPECT_GT(kv_->sequence(), request.meta_sequence());
}

TEST_F(MembershipTest, RequestThatCannotBeIsRefused) {
  EXPECT_THAT(Register(Request(0, 11)),
              StatusIs(absl::StatusCode::kInvalidArgument, ""));
  EXPECT_THAT(Register(Request(2, 0)),
              StatusIs(absl::StatusCode::kInvalidArgument, ""));
  wire::RegisterTargetRequest request = Request(2, 11);
  request.set_host(std::string(300, 'h'));
  EXPECT_THAT(Register(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "host"));
}

TEST_F(MembershipTest, NewTargetGetsTheNextIdAndTheSameOneForItsNonce) {
  const auto first = Allocate(77);
  ASSERT_OK(first);
  EXPECT_EQ(first->target(), 4u);
  EXPECT_EQ(first->disk_generation(), 1u);
  EXPECT_EQ(Allocate(77)->target(), 4u);
  EXPECT_EQ(Allocate(78)->target(), 5u);
  Restart();
  EXPECT_EQ(Allocate(78)->target(), 5u);
  EXPECT_EQ(Allocate(79)->target(), 6u);
  EXPECT_THAT(Allocate(0), StatusIs(absl::StatusCode::kInvalidArgument, ""));
}

TEST_F(MembershipTest, IdOfARemovedTargetIsNotGivenAgain) {
  ASSERT_EQ(Allocate(77)->target(), 4u);
  EXPECT_TRUE(*Change(4, TargetChange::kRemove));
  EXPECT_EQ(Allocate(78)->target(), 5u);
  Restart();
  EXPECT_EQ(Allocate(79)->target(), 6u);
}

TEST_F(MembershipTest, NewTargetIsInServiceOnceItHasJoinedAndWasAdded) {
  const uint32_t id = Allocate(77)->target();
  EXPECT_THAT(Change(id, TargetChange::kAdd),
              StatusIs(absl::StatusCode::kFailedPrecondition, "not joined"));
  wire::RegisterTargetRequest request = Request(id, 21);
  request.clear_rack();
  Join(request);
  EXPECT_EQ(meta_->map()->FindTarget(TargetId(id)), nullptr);
  EXPECT_TRUE(*Change(id, TargetChange::kAdd));
  EXPECT_FALSE(*Change(id, TargetChange::kAdd));
  const format::TargetInfo* const info = meta_->map()->FindTarget(TargetId(id));
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->state, TargetState::kUp);
  EXPECT_EQ(info->address, absl::StrCat("10.0.0.", id, ":7500"));
  EXPECT_EQ(info->rack, "new-rack");  // As formatted.
  EXPECT_EQ(info->capacity_bytes, format::kGiB);
  Restart();
  EXPECT_NE(meta_->map()->FindTarget(TargetId(id)), nullptr);
}

TEST_F(MembershipTest, DrainingIsAStateThatCanBeTakenBack) {
  EXPECT_TRUE(*Change(2, TargetChange::kDrain));
  EXPECT_FALSE(*Change(2, TargetChange::kDrain));
  EXPECT_EQ(meta_->map()->FindTarget(TargetId(2))->state,
            TargetState::kDraining);
  EXPECT_TRUE(*Change(2, TargetChange::kUndrain));
  EXPECT_EQ(meta_->map()->FindTarget(TargetId(2))->state, TargetState::kUp);
  EXPECT_FALSE(*Change(2, TargetChange::kUndrain));
}

TEST_F(MembershipTest, TargetThatRowsNameIsNotRemoved) {
  const uint64_t before = epoch();
  EXPECT_THAT(Change(2, TargetChange::kRemove),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "2 of 3 placement groups of pool default"));
  EXPECT_THAT(
      Change(2, TargetChange::kRemove),
      StatusIs(absl::StatusCode::kFailedPrecondition, "cairn target drain 2"));
  EXPECT_EQ(epoch(), before);
}

TEST_F(MembershipTest, RemovedTargetIsTurnedAwayForGood) {
  const uint32_t id = AddSpare();
  EXPECT_TRUE(*Change(id, TargetChange::kRemove));
  EXPECT_FALSE(*Change(id, TargetChange::kRemove));
  EXPECT_EQ(meta_->map()->FindTarget(TargetId(id)), nullptr);
  const auto asks_again = Register(Request(id, 900, 1));
  EXPECT_EQ(VerdictOf(asks_again), JoinVerdict::kQuarantined);
  EXPECT_THAT(asks_again->reason(), HasSubstr("was removed"));
  Restart();
  EXPECT_EQ(VerdictOf(Register(Request(id, 901, 1))),
            JoinVerdict::kQuarantined);
  EXPECT_THAT(Change(id, TargetChange::kAdd),
              StatusIs(absl::StatusCode::kNotFound, "no target"));
  const wire::ListTargetsResponse listed = List();
  for (const wire::Member& member : listed.targets()) {
    EXPECT_NE(member.id(), id);
  }
}

TEST_F(MembershipTest, ListShowsRowsAndWhoIsNotInService) {
  const uint32_t id = Allocate(77)->target();
  const wire::ListTargetsResponse list = List();
  ASSERT_EQ(list.targets_size(), 4);
  EXPECT_EQ(list.targets(0).rows(), 2u);
  EXPECT_EQ(list.targets(0).state(), static_cast<uint32_t>(TargetState::kUp));
  EXPECT_EQ(list.targets(3).id(), id);
  EXPECT_EQ(list.targets(3).state(), 0u);
  EXPECT_EQ(list.targets(3).host(), "new-host");
}

TEST_F(MembershipTest, ChangeOfNoTargetIsNotFound) {
  for (const TargetChange change :
       {TargetChange::kAdd, TargetChange::kDrain, TargetChange::kRemove}) {
    EXPECT_THAT(Change(99, change),
                StatusIs(absl::StatusCode::kNotFound, "99"));
  }
  EXPECT_THAT(Change(2, static_cast<TargetChange>(77)),
              StatusIs(absl::StatusCode::kInvalidArgument, ""));
}

TEST_F(MembershipTest, PoolSpreadsItsRowsOverHosts) {
  const auto made = CreatePool(PoolRequest("second"));
  ASSERT_OK(made);
  EXPECT_FALSE(made->existed());
  const format::Pool* const pool = meta_->map()->FindPool("second");
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->id, format::PoolId(2));
  EXPECT_EQ(pool->pg_count, made->pool().pg_count());
  EXPECT_EQ(pool->stripe_width, pool->pg_count);
  for (uint32_t pg = 0; pg < pool->pg_count; ++pg) {
    std::set<std::string> hosts;
    for (const TargetId id : pool->PgTargets(pg)) {
      hosts.insert(meta_->map()->FindTarget(id)->host);
    }
    EXPECT_EQ(hosts.size(), 2u);
  }
}

TEST_F(MembershipTest, PoolThatIsMadeTwiceIsOneButNotWithOtherOptions) {
  ASSERT_OK(CreatePool(PoolRequest("second")));
  const uint64_t before = epoch();
  const auto again = CreatePool(PoolRequest("second"));
  ASSERT_OK(again);
  EXPECT_TRUE(again->existed());
  EXPECT_EQ(epoch(), before);
  wire::CreatePoolRequest other = PoolRequest("second");
  other.set_chunk_size(128 * 1024);
  EXPECT_THAT(CreatePool(other),
              StatusIs(absl::StatusCode::kAlreadyExists, "pool ls"));
}

TEST_F(MembershipTest, PoolWithTooFewHostsSaysHowManyThereAre) {
  wire::CreatePoolRequest request = PoolRequest("wide");
  request.mutable_scheme()->set_parity_shards(3);
  const uint64_t before = epoch();
  EXPECT_THAT(CreatePool(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "needs 4 different hosts; there are 3"));
  request = PoolRequest("racks");
  request.set_failure_domain(
      static_cast<uint32_t>(format::FailureDomain::kRack));
  EXPECT_THAT(CreatePool(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "rack"));
  EXPECT_EQ(epoch(), before);
}

TEST_F(MembershipTest, PoolThatCannotBeChangesNothing) {
  const uint64_t before = epoch();
  EXPECT_THAT(CreatePool(PoolRequest("a/b")),
              StatusIs(absl::StatusCode::kInvalidArgument, ""));
  wire::CreatePoolRequest request = PoolRequest("odd");
  request.set_chunk_size(5000);
  EXPECT_THAT(CreatePool(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "chunk size"));
  request = PoolRequest("none");
  request.clear_scheme();
  EXPECT_THAT(CreatePool(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "scheme"));
  EXPECT_EQ(epoch(), before);
}

TEST_F(MembershipTest, DrainingTargetGetsNoRowOfANewPool) {
  ASSERT_OK(Change(3, TargetChange::kDrain));
  ASSERT_OK(CreatePool(PoolRequest("second")));
  for (const TargetId id : meta_->map()->FindPool("second")->pg_targets) {
    EXPECT_NE(id, TargetId(3));
  }
}

}  // namespace
}  // namespace cairn::server
