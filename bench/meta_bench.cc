// The metadata service as a client meets it: names per second with many
// operations in flight through one client, and the publication of a set of
// thousands of ranks. Beside them, in turns, RocksDB's own synced puts with as
// many writers. Needs a running cluster: bench/run.sh starts one.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/api/cluster.h"
#include "client/core/cluster_core.h"
#include "client/names/operations.h"
#include "format/checkpoint/manifest.h"
#include "format/checkpoint/set_state.h"
#include "format/wire/checkpoint.pb.h"
#include "rocksdb/db.h"

namespace cairn::bench {
namespace {

using client::Core;
using io::Task;

struct Settings {
  std::string cluster;
  std::string dir = ".";  // For the bare RocksDB: the metadata store's disk.
  uint64_t in_flight = 64;
  uint64_t operations = 6400;
  int rounds = 5;
  uint32_t ranks = 4096;
  uint32_t tensors = 300;
};

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// --- Many operations in flight on the client's loop.

using Operation = std::function<Task<absl::Status>(Core*, uint64_t number)>;

struct Crowd {
  Core* core;
  const Operation* operation;
  uint64_t next = 0;
  uint64_t end = 0;
  absl::Status failure;
};

Task<void> Worker(Crowd* crowd) {
  while (crowd->next < crowd->end && crowd->failure.ok()) {
    const uint64_t number = crowd->next++;
    absl::Status status = co_await (*crowd->operation)(crowd->core, number);
    if (!status.ok()) crowd->failure = status;
  }
}

Task<absl::Status> RunCrowd(Crowd crowd, uint64_t in_flight) {
  io::Gate gate(crowd.core->env());
  for (uint64_t i = 0; i < in_flight; ++i) gate.Spawn(Worker(&crowd));
  co_await gate.Close();
  co_return crowd.failure;
}

// Operations per second.
double Measure(client::Cluster* cluster, const Settings& settings,
               uint64_t operations, const Operation& operation) {
  const double start = Now();
  const absl::Status status =
      cluster->core()->Run<absl::Status>([&](Core* core) {
        Crowd crowd{core, &operation, 0, operations, absl::OkStatus()};
        return RunCrowd(std::move(crowd), settings.in_flight);
      });
  if (!status.ok()) {
    std::fprintf(stderr, "meta_bench: %s\n", status.ToString().c_str());
    std::exit(1);
  }
  return static_cast<double>(operations) / (Now() - start);
}

Task<absl::Status> CreateFile(Core* core, std::string path) {
  client::CreateSpec spec{format::InodeType::kFile, 0644, "", false};
  absl::StatusOr<client::Created> created = co_await client::CreatePath(
      core, std::move(path), std::move(spec), core->Deadline());
  co_return created.status();
}

Task<absl::Status> LookUp(Core* core, std::string path) {
  absl::StatusOr<wire::Attributes> found = co_await client::Resolve(
      core, std::move(path), client::FollowLast::kNo, core->Deadline());
  co_return found.status();
}

std::map<std::string, double> NameRound(client::Cluster* cluster,
                                        const Settings& settings, int round) {
  const std::string top = absl::StrCat("/bench-names-", round);
  const absl::Status made = cluster->MakeDirectory(top);
  if (!made.ok()) std::exit(1);
  const auto path = [&top](uint64_t n) { return absl::StrCat(top, "/f", n); };
  std::map<std::string, double> rates;
  rates["create"] = Measure(
      cluster, settings, settings.operations,
      [&](Core* core, uint64_t n) { return CreateFile(core, path(n)); });
  rates["lookup"] =
      Measure(cluster, settings, settings.operations,
              [&](Core* core, uint64_t n) { return LookUp(core, path(n)); });
  rates["rename"] = Measure(
      cluster, settings, settings.operations, [&](Core* core, uint64_t n) {
        return client::RenamePath(core, path(n), path(n) + "r", false,
                                  core->Deadline());
      });
  rates["unlink"] = Measure(
      cluster, settings, settings.operations, [&](Core* core, uint64_t n) {
        return client::UnlinkPath(core, path(n) + "r", core->Deadline());
      });
  return rates;
}

// RocksDB's own synced puts, a thread a writer.
double BarePuts(const Settings& settings) {
  const std::string path = settings.dir + "/meta-bench-rocksdb";
  std::filesystem::remove_all(path);
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* opened = nullptr;
  if (!rocksdb::DB::Open(options, path, &opened).ok()) std::exit(1);
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::atomic<uint64_t> next = 0;
  const double start = Now();
  std::vector<std::thread> writers;
  for (uint64_t i = 0; i < settings.in_flight; ++i) {
    writers.emplace_back([&] {
      rocksdb::WriteOptions synced;
      synced.sync = true;
      for (uint64_t n = next++; n < settings.operations; n = next++) {
        const std::string key = absl::StrCat("key-", n);
        if (!db->Put(synced, key, std::string(100, 'v')).ok()) std::exit(1);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const double rate =
      static_cast<double>(settings.operations) / (Now() - start);
  std::filesystem::remove_all(path);
  return rate;
}

void BenchNames(client::Cluster* cluster, const Settings& settings) {
  std::map<std::string, std::vector<double>> series;
  std::map<std::string, std::vector<double>> ratios;
  std::vector<double> bare;
  for (int round = 0; round < settings.rounds; ++round) {
    bare.push_back(BarePuts(settings));
    for (const auto& [name, rate] : NameRound(cluster, settings, round)) {
      series[name].push_back(rate);
      ratios[name].push_back(rate / bare.back());
    }
  }
  std::printf("RocksDB synced puts, %llu writers: %.0f/s\n",
              static_cast<unsigned long long>(settings.in_flight),
              Median(bare));
  for (const auto& [name, rates] : series) {
    std::printf("durable %-8s %llu in flight, one client: %8.0f/s  x%.2f\n",
                name.c_str(),
                static_cast<unsigned long long>(settings.in_flight),
                Median(rates), Median(ratios[name]));
  }
}

// --- A set of many ranks, each with its slice of every tensor; no data.

std::string MakePart(const Settings& settings, uint32_t rank) {
  format::ManifestPart part;
  part.rank = rank;
  uint64_t at = 4096;
  for (uint32_t t = 0; t < settings.tensors; ++t) {
    format::TensorEntry entry;
    entry.name = absl::StrCat("model.layers.", t / 9, ".part.", t % 9);
    entry.dtype = format::Dtype::kBf16;
    entry.shape = {uint64_t{settings.ranks} * 16, 4096};
    format::TensorPart piece;
    piece.rank = rank;
    piece.file_offset = at;
    piece.length = 16 * 4096 * 2;
    piece.xxh3 = rank * 1000003ULL + t;
    piece.offset = {uint64_t{rank} * 16, 0};
    piece.shape = {16, 4096};
    at += piece.length;
    entry.parts.push_back(std::move(piece));
    part.entries.push_back(std::move(entry));
  }
  part.file_bytes = at;
  return format::EncodeManifestPart(std::move(part));
}

struct SetUnderTest {
  const Settings* settings;
  std::string path;
  uint64_t set = 0;
};

Task<absl::Status> OpenRank(Core* core, SetUnderTest* test, uint32_t rank) {
  wire::OpenSetRequest request;
  request.set_path(test->path);
  request.set_set_id("bench");
  request.set_attempt(1);
  request.set_world_size(test->settings->ranks);
  request.set_rank(rank);
  auto response = co_await core->Mutate<wire::OpenSetResponse>(
      format::Method::kOpenSet, std::move(request), core->Deadline());
  if (response.ok()) test->set = response->set();
  co_return response.status();
}

Task<absl::Status> CommitRank(Core* core, const SetUnderTest* test,
                              uint32_t rank) {
  wire::CommitRankRequest request;
  request.set_set(test->set);
  request.set_attempt(1);
  request.set_rank(rank);
  request.set_epoch(core->map()->epoch.value);
  request.set_manifest_part(MakePart(*test->settings, rank));
  request.mutable_file()->set_size(4096 + uint64_t{test->settings->tensors} *
                                              16 * 4096 * 2);
  auto response = co_await core->Mutate<wire::CommitRankResponse>(
      format::Method::kCommitRank, std::move(request), core->Deadline());
  co_return response.status();
}

Task<absl::Status> WaitForSet(Core* core, const SetUnderTest* test) {
  while (true) {
    wire::WaitSetRequest request;
    request.set_set(test->set);
    request.set_attempt(1);
    request.set_wait_ms(5000);
    auto response = co_await core->Query<wire::WaitSetResponse>(
        format::Method::kWaitSet, request, core->Deadline());
    if (!response.ok()) co_return response.status();
    const auto state = static_cast<format::SetState>(response->state());
    if (state == format::SetState::kPublished) co_return absl::OkStatus();
    if (state != format::SetState::kOpen) {
      co_return absl::InternalError(response->failure());
    }
  }
}

void BenchSet(client::Cluster* cluster, const Settings& settings) {
  std::vector<double> publish;
  std::vector<double> commit;
  for (int round = 0; round < settings.rounds; ++round) {
    SetUnderTest test{&settings, absl::StrCat("/bench-sets/", round), 0};
    const double open_rate = Measure(
        cluster, settings, settings.ranks, [&](Core* core, uint64_t rank) {
          return OpenRank(core, &test, static_cast<uint32_t>(rank));
        });
    const double commit_rate = Measure(
        cluster, settings, settings.ranks - 1, [&](Core* core, uint64_t rank) {
          return CommitRank(core, &test, static_cast<uint32_t>(rank));
        });
    const double start = Now();
    Measure(cluster, settings, 1, [&](Core* core, uint64_t) {
      return CommitRank(core, &test, settings.ranks - 1);
    });
    Measure(cluster, settings, 1,
            [&](Core* core, uint64_t) { return WaitForSet(core, &test); });
    publish.push_back(Now() - start);
    commit.push_back(commit_rate);
    std::printf(
        "  round %d: %.0f opens/s, %.0f rank commits/s, published "
        "%.2f s after the last commit was sent\n",
        round, open_rate, commit_rate, publish.back());
  }
  std::printf(
      "set of %u ranks x %u tensors: published in %.2f s (median of "
      "%d), %.0f rank commits/s\n",
      settings.ranks, settings.tensors, Median(publish), settings.rounds,
      Median(commit));
}

int Main(int argc, char** argv) {
  Settings settings;
  CLI::App app("meta_bench: names and sets through one client");
  app.add_option("--cluster", settings.cluster, "Default: CAIRN_CLUSTER");
  app.add_option("--dir", settings.dir)->capture_default_str();
  app.add_option("--in-flight", settings.in_flight)->capture_default_str();
  app.add_option("--operations", settings.operations)->capture_default_str();
  app.add_option("--rounds", settings.rounds)->capture_default_str();
  app.add_option("--ranks", settings.ranks)->capture_default_str();
  app.add_option("--tensors", settings.tensors)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  client::Options options;
  options.address = settings.cluster;
  auto cluster = client::Cluster::Connect(options);
  if (!cluster.ok()) {
    std::fprintf(stderr, "meta_bench: %s\n",
                 cluster.status().ToString().c_str());
    return 1;
  }
  BenchNames(cluster->get(), settings);
  BenchSet(cluster->get(), settings);
  return 0;
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) { return cairn::bench::Main(argc, argv); }
