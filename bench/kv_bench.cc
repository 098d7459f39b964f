// Durable commits of the embedded metadata store, beside RocksDB's own synced
// puts with as many writers: ratios of rounds that ran in turns.
//
//   kv_bench --dir /some/disk --in-flight 64 --ops 20000 --rounds 5
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "io/event_loop.h"
#include "rocksdb/db.h"
#include "server/meta/kv/high_water_mark.h"
#include "server/meta/kv/rocks_kv.h"
#include "server/meta/kv/rocks_options.h"

namespace cairn::server {
namespace {

struct Settings {
  std::string dir = ".";
  uint64_t in_flight = 64;
  uint64_t operations = 20'000;
  uint64_t value_bytes = 100;
  int rounds = 5;
};

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

std::string Key(uint64_t n) {
  return absl::StrCat("D", n * 0x9e3779b97f4a7c15);
}

// RocksDB alone, with the same settings: one thread a writer.
class BarePuts {
 public:
  explicit BarePuts(const Settings& settings) : settings_(settings) {
    rocksdb::DB* db = nullptr;
    const rocksdb::Status opened = rocksdb::DB::Open(
        RocksKvSettings(/*create=*/true), settings.dir + "/bare", &db);
    CAIRN_CHECK(opened.ok());
    db_.reset(db);
  }

  void Run() {
    std::atomic<uint64_t> left = settings_.operations;
    std::vector<std::thread> writers;
    for (uint64_t i = 0; i < settings_.in_flight; ++i) {
      writers.emplace_back([this, &left] { PutUntilNoneIsLeft(&left); });
    }
    for (std::thread& writer : writers) writer.join();
  }

 private:
  void PutUntilNoneIsLeft(std::atomic<uint64_t>* left) {
    const std::string value(settings_.value_bytes, 'v');
    uint64_t mine = left->load();
    while (mine > 0) {
      if (!left->compare_exchange_weak(mine, mine - 1)) continue;
      const std::string key = Key(next_.fetch_add(1));
      CAIRN_CHECK(db_->Put(RocksKvSyncedWrite(), key, value).ok());
      mine = left->load();
    }
  }

  const Settings settings_;
  std::atomic<uint64_t> next_ = 0;
  std::unique_ptr<rocksdb::DB> db_;
};

enum class Kind {
  kPut,    // What the bare puts do.
  kCreate  // As creating a file does: absent before, two more records.
};

// The engine, with a high-water mark, on one loop.
class EngineCommits {
 public:
  EngineCommits(const Settings& settings, Kind kind)
      : settings_(settings), kind_(kind) {
    io::LoopOptions loop;
    loop.pool_large_buffers = 1;
    auto env = io::MakeRealEnv(loop);
    CAIRN_CHECK(env.ok());
    env_ = *std::move(env);
    const std::string name = kind == Kind::kPut ? "/put" : "/create";
    env_->RunUntilDone(Open(settings.dir + name));
  }
  ~EngineCommits() { env_->RunUntilDone(Close()); }

  void Run() {
    left_ = settings_.operations;
    env_->RunUntilDone(RunAll());
  }

 private:
  io::Task<void> Open(std::string dir) {
    std::filesystem::create_directories(dir);
    auto mark = co_await HighWaterMark::Open(env_.get(), dir, {}, true);
    CAIRN_CHECK(mark.ok());
    mark_ = *std::move(mark);
    RocksKvOptions options;
    options.create = true;
    options.on_durable = [this](uint64_t sequence) {
      mark_->Advance(sequence);
    };
    auto kv = co_await RocksKv::Open(env_.get(), dir + "/kv", options);
    CAIRN_CHECK(kv.ok());
    kv_ = *std::move(kv);
  }
  io::Task<void> Close() {
    const absl::Status kv_closed = co_await kv_->Close();
    const absl::Status mark_closed = co_await mark_->Close();
    CAIRN_CHECK(kv_closed.ok() && mark_closed.ok());
  }

  KvCommit Next() {
    KvCommit commit;
    const std::string key = Key(next_++);
    const std::string value(settings_.value_bytes, 'v');
    commit.writes.push_back({key, value});
    if (kind_ == Kind::kCreate) {
      commit.expect.push_back({key, 0});
      commit.writes.push_back({"I" + key, value});
      commit.writes.push_back({"X" + key, value});
    }
    return commit;
  }

  io::Task<void> CommitUntilNoneIsLeft() {
    while (left_ > 0) {
      --left_;
      KvCommit commit = Next();
      const auto done = co_await kv_->Commit(std::move(commit));
      CAIRN_CHECK(done.ok());
    }
  }
  io::Task<void> RunAll() {
    io::Gate gate(env_.get());
    for (uint64_t i = 0; i < settings_.in_flight; ++i) {
      gate.Spawn(CommitUntilNoneIsLeft());
    }
    co_await gate.Close();
  }

  const Settings settings_;
  const Kind kind_;
  uint64_t left_ = 0;
  uint64_t next_ = 0;
  std::unique_ptr<io::RealEnv> env_;
  std::unique_ptr<HighWaterMark> mark_;
  std::unique_ptr<RocksKv> kv_;
};

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void Compare(const Settings& settings) {
  BarePuts bare(settings);
  EngineCommits puts(settings, Kind::kPut);
  EngineCommits creates(settings, Kind::kCreate);
  const std::vector<std::pair<const char*, std::function<void()>>> subjects = {
      {"RocksDB synced put", [&] { bare.Run(); }},
      {"engine, 1 write", [&] { puts.Run(); }},
      {"engine, 1 expectation + 3 writes", [&] { creates.Run(); }}};
  std::vector<std::vector<double>> rates(subjects.size());
  std::vector<std::vector<double>> ratios(subjects.size());
  for (int round = 0; round < settings.rounds; ++round) {
    for (size_t i = 0; i < subjects.size(); ++i) {
      rates[i].push_back(static_cast<double>(settings.operations) /
                         Seconds(subjects[i].second));
      ratios[i].push_back(rates[i].back() / rates[0].back());
    }
  }
  std::printf("%-36s %12s %8s\n", "median of rounds", "commits/s", "ratio");
  for (size_t i = 0; i < subjects.size(); ++i) {
    std::printf("%-36s %12.0f %8.2f\n", subjects[i].first, Median(rates[i]),
                Median(ratios[i]));
  }
}

}  // namespace
}  // namespace cairn::server

int main(int argc, char** argv) {
  cairn::server::Settings settings;
  CLI::App app("Durable metadata commits beside RocksDB's synced puts");
  app.add_option("--dir", settings.dir, "where to make the stores");
  app.add_option("--in-flight", settings.in_flight, "writers, transactions");
  app.add_option("--ops", settings.operations, "commits a round");
  app.add_option("--value-bytes", settings.value_bytes, "size of a value");
  app.add_option("--rounds", settings.rounds, "rounds, in turns");
  CLI11_PARSE(app, argc, argv);
  std::string scratch = settings.dir + "/kv_bench.XXXXXX";
  if (mkdtemp(scratch.data()) == nullptr) {
    std::perror(scratch.c_str());
    return 1;
  }
  settings.dir = scratch;
  cairn::server::Compare(settings);
  std::filesystem::remove_all(scratch);
  return 0;
}
