#include "tests/sim/cluster/target_process.h"

#include <algorithm>
#include <utility>

namespace cairn::sim {

using io::Task;

TargetProcess::TargetProcess(SimEnv* env, std::vector<SimTarget> targets,
                             uint16_t port,
                             std::optional<server::JoinerOptions> join,
                             server::ScrubOptions scrub)
    : env_(env),
      targets_(std::move(targets)),
      port_(port),
      join_(std::move(join)),
      scrub_(scrub),
      opening_(env) {}

Task<absl::Status> TargetProcess::Open() {
  const io::Gate::Hold hold = opening_.Enter();
  CAIRN_CO_RETURN_IF_ERROR(co_await OpenStores());
  co_return co_await Serve();
}

Task<absl::Status> TargetProcess::OpenStores() {
  service_ = std::make_unique<server::TargetService>(env_, scrub_);
  for (const SimTarget& target : targets_) {
    absl::StatusOr<std::unique_ptr<server::ChunkStore>> store =
        co_await server::ChunkStore::Open(env_, target.directory,
                                          target.identity);
    if (!store.ok()) co_return Annotate(store.status(), target.directory);
    if (!join_) service_->AddStore(store->get());
    stores_.push_back(*std::move(store));
  }
  co_return absl::OkStatus();
}

Task<absl::Status> TargetProcess::Serve() {
  absl::StatusOr<std::unique_ptr<io::Listener>> listener =
      co_await env_->Listen(env_->Address(port_));
  if (!listener.ok()) co_return listener.status();
  address_ = (*listener)->address();
  io::ServerOptions options;
  options.cluster_id = targets_.front().identity.cluster_id;
  options.server_name = absl::StrCat("cairnd/", env_->process(), "/data");
  options.boot_epoch = env_->WallNs();
  server::TargetService* const service = service_.get();
  options.serves_target = [service](uint32_t target) {
    return service->Serves(target);
  };
  server_ = io::RpcServer::Create(env_, std::move(options));
  service_->Register(server_.get());
  server_->Serve(*std::move(listener));
  if (join_) StartJoin();
  co_return absl::OkStatus();
}

void TargetProcess::StartJoin() {
  server::JoinerOptions options = *join_;
  options.address = address_;
  options.process = absl::StrCat("cairnd/", env_->process(), "/data");
  joiner_ = std::make_unique<server::Joiner>(env_, service_.get(),
                                             std::move(options));
  for (size_t i = 0; i < stores_.size(); ++i) {
    joiner_->Add(stores_[i].get(), targets_[i].directory);
  }
}

Task<void> TargetProcess::Close() {
  co_await opening_.Close();
  if (joiner_ != nullptr) co_await joiner_->Close();
  joiner_.reset();
  if (server_ != nullptr) co_await server_->Close();
  server_.reset();
  if (service_ != nullptr) co_await service_->Close();
  service_.reset();
  for (const auto& store : stores_) (void)co_await store->Close();
  stores_.clear();
}

uint64_t TargetProcess::meta_sequence() const {
  uint64_t sequence = 0;
  for (const auto& store : stores_) {
    sequence = std::max(sequence, store->stats().meta_sequence);
  }
  return sequence;
}

server::ChunkStore* TargetProcess::store(format::TargetId target) {
  for (const auto& store : stores_) {
    if (store->identity().target_id == target) return store.get();
  }
  return nullptr;
}

}  // namespace cairn::sim
