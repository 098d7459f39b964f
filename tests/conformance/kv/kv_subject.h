// One engine under test, of either kind, with what it takes to close it, let it
// crash and open it again; and helpers that turn its coroutines into calls.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "io/event_loop.h"
#include "server/meta/kv/kv_engine.h"
#include "server/meta/kv/model_kv.h"
#include "server/meta/kv/rocks_kv.h"

namespace cairn::server {

// A directory of the test's own, gone with it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  std::string path() const { return path_.string(); }
  std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

std::unique_ptr<io::RealEnv> NewEnv();

namespace internal {
template <typename T>
io::Task<void> Keep(io::Task<T> task, std::optional<T>* kept) {
  kept->emplace(co_await std::move(task));
}
template <typename T>
io::Task<void> KeepAll(io::Env* env, std::vector<io::Task<T>> tasks,
                       std::vector<std::optional<T>>* kept) {
  io::Gate gate(env);
  kept->resize(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) {
    gate.Spawn(Keep(std::move(tasks[i]), &(*kept)[i]));
  }
  co_await gate.Close();
}
}  // namespace internal

// Runs the loop until `task` is done.
template <typename T>
T Await(io::RealEnv* env, io::Task<T> task) {
  std::optional<T> kept;
  env->RunUntilDone(internal::Keep(std::move(task), &kept));
  return *std::move(kept);
}

// Starts all of them, in order, before it waits for any.
template <typename T>
std::vector<T> AwaitAll(io::RealEnv* env, std::vector<io::Task<T>> tasks) {
  std::vector<std::optional<T>> kept;
  env->RunUntilDone(internal::KeepAll(env, std::move(tasks), &kept));
  std::vector<T> results;
  for (std::optional<T>& one : kept) results.push_back(*std::move(one));
  return results;
}

enum class KvKind { kModel, kRocks };

class KvSubject {
 public:
  explicit KvSubject(KvKind kind) : kind_(kind), env_(NewEnv()) { Open(); }
  ~KvSubject() { Close(); }

  void Reopen() {
    Close();
    Open();
  }

  KvEngine* kv() { return kv_.get(); }
  io::RealEnv* env() { return env_.get(); }

  absl::StatusOr<std::optional<KvValue>> Get(std::string key) {
    return Await(env(), kv_->Get(std::move(key)));
  }
  absl::StatusOr<std::vector<KvPair>> Scan(std::string begin, std::string end,
                                           uint32_t limit) {
    return Await(env(), kv_->Scan(std::move(begin), std::move(end), limit));
  }
  absl::StatusOr<uint64_t> Commit(KvCommit commit) {
    return Await(env(), kv_->Commit(std::move(commit)));
  }
  // A commit of one write, which must succeed: its sequence.
  uint64_t Put(std::string key, std::string value);
  // The key's value, "" if absent. It must not fail.
  std::string Value(std::string key);

 private:
  void Open();
  void Close();

  const KvKind kind_;
  const TempDir dir_;
  std::unique_ptr<io::RealEnv> env_;
  ModelKvDisk disk_;
  std::unique_ptr<KvEngine> kv_;
};

}  // namespace cairn::server
