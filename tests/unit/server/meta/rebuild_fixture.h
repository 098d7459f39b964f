// A metadata service with five targets that are played, and what tests of the
// moves of shards ask of it.
#pragma once

#include <algorithm>
#include <string>

#include "format/wire/rebuild_state.h"
#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {

using format::ClusterMap;
using format::RebuildState;
using format::TargetId;
using format::TargetState;

// Replicate:2 over five targets and ten rows.
class RebuildTest : public MetaTest {
 protected:
  RebuildTest() {
    options_.lease_ns = 10'000 * io::kSecond;
    options_.health.map_pause_ns = io::kMillisecond;
    options_.rebuild.out_after_ns = 60 * io::kSecond;
    Answer(RebuildState::kRunning);
    Restart();
    CAIRN_CHECK(Await(meta_->ReplaceMap(WithFiveTargets())).ok());
    session_ = OpenSession("host/1/later", 2);
    meta_->Start();
    Sleep(5 * io::kSecond);
  }
  ClusterMap WithFiveTargets() {
    ClusterMap next = *meta_->map();
    next.epoch = format::Epoch(next.epoch.value + 1);
    for (uint32_t id = 4; id <= 5; ++id) {
      format::TargetInfo target;
      target.id = TargetId(id);
      target.host = absl::StrCat("host", id);
      target.capacity_bytes = format::kGiB;
      next.targets[target.id] = target;
    }
    format::Pool& pool = next.pools.begin()->second;
    pool.pg_count = 10;
    pool.stripe_width = 10;
    pool.pg_targets.clear();
    for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
      pool.pg_targets.push_back(TargetId(1 + pg % 5));
      pool.pg_targets.push_back(TargetId(1 + (pg + 1 + pg / 5) % 5));
    }
    pool.pg_epochs.clear();
    return next;
  }

  // As of a new process: with all loops.
  void RestartRunning() {
    Restart();
    meta_->Start();
    Sleep(2 * io::kSecond);
  }
  void Answer(RebuildState state) {
    orders_.rebuild_answer.Clear();
    orders_.rebuild_answer.set_state(static_cast<uint32_t>(state));
  }
  const format::Pool& Pool() { return meta_->map()->pools.begin()->second; }
  TargetState StateOf(uint32_t id) {
    return meta_->map()->FindTarget(TargetId(id))->state;
  }
  uint64_t RowsOf(uint32_t id) {
    const auto map = meta_->map();
    const auto& slots = map->pools.begin()->second.pg_targets;
    return static_cast<uint64_t>(
        std::count(slots.begin(), slots.end(), TargetId(id)));
  }
  void Change(uint32_t id, format::TargetChange change) {
    wire::ChangeTargetRequest request;
    request.set_target(id);
    request.set_change(static_cast<uint32_t>(change));
    ASSERT_OK(Await(meta_->membership().Change(std::move(request))));
  }
  void Drain(uint32_t id) { Change(id, format::TargetChange::kDrain); }
  uint64_t ClosedRows() { return Pool().closed_pgs.size(); }
  void Lose(uint32_t id) { orders_.failing.insert(TargetId(id)); }
  // Down, and out after the grace time.
  void LoseForGood(uint32_t id) {
    Lose(id);
    Sleep(80 * io::kSecond);
    ASSERT_EQ(StateOf(id), TargetState::kOut);
  }
  std::string Problems() {
    std::string all;
    const wire::RebuildStatus report = meta_->rebuild().Report();
    for (const std::string& problem : report.problems()) {
      absl::StrAppend(&all, problem, "\n");
    }
    return all;
  }
  void ExpectRowsAreWhole() {
    const auto map = meta_->map();
    const format::Pool& pool = map->pools.begin()->second;
    for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
      EXPECT_TRUE(map->PgHealthy(pool, pg)) << pg;
    }
  }
};

}  // namespace cairn::server
