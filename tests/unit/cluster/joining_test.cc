// Targets that join by themselves, in a whole simulated cluster: processes that
// die at any time, messages that get lost, disks that are copied.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/cluster/sim_cluster.h"
#include "tests/support/status_matchers.h"

namespace cairn::sim {
namespace {

using format::TargetId;
using io::kSecond;
using ::testing::HasSubstr;

// Of what a process of targets holds back at most before it asks again.
constexpr io::TimeNs kJoinTime = 40 * kSecond;

ClusterOptions Joining(uint64_t seed) {
  ClusterOptions options;
  options.seed = seed;
  options.scheme = "replicate:2";
  options.join = true;
  return options;
}

// Everything below a directory, to the same path of another disk.
void CopyTree(Disk* from, Disk* to, const std::string& path) {
  CAIRN_CHECK(to->MakeDirectory(path).ok());
  const auto names = from->List(path);
  CAIRN_CHECK(names.ok());
  for (const std::string& name : *names) {
    const std::string child = absl::StrCat(path, "/", name);
    const auto info = from->Stat(child);
    CAIRN_CHECK(info.ok() && info->has_value());
    if ((*info)->is_directory) {
      CopyTree(from, to, child);
      continue;
    }
    const auto source = from->Open(child, io::OpenOptions());
    CAIRN_CHECK(source.ok());
    std::vector<uint8_t> bytes((*info)->size_bytes);
    CAIRN_CHECK(from->Read(source->get(), 0, bytes).ok());
    io::OpenOptions create;
    create.write = true;
    create.create = true;
    const auto target = to->Open(child, create);
    CAIRN_CHECK(target.ok());
    CAIRN_CHECK(to->Write(target->get(), 0, bytes).ok());
  }
}

class JoiningTest : public ::testing::Test {
 protected:
  using Joiner = server::Joiner;

  ~JoiningTest() override { EndCopy(); }

  void MakeCluster(uint64_t seed) {
    EndCopy();
    cluster_.reset();
    cluster_ = std::make_unique<SimCluster>(Joining(seed));
  }
  const format::TargetInfo& InMap(uint32_t target) {
    return *cluster_->meta()->service()->map()->FindTarget(TargetId(target));
  }
  bool AwaitServes(uint32_t target) {
    const io::TimeNs give_up = cluster_->world()->NowNs() + kJoinTime;
    while (!cluster_->TargetServes(target) &&
           cluster_->world()->NowNs() < give_up) {
      cluster_->Sleep(10 * io::kMillisecond);
    }
    return cluster_->TargetServes(target);
  }
  void Restart(uint32_t target) {
    cluster_->KillTarget(target);
    ASSERT_OK(cluster_->Await(cluster_->StartTarget(target)));
  }
  // A process on a node of its own that serves a copy of the target's disk.
  void CopyDisk(uint32_t target) {
    copy_node_ = cluster_->world()->AddNode();
    CopyTree(cluster_->world()->disk(cluster_->TargetNode(target)),
             cluster_->world()->disk(*copy_node_),
             cluster_->TargetDirectory(target));
  }
  Joiner::State StartCopy(uint32_t target) {
    SimEnv* const env = cluster_->world()->Start(*copy_node_, 4);
    SimTarget copy;
    copy.identity = {cluster_->cluster_id(), TargetId(target), 1};
    copy.directory = cluster_->TargetDirectory(target);
    server::JoinerOptions join = cluster_->JoinOptions(target);
    join.host = "elsewhere";
    copy_ = std::make_unique<TargetProcess>(env, std::vector<SimTarget>{copy},
                                            7500, std::move(join));
    EXPECT_OK(cluster_->Await(copy_->Open()));
    EXPECT_TRUE(cluster_->Await(copy_->joiner()->AwaitDecided()));
    return copy_->joiner()->states().front();
  }
  void EndCopy() {
    if (copy_ == nullptr) return;
    cluster_->world()->Kill(copy_->env());
    cluster_->Await(CloseCopy());
    copy_.reset();
  }
  io::Task<bool> CloseCopy() {
    co_await copy_->Close();
    co_return true;
  }
  uint64_t Admission(uint32_t target) {
    return cluster_->store(target)->identity().admission;
  }

  std::unique_ptr<SimCluster> cluster_;
  std::optional<NodeId> copy_node_;
  std::unique_ptr<TargetProcess> copy_;
};

TEST_F(JoiningTest, TargetsAreFoundByWhatTheySay) {
  MakeCluster(1);
  for (uint32_t target = 1; target <= 3; ++target) {
    EXPECT_TRUE(cluster_->TargetServes(target));
    EXPECT_EQ(Admission(target), 1u);
    EXPECT_THAT(InMap(target).address, HasSubstr(":"));
  }
  // It fetches the map, and opens a session.
  EXPECT_NE(cluster_->NewClient("reader"), nullptr);
}

TEST_F(JoiningTest, TargetThatStartsAgainIsFoundAtItsNewAddress) {
  MakeCluster(2);
  const std::string before = InMap(2).address;
  Restart(2);
  ASSERT_TRUE(AwaitServes(2));
  EXPECT_NE(InMap(2).address, before);
  EXPECT_EQ(Admission(2), 2u);
}

TEST_F(JoiningTest, TargetWaitsForMetadataThatIsAwayAtItsStart) {
  MakeCluster(3);
  cluster_->KillMeta();
  Restart(1);
  cluster_->Sleep(100 * kSecond);
  EXPECT_FALSE(cluster_->TargetServes(1));
  EXPECT_NE(cluster_->JoinProblem(1), "");
  ASSERT_OK(cluster_->Await(cluster_->StartMeta()));
  EXPECT_TRUE(AwaitServes(1));
}

TEST_F(JoiningTest, WhatWasLetInIsServedWhileMetadataIsAway) {
  MakeCluster(4);
  cluster_->KillMeta();
  cluster_->Sleep(100 * kSecond);
  EXPECT_TRUE(cluster_->TargetServes(1));
  ASSERT_OK(cluster_->Await(cluster_->StartMeta()));
  cluster_->Sleep(20 * kSecond);
  EXPECT_TRUE(cluster_->TargetServes(1));
  EXPECT_EQ(Admission(1), 1u);
  EXPECT_NE(InMap(1).address, "");
}

TEST_F(JoiningTest, CopyBesideItsTargetIsTurnedAwayAndTheTargetServesOn) {
  MakeCluster(5);
  cluster_->KillTarget(2);
  CopyDisk(2);
  ASSERT_OK(cluster_->Await(cluster_->StartTarget(2)));
  ASSERT_TRUE(AwaitServes(2));
  const Joiner::State state = StartCopy(2);
  EXPECT_FALSE(state.served);
  EXPECT_THAT(state.problem, HasSubstr("is served by the process at"));
  EXPECT_THAT(state.problem, HasSubstr("on host elsewhere"));
  cluster_->Sleep(20 * kSecond);
  EXPECT_TRUE(cluster_->TargetServes(2));
}

TEST_F(JoiningTest, OldImageIsTurnedAwayHoweverOftenItStarts) {
  MakeCluster(6);
  cluster_->KillTarget(2);
  CopyDisk(2);
  ASSERT_OK(cluster_->Await(cluster_->StartTarget(2)));
  ASSERT_TRUE(AwaitServes(2));
  cluster_->KillTarget(2);
  for (int start = 0; start < 5; ++start) {
    const Joiner::State state = StartCopy(2);
    EXPECT_FALSE(state.served);
    EXPECT_THAT(state.problem, HasSubstr("older state of target 2"));
    EndCopy();
  }
  ASSERT_OK(cluster_->Await(cluster_->StartTarget(2)));
  EXPECT_TRUE(AwaitServes(2));
}

TEST_F(JoiningTest, DiskThatMovedToAnotherNodeIsTheTargetFromThenOn) {
  MakeCluster(7);
  cluster_->KillTarget(2);
  CopyDisk(2);
  EXPECT_TRUE(StartCopy(2).served);
  EXPECT_EQ(InMap(2).address, copy_->address());
  EXPECT_EQ(InMap(2).host, "elsewhere");
  // What was left behind is the old image now.
  ASSERT_OK(cluster_->Await(cluster_->StartTarget(2)));
  cluster_->Sleep(20 * kSecond);
  EXPECT_FALSE(cluster_->TargetServes(2));
  EXPECT_THAT(cluster_->JoinProblem(2), HasSubstr("is served by"));
}

TEST_F(JoiningTest, ProcessThatWasCutOffAndReplacedStopsServing) {
  MakeCluster(8);
  cluster_->Sleep(kSecond);
  const NodeId node = cluster_->TargetNode(2);
  // A copy of a disk in use, as a snapshot is; its target seems dead.
  CopyDisk(2);
  cluster_->world()->network()->Partition(node, cluster_->meta_node());
  EXPECT_TRUE(StartCopy(2).served);
  EXPECT_TRUE(cluster_->TargetServes(2));  // Nobody could tell it.
  cluster_->world()->network()->HealAll();
  cluster_->Sleep(30 * kSecond);
  EXPECT_FALSE(cluster_->TargetServes(2));
  EXPECT_TRUE(copy_->joiner()->states().front().served);
}

// Whatever gets lost: a target that the disk is not lying about comes back.
TEST_F(JoiningTest, LostAnswersAndCrashesAtAnyTimeKeepNoTargetAway) {
  for (uint64_t seed = 10; seed < 25; ++seed) {
    SCOPED_TRACE(seed);
    MakeCluster(seed);
    cluster_->world()->network()->set_reset_one_in(8);
    Random* const random = cluster_->random();
    for (int round = 0; round < 6; ++round) {
      const auto target = static_cast<uint32_t>(random->Between(1, 3));
      if (random->OneIn(2)) {
        cluster_->KillTarget(target);
      } else {
        cluster_->CrashTarget(target);
      }
      if (random->OneIn(3)) {
        cluster_->KillMeta();
        ASSERT_OK(cluster_->Await(cluster_->StartMeta()));
      }
      ASSERT_OK(cluster_->Await(cluster_->StartTarget(target)));
      cluster_->Sleep(random->Between(0, 50) * io::kMillisecond);
    }
    cluster_->world()->network()->set_reset_one_in(0);
    for (uint32_t target = 1; target <= 3; ++target) {
      EXPECT_TRUE(AwaitServes(target)) << cluster_->JoinProblem(target);
    }
    // A late request of a process that is gone is noted until the holder asks.
    cluster_->Sleep(10 * kSecond);
    wire::ListTargetsRequest request;
    const auto list = cluster_->Await(
        cluster_->meta()->service()->membership().List(request));
    ASSERT_OK(list);
    EXPECT_EQ(list->quarantined_size(), 0);
  }
}

}  // namespace
}  // namespace cairn::sim
