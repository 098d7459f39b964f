#include "tests/sim/campaign/tunables.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "format/cluster/cluster_map.h"

namespace cairn::sim {

using format::kKiB;
using format::kMiB;
using io::kMillisecond;
using io::kSecond;

namespace {

template <typename T, size_t N>
T Pick(Random* random, const T (&choices)[N]) {
  return choices[random->Below(N)];
}

uint32_t Draw(Random* random, uint32_t low, uint32_t high) {
  return static_cast<uint32_t>(random->Between(low, high));
}

// Even in the logarithm: small values are as likely as large ones.
uint64_t DrawScale(Random* random, uint64_t low, uint64_t high) {
  uint64_t top = low;
  while (top < high && random->OneIn(2) == false) top *= 2;
  return random->Between(low, std::min(std::max(top, low), high));
}

void DrawCluster(Random* random, Tunables* t) {
  struct Choice {
    const char* scheme;
    uint32_t shards, parity;
  };
  static constexpr Choice kChoices[] = {
      {"replicate:1", 1, 0}, {"replicate:2", 2, 1}, {"replicate:2", 2, 1},
      {"replicate:3", 3, 2}, {"rs:2+1", 3, 1},      {"rs:2+1", 3, 1},
      {"rs:4+2", 6, 2}};
  const Choice& choice = kChoices[random->Below(std::size(kChoices))];
  ClusterOptions& c = t->cluster;
  c.seed = t->seed;
  c.scheme = choice.scheme;
  t->shards = choice.shards;
  t->parity = choice.parity;
  c.targets = choice.shards + Draw(random, 0, 2);
  c.targets_per_node = random->OneIn(3) ? 2 : 1;
  static constexpr uint32_t kChunks[] = {4, 8, 16, 16, 64, 128};
  c.chunk_size = static_cast<uint32_t>(Pick(random, kChunks) * kKiB);
  c.target_capacity_bytes = 64 * kMiB;
  c.slab_bytes = 16 * kMiB;
  c.fixed_ports = random->OneIn(3);
  c.target_pool_buffers = random->OneIn(3) ? 2 : Draw(random, 3, 8);
  c.client_timeout_ms = DrawScale(random, 3'000, 40'000);
  c.client_write_window_bytes = DrawScale(random, 4 * kKiB, 32 * kMiB);
  c.client_read_window_bytes = DrawScale(random, 4 * kKiB, 32 * kMiB);
}

void DrawMeta(Random* random, server::MetaOptions* meta) {
  meta->lease_ns = Draw(random, 1000, 12'000) * kMillisecond;
  meta->tick_ns = DrawScale(random, 20, 1000) * kMillisecond;
  meta->clock_save_ns = Draw(random, 1, 10) * kSecond;
  meta->trash_grace_ms = DrawScale(random, 500, 60'000);
  meta->garbage_retry_ms = DrawScale(random, 100, 5'000);
  meta->open_set_idle_ns = Draw(random, 60, 300) * kSecond;
}

// Small against the time that faults last, so that targets do get down, and up
// again, many times within a seed.
void DrawHealth(Random* random, server::HealthOptions* health) {
  health->heartbeat_ns = DrawScale(random, 100, 500) * kMillisecond;
  health->suspect_after_ns = health->heartbeat_ns * Draw(random, 2, 4);
  health->down_after_ns =
      health->suspect_after_ns + DrawScale(random, 200, 3000) * kMillisecond;
  health->up_after_ns = DrawScale(random, 100, 2000) * kMillisecond;
  health->up_after_max_ns = health->up_after_ns * Draw(random, 1, 6);
  health->forget_falls_ns = Draw(random, 2, 60) * kSecond;
  health->map_pause_ns = DrawScale(random, 50, 1000) * kMillisecond;
}

// Faults are short: a lease that is shorter than most ends sessions of clients
// that live on, and open sets are given up while others still save.
void DrawShortTimes(Random* random, server::MetaOptions* meta) {
  if (random->OneIn(3)) meta->lease_ns = Draw(random, 300, 1000) * kMillisecond;
  if (random->OneIn(3)) meta->open_set_idle_ns = Draw(random, 2, 10) * kSecond;
}

constexpr uint32_t kLongChunkOperationsMax = 60;
constexpr uint32_t kLongChunkSavesMax = 6;

// Chunks of several checksum blocks, and enough bytes to fill them.
void DrawLongChunks(Random* random, Tunables* t) {
  if (!random->OneIn(10)) return;
  t->cluster.chunk_size =
      static_cast<uint32_t>(random->Between(2, 3) * format::kBlockBytes);
  // What was overwritten or deleted takes up space until its grace is over.
  t->cluster.target_capacity_bytes = format::kGiB;
  const uint64_t enough = 2 * t->cluster.chunk_size;
  t->files.file_bytes = std::max(t->files.file_bytes, enough);
  t->checkpoints.model_bytes = std::max(t->checkpoints.model_bytes, enough);
  // The ledger keeps every state of every file: no more bytes than elsewhere.
  t->files.operations = std::min(t->files.operations, kLongChunkOperationsMax);
  t->checkpoints.saves = std::min(t->checkpoints.saves, kLongChunkSavesMax);
}

void DrawWorld(Random* random, WorldOptions* world) {
  world->shuffle_ready = random->OneIn(2);
  world->disk.latency_ns_max = DrawScale(random, 30'000, 3'000'000);
  world->disk.sync_ns_max = DrawScale(random, 100'000, 20'000'000);
  world->network.latency_ns_max = DrawScale(random, 50'000, 10'000'000);
  world->network.segment_bytes_max = DrawScale(random, 4 * kKiB, 64 * kKiB);
  world->network.window_bytes = DrawScale(random, 16 * kKiB, 256 * kKiB);
}

void DrawLoads(Random* random, Tunables* t) {
  const bool checkpoints = !random->OneIn(4);
  const bool files = !checkpoints || !random->OneIn(3);
  if (checkpoints) {
    t->checkpoints.runs = random->OneIn(3) ? 2 : 1;
    t->checkpoints.saves = Draw(random, 4, 16);
    t->checkpoints.ranks_max = Draw(random, 1, 6);
    t->checkpoints.model_bytes = DrawScale(random, 16 * kKiB, 512 * kKiB);
    t->checkpoints.death_one_in = random->OneIn(2) ? Draw(random, 2, 6) : 0;
  }
  if (files) {
    t->files.writers = Draw(random, 1, 3);
    t->files.operations = Draw(random, 60, 250);
    t->files.files = Draw(random, 1, 6);
    t->files.file_bytes = DrawScale(random, 8 * kKiB, 256 * kKiB);
  }
  t->readers.readers = Draw(random, 0, 2);
  t->readers.pause_max = DrawScale(random, 10, 1000) * kMillisecond;
}

bool NeedsTwoCopies(Attack kind) {
  return ClassOf(kind) == AttackClass::kDamage;
}

// DrawLosses(), DrawDrains().
bool IsDrawnApart(Attack kind) {
  return kind == Attack::kLoseTarget || kind == Attack::kDrainTarget;
}

void EnsureOneOf(Random* random, AttackClass kinds, FaultLoad* faults) {
  std::vector<size_t> all;
  for (size_t i = 0; i < kAttacks; ++i) {
    const Attack kind = static_cast<Attack>(i);
    if (ClassOf(kind) != kinds || kind == Attack::kRankDeath ||
        IsDrawnApart(kind)) {
      continue;
    }
    if (faults->weights[i] > 0) return;
    all.push_back(i);
  }
  if (!random->OneIn(50)) faults->weights[all[random->Below(all.size())]] = 2;
}

void DrawFaults(Random* random, Tunables* t) {
  FaultLoad& faults = t->faults;
  if (random->OneIn(40)) return;  // A seed without faults: no error at all.
  for (size_t i = 0; i < kAttacks; ++i) {
    if (IsDrawnApart(static_cast<Attack>(i))) continue;
    const bool on = random->OneIn(2);
    const uint32_t weight = Draw(random, 1, 4);
    if (!on) continue;
    if (NeedsTwoCopies(static_cast<Attack>(i)) && t->parity == 0) continue;
    faults.weights[i] = weight;
  }
  // Most seeds have something of each; which, the swarm decides.
  EnsureOneOf(random, AttackClass::kCrash, &faults);
  EnsureOneOf(random, AttackClass::kNetwork, &faults);
  EnsureOneOf(random, AttackClass::kDisk, &faults);
  faults.at_once = Draw(random, 1, 5);
  faults.pause_max = DrawScale(random, 50, 1000) * kMillisecond;
  faults.down_max = DrawScale(random, 200, 8000) * kMillisecond;
  faults.damaged_targets = t->parity;
  t->fault_time = Draw(random, 8, 30) * kSecond;
}

// Targets that never come back need others to take their place, and all of what
// the scheme can lose: so no damage beside it.
void DrawLosses(Random* random, Tunables* t) {
  const bool wanted = random->OneIn(2);
  const uint32_t spare = t->cluster.targets - t->shards;
  const io::TimeNs out_after = DrawScale(random, 2, 20) * kSecond;
  if (!wanted || t->fault_time == 0 || t->parity == 0 || spare == 0 ||
      t->cluster.targets_per_node != 1) {
    return;
  }
  FaultLoad& faults = t->faults;
  for (size_t i = 0; i < kAttacks; ++i) {
    const Attack kind = static_cast<Attack>(i);
    if (NeedsTwoCopies(kind) || kind == Attack::kReadError) {
      faults.weights[i] = 0;
    }
  }
  faults.damaged_targets = 0;
  faults.lost_targets = std::min(spare, t->parity);
  faults.weights[static_cast<size_t>(Attack::kLoseTarget)] = 3;
  t->cluster.meta.rebuild.out_after_ns = out_after;
}

// Targets are emptied, and get their share again. Without a spare one nothing
// would move.
void DrawDrains(Random* random, Tunables* t) {
  const bool wanted = random->OneIn(2);
  t->cluster.meta.rebuild.balance = !random->OneIn(4);
  const bool spare = t->cluster.targets > t->shards;
  if (!wanted || t->fault_time == 0 || !spare) return;
  t->faults.weights[static_cast<size_t>(Attack::kDrainTarget)] = 3;
}

// A put may reach its target as late as this after its session is over: by then
// its blob must not have been deleted (server/meta/options.h).
uint64_t LatestPutMs(const Tunables& t) {
  const server::MetaOptions& meta = t.cluster.meta;
  return t.cluster.client_timeout_ms +
         (2 * t.faults.down_max + meta.lease_ns) / kMillisecond;
}

// In some seeds targets read again what they have, in time to repair what the
// faults damage. Metadata asks for damage that others met in all of them.
void DrawScrub(Random* random, ClusterOptions* c) {
  const bool wanted = random->OneIn(2);
  server::ScrubOptions scrub;
  scrub.bytes_per_s = DrawScale(random, kMiB, 100 * kMiB);
  scrub.start_after_ns = Draw(random, 0, 5) * kSecond;
  scrub.pass_ns = Draw(random, 5, 20) * kSecond;
  scrub.fresh_ns = Draw(random, 2, 20) * kSecond;
  server::RepairOptions repair;
  repair.poll_ns = Draw(random, 1, 5) * kSecond;
  repair.compare_ns = Draw(random, 5, 20) * kSecond;
  repair.retry_ns = 5 * kSecond;
  if (!wanted) return;
  c->scrub = scrub;
  c->meta.repair = repair;
}

}  // namespace

Tunables DrawTunables(uint64_t seed) {
  Tunables t;
  t.seed = seed;
  // Each part has a stream of its own: a further draw shifts no other part.
  Random root(Random::Mix(seed * 2 + 1));
  Random cluster = root.Fork();
  Random meta = root.Fork();
  Random world = root.Fork();
  Random loads = root.Fork();
  Random faults = root.Fork();
  Random more = root.Fork();
  Random health = root.Fork();
  Random losses = root.Fork();
  Random joins = root.Fork();
  Random drains = root.Fork();
  Random scrubs = root.Fork();
  DrawCluster(&cluster, &t);
  DrawMeta(&meta, &t.cluster.meta);
  DrawWorld(&world, &t.cluster.world);
  DrawLoads(&loads, &t);
  DrawFaults(&faults, &t);
  DrawHealth(&health, &t.cluster.meta.health);
  if (more.OneIn(2)) t.cluster.slab_bytes = format::kChunkBytesMax;
  DrawShortTimes(&more, &t.cluster.meta);
  DrawLongChunks(&more, &t);
  DrawLosses(&losses, &t);
  DrawDrains(&drains, &t);
  t.cluster.join = joins.OneIn(3);
  DrawScrub(&scrubs, &t.cluster);
  t.cluster.meta.orphan_grace_ms =
      LatestPutMs(t) + DrawScale(&meta, 500, 20'000);
  return t;
}

std::string ToString(const Tunables& t) {
  const ClusterOptions& c = t.cluster;
  const server::MetaOptions& m = c.meta;
  const NetworkOptions& n = c.world.network;
  std::string text =
      absl::StrCat("seed ", t.seed, ": ", c.scheme, " on ", c.targets,
                   " targets (", c.targets_per_node,
                   c.join ? " a node, joining), chunk " : " a node), chunk ",
                   c.chunk_size / kKiB, "K, pool ", c.target_pool_buffers,
                   ", timeout ", c.client_timeout_ms, "ms");
  absl::StrAppend(&text, "; lease ", m.lease_ns / kMillisecond, "ms tick ",
                  m.tick_ns / kMillisecond, "ms trash ", m.trash_grace_ms,
                  "ms orphan ", m.orphan_grace_ms, "ms");
  absl::StrAppend(&text, "; heartbeat ", m.health.heartbeat_ns / kMillisecond,
                  "ms suspect ", m.health.suspect_after_ns / kMillisecond,
                  "ms down ", m.health.down_after_ns / kMillisecond, "ms up ",
                  m.health.up_after_ns / kMillisecond, "-",
                  m.health.up_after_max_ns / kMillisecond, "ms out ",
                  m.rebuild.out_after_ns / kMillisecond, "ms scrub ",
                  c.scrub.bytes_per_s / kKiB, "K/s");
  absl::StrAppend(&text, "; net ", n.latency_ns_max / 1000, "us segment ",
                  n.segment_bytes_max, " window ", n.window_bytes, "; disk ",
                  c.world.disk.latency_ns_max / 1000, "us sync ",
                  c.world.disk.sync_ns_max / 1000, "us",
                  c.world.shuffle_ready ? "; shuffled" : "");
  absl::StrAppend(&text, "; checkpoints ", t.checkpoints.runs, "x",
                  t.checkpoints.saves, " of up to ", t.checkpoints.ranks_max,
                  " ranks, ", t.checkpoints.model_bytes / kKiB, "K");
  absl::StrAppend(&text, "; files ", t.files.writers, "x", t.files.operations,
                  " on ", t.files.files, ", ", t.files.file_bytes / kKiB,
                  "K; readers ", t.readers.readers);
  absl::StrAppend(&text, "; faults every ", t.faults.pause_max / kMillisecond,
                  "ms for ", t.faults.down_max / kMillisecond, "ms, ",
                  t.faults.at_once, " at once:");
  for (size_t i = 0; i < kAttacks; ++i) {
    if (t.faults.weights[i] == 0) continue;
    absl::StrAppend(&text, " ", AbslText(NameOf(static_cast<Attack>(i))), "*",
                    t.faults.weights[i]);
  }
  return text;
}

}  // namespace cairn::sim
