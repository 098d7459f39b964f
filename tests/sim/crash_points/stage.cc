#include "tests/sim/crash_points/stage.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster/shard_check.h"
#include "tests/sim/crash_points/client_tasks.h"

namespace cairn::sim {

SimClient* Stage::AddClient(const std::string& name) {
  clients_.push_back(
      cluster_->AddClient(absl::StrCat(name, "/", ++clients_made_)));
  return clients_.back();
}

SimClient* Stage::NewClient(const std::string& name) {
  SimClient* const client = AddClient(name);
  Must(cluster_->Await(client->Start()), name + " connects");
  return client;
}

void Stage::CloseClients() {
  for (SimClient* const client : std::exchange(clients_, {})) {
    world()->Run(cluster_->StopClient(client), "closing a client");
  }
}

void Stage::KillClients() {
  for (SimClient* const client : clients_) world()->Kill(client->env());
}

void Stage::MakeFile(const std::string& path, std::string bytes) {
  client::Core* const core = NewClient("maker")->core();
  Must(cluster_->Await(WriteWhole(core, path, bytes)), "making " + path);
  files[path] = std::move(bytes);
}

void Stage::MakeSet(const std::string& path, const SampleModel* model) {
  const SetSave save{path, model, 1, 2};
  Must(cluster_->Await(SaveWithNewClients(this, save)), "saving " + path);
  sets[path] = model;
}

void Stage::CheckKept() {
  client::Core* const core = NewClient("checker")->core();
  if (violated()) return;
  for (const auto& [path, bytes] : files) {
    const auto found = cluster_->Await(ReadWhole(core, path));
    if (!Must(found.status(), "reading " + path)) return;
    if (!found->has_value()) return Violation(path + " is lost");
    if (**found != bytes) return Violation(path + " has other bytes");
  }
  for (const auto& [path, model] : sets) {
    const auto loaded = cluster_->Await(LoadSample(core, path, model, 0, 1));
    if (!Must(loaded.status(), "loading " + path)) return;
  }
  Must(cluster_->Await(CheckEveryShard(core)), "reading every shard");
}

void Stage::Violation(std::string what) {
  if (violation_.empty()) violation_ = std::move(what);
}

bool Stage::Must(const absl::Status& status, const std::string& what) {
  if (!status.ok()) {
    Violation(absl::StrCat(what, ": ", status.ToString()));
  }
  return status.ok();
}

void Stage::MayFailCleanly(const absl::Status& status,
                           const std::string& what) {
  if (status.ok() || absl::IsUnavailable(status) ||
      absl::IsDeadlineExceeded(status)) {
    return;
  }
  Violation(absl::StrCat(what, " fails, but not cleanly: ", status.ToString()));
}

}  // namespace cairn::sim
