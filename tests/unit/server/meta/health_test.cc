// Heartbeats of a whole metadata service: which maps they make.
#include "server/meta/health.h"

#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

using format::Epoch;
using format::TargetId;
using format::TargetState;
using io::kSecond;
using ::testing::HasSubstr;

class HealthTest : public MetaTest {
 protected:
  HealthTest() { meta_->Start(); }
  TargetState StateOf(uint32_t target) {
    return meta_->map()->FindTarget(TargetId(target))->state;
  }
  uint64_t epoch() { return meta_->map()->epoch.value; }
  wire::ClusterStatusResponse Status() {
    auto response = Await(meta_->ClusterStatus(wire::ClusterStatusRequest()));
    EXPECT_OK(response);
    return response.ok() ? *response : wire::ClusterStatusResponse();
  }
};

TEST_F(HealthTest, TargetThatDoesNotAnswerGetsSuspectThenDownThenUpAgain) {
  Sleep(5 * kSecond);
  EXPECT_EQ(epoch(), 1u);
  orders_.failing.insert(TargetId(2));
  Sleep(5 * kSecond);
  EXPECT_EQ(StateOf(2), TargetState::kSuspect);
  Sleep(7 * kSecond);
  EXPECT_EQ(StateOf(2), TargetState::kDown);
  EXPECT_EQ(StateOf(1), TargetState::kUp);
  EXPECT_EQ(epoch(), 3u);
  orders_.failing.clear();
  Sleep(4 * kSecond);
  EXPECT_EQ(StateOf(2), TargetState::kDown);
  Sleep(4 * kSecond);
  EXPECT_EQ(StateOf(2), TargetState::kUp);
  EXPECT_EQ(epoch(), 4u);
}

TEST_F(HealthTest, StatesChangeNoRow) {
  orders_.failing.insert(TargetId(1));
  Sleep(12 * kSecond);
  EXPECT_EQ(epoch(), 3u);
  const format::Pool& pool = meta_->map()->pools.begin()->second;
  for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
    EXPECT_EQ(meta_->map()->PgEpoch(pool, pg), Epoch(1));
  }
}

TEST_F(HealthTest, AllThatChangesInARoundIsOneMap) {
  for (uint32_t id = 1; id <= 3; ++id) orders_.failing.insert(TargetId(id));
  Sleep(5 * kSecond);
  for (uint32_t id = 1; id <= 3; ++id) {
    EXPECT_EQ(StateOf(id), TargetState::kSuspect);
  }
  EXPECT_EQ(epoch(), 2u);
}

TEST_F(HealthTest, ChangesWithinThePauseWaitForTheNextMap) {
  Shutdown();
  options_.health.map_pause_ns = 60 * kSecond;
  OpenKv();
  OpenService();
  meta_->Start();
  orders_.failing.insert(TargetId(1));
  Sleep(5 * kSecond);
  EXPECT_EQ(epoch(), 2u);
  orders_.failing.insert(TargetId(2));
  Sleep(50 * kSecond);
  EXPECT_EQ(epoch(), 2u);
  Sleep(15 * kSecond);
  EXPECT_EQ(epoch(), 3u);
  EXPECT_EQ(StateOf(1), TargetState::kDown);
  EXPECT_EQ(StateOf(2), TargetState::kDown);
}

TEST_F(HealthTest, AfterARestartNobodyIsDownBeforeAWholeDownAfter) {
  orders_.failing.insert(TargetId(1));
  Sleep(9 * kSecond);
  ASSERT_EQ(StateOf(1), TargetState::kSuspect);
  Restart();
  meta_->Start();
  Sleep(9 * kSecond);
  EXPECT_EQ(StateOf(1), TargetState::kSuspect);
  Sleep(3 * kSecond);
  EXPECT_EQ(StateOf(1), TargetState::kDown);
}

TEST_F(HealthTest, ServiceThatStoodStillTakesNobodyForDown) {
  Sleep(3 * kSecond);
  world_.Pause(env_, 60 * kSecond);
  Sleep(70 * kSecond);
  EXPECT_EQ(epoch(), 1u);
}

TEST_F(HealthTest, FlappingTargetMakesFewMaps) {
  for (int i = 0; i < 60; ++i) {
    orders_.failing.insert(TargetId(3));
    Sleep(4 * kSecond);
    orders_.failing.clear();
    Sleep(7 * kSecond);
  }
  EXPECT_EQ(StateOf(3), TargetState::kSuspect);
  EXPECT_LE(epoch(), 5u);
}

TEST_F(HealthTest, TargetThatTakesNoWritesIsSuspectWithItsReason) {
  orders_.problems[TargetId(3)] = "the disk of /t3 hangs since 20 s";
  Sleep(2 * kSecond);
  EXPECT_EQ(StateOf(3), TargetState::kSuspect);
  EXPECT_THAT(Status().target_health(2).reason(),
              HasSubstr("the disk of /t3 hangs"));
}

TEST_F(HealthTest, StatusSaysSinceWhenAndWhyATargetIsDown) {
  Sleep(30 * kSecond);
  orders_.failing.insert(TargetId(2));
  Sleep(20 * kSecond);
  const wire::ClusterStatusResponse status = Status();
  ASSERT_EQ(status.target_health_size(), 3);
  EXPECT_THAT(status.target_health(1).reason(), HasSubstr("no answer for 2"));
  EXPECT_THAT(status.target_health(1).reason(), HasSubstr("target is down"));
  EXPECT_GE(status.target_health(1).since_ms(), 8'000u);
  EXPECT_LE(status.target_health(1).since_ms(), 12'000u);
  EXPECT_EQ(status.target_health(0).reason(), "");
  EXPECT_GE(status.target_health(0).since_ms(), 49'000u);
  EXPECT_THAT(status.target_errors(1), HasSubstr("no answer for"));
  EXPECT_EQ(status.brake(), "");
}

TEST_F(HealthTest, BrakeEngagesWhileMoreThanItsShareIsDown) {
  for (uint32_t id = 1; id <= 2; ++id) orders_.failing.insert(TargetId(id));
  Sleep(13 * kSecond);
  EXPECT_EQ(StateOf(2), TargetState::kDown);
  EXPECT_EQ(meta_->health().brake(), "");
  orders_.failing.insert(TargetId(3));
  Sleep(13 * kSecond);
  EXPECT_EQ(StateOf(3),
            TargetState::kDown);  // Reads go around it all the same.
  EXPECT_THAT(Status().brake(), HasSubstr("3 of 3 targets are down"));
  orders_.failing.clear();
  Sleep(13 * kSecond);
  EXPECT_EQ(StateOf(3), TargetState::kUp);
  EXPECT_EQ(Status().brake(), "");
}

TEST(BrakeLimit, IsTheShareButAtLeastTwo) {
  HealthOptions options;
  EXPECT_EQ(BrakeLimit(options, 1), 2u);
  EXPECT_EQ(BrakeLimit(options, 6), 2u);
  EXPECT_EQ(BrakeLimit(options, 9), 3u);
  EXPECT_EQ(BrakeLimit(options, 300), 100u);
  options.brake_share = 0.1;
  EXPECT_EQ(BrakeLimit(options, 300), 30u);
}

// What an operator or another part changes meanwhile is kept.
TEST_F(HealthTest, MapThatOthersReplacedIsFollowed) {
  Sleep(2 * kSecond);
  format::ClusterMap next = *meta_->map();
  next.epoch = Epoch(2);
  next.targets[TargetId(1)].state = TargetState::kDraining;
  format::TargetInfo fresh = next.targets[TargetId(3)];
  fresh.id = TargetId(4);
  next.targets[fresh.id] = fresh;
  ASSERT_OK(Await(meta_->ReplaceMap(next)));
  orders_.failing.insert(TargetId(1));
  orders_.failing.insert(TargetId(4));
  Sleep(13 * kSecond);
  EXPECT_EQ(StateOf(1), TargetState::kDraining);
  EXPECT_EQ(StateOf(4), TargetState::kDown);
}

TEST_F(HealthTest, DeleteOrdersWaitForATargetThatIsDown) {
  const uint64_t file = MakeFile(kRoot, "f");
  const uint64_t blob = AllocateBlobs(session_, 1)[0];
  ASSERT_OK(Write(file, 0, 100, blob));
  ASSERT_OK(Unlink(kRoot, "f"));
  orders_.failing.insert(TargetId(2));
  Sleep(12 * kSecond);
  ASSERT_EQ(StateOf(2), TargetState::kDown);
  const uint64_t ordered = orders_.delete_orders[TargetId(2)];
  EXPECT_GT(ordered, 0u);
  Sleep(10 * kSecond);
  EXPECT_EQ(orders_.delete_orders[TargetId(2)], ordered);
  EXPECT_EQ(KeysOf(format::KeyKind::kBlob), 1u);
  orders_.failing.clear();
  Sleep(20 * kSecond);
  EXPECT_TRUE(orders_.deleted[format::BlobId(blob)].contains(TargetId(2)));
  EXPECT_EQ(KeysOf(format::KeyKind::kBlob), 0u);
}

}  // namespace
}  // namespace cairn::server
