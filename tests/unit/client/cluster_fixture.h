// A simulated cluster and what most tests of the client do with it: ranks that
// save in the background, one process each, and loads.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/cluster/sample_model.h"
#include "tests/sim/cluster/sim_cluster.h"
#include "tests/support/status_matchers.h"

namespace cairn::client {

using ::cairn::testing::StatusIs;
using ::testing::HasSubstr;

inline constexpr char kSetPath[] = "/ckpt/run1/step-100";

inline CheckpointWriter::Options RankOptions(uint32_t rank, uint32_t ranks,
                                             uint64_t attempt = 1) {
  CheckpointWriter::Options options;
  options.path = kSetPath;
  options.set_id = "step-100";
  options.attempt = attempt;
  options.world_size = ranks;
  options.rank = rank;
  return options;
}

class ClusterTest : public ::testing::Test {
 protected:
  // One rank's process and how its save ended; null while it goes on.
  struct Rank {
    sim::SimClient* client;
    std::optional<absl::Status> saved;
  };

  void MakeCluster(sim::ClusterOptions options) {
    cluster_.reset();  // One at a time.
    ranks_.clear();
    cluster_ = std::make_unique<sim::SimCluster>(std::move(options));
  }
  void MakeModel(uint64_t seed, uint64_t bytes) {
    model_ = sim::MakeSampleModel(seed, bytes);
  }

  // Starts a save in a new process; it goes on while the world does.
  Rank* StartSave(CheckpointWriter::Options options) {
    Rank& rank = ranks_.emplace_back();
    rank.client = cluster_->NewClient(
        absl::StrCat("rank-", options.rank, "-of-attempt-", options.attempt));
    rank.client->Spawn(sim::SimCluster::Keep(
        sim::SaveSample(rank.client->core(), std::move(options), &model_),
        &rank.saved));
    return &rank;
  }
  void StartSaves(uint32_t ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      StartSave(RankOptions(rank, ranks));
    }
  }
  // Lets the world run until every save has ended.
  void AwaitSaves() {
    const io::TimeNs patience = cluster_->world()->NowNs() + 600 * io::kSecond;
    for (const Rank& rank : ranks_) {
      while (!rank.saved) {
        ASSERT_LT(cluster_->world()->NowNs(), patience) << "a save hangs";
        cluster_->Sleep(10 * io::kMillisecond);
      }
    }
  }
  void ExpectAllSaved() {
    AwaitSaves();
    for (const Rank& rank : ranks_) {
      ASSERT_TRUE(rank.saved.has_value());
      EXPECT_OK(*rank.saved);
    }
  }

  // Loads the whole set as `ranks` ranks through one client.
  absl::Status Load(sim::SimClient* client, uint32_t ranks = 1) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      CAIRN_RETURN_IF_ERROR(cluster_->Await(
          sim::LoadSample(client->core(), kSetPath, &model_, rank, ranks)));
    }
    return absl::OkStatus();
  }
  uint64_t ChunksStored() {
    uint64_t chunks = 0;
    for (uint32_t t = 1; t <= cluster_->options().targets; ++t) {
      if (cluster_->TargetRuns(t)) chunks += cluster_->store(t)->stats().chunks;
    }
    return chunks;
  }

  // Before the cluster: what runs there refers to them to its end.
  sim::SampleModel model_;
  std::deque<Rank> ranks_;
  std::unique_ptr<sim::SimCluster> cluster_;
};

}  // namespace cairn::client
