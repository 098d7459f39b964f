#include "server/main/data_loop.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/main/listen.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using io::Task;

absl::StatusOr<std::unique_ptr<DataLoop>> DataLoop::Start(Options options) {
  std::unique_ptr<DataLoop> loop(new DataLoop(std::move(options)));
  CAIRN_ASSIGN_OR_RETURN(
      loop->thread_,
      io::LoopThread::Start(loop->options_.name, loop->options_.loop));
  DataLoop* const self = loop.get();
  CAIRN_RETURN_IF_ERROR(self->thread_->Run<absl::Status>(
      [self](io::Env* env) { return self->Open(env); }));
  return loop;
}

DataLoop::~DataLoop() {
  if (thread_ == nullptr) return;
  thread_->Run<bool>([this](io::Env*) { return Stop(); });
}

Task<absl::Status> DataLoop::Open(io::Env* env) {
  backend_ = env->name();
  service_ = std::make_unique<TargetService>(env);
  for (const TargetPlace& place : options_.targets) {
    const TargetIdentity expect{options_.cluster_id, place.id,
                                place.disk_generation};
    absl::StatusOr<std::unique_ptr<ChunkStore>> store =
        co_await ChunkStore::Open(env, place.directory, expect);
    if (!store.ok()) {
      co_return Annotate(store.status(), absl::StrCat("target ", place.id.value,
                                                      " in ", place.directory));
    }
    const StoreStats stats = (*store)->stats();
    meta_sequence_ = std::max(meta_sequence_, stats.meta_sequence);
    service_->AddStore(store->get());
    stores_.push_back(*std::move(store));
    spdlog::info("target {} in {}: {} chunks, {} of {} bytes used",
                 place.id.value, place.directory, stats.chunks,
                 stats.used_bytes, stats.capacity_bytes);
  }
  co_return co_await Serve(env);
}

Task<absl::Status> DataLoop::Serve(io::Env* env) {
  absl::StatusOr<std::unique_ptr<io::Listener>> listener = co_await env->Listen(
      absl::StrCat(options_.listen_host, ":", options_.port));
  if (!listener.ok()) co_return listener.status();
  address_ = (*listener)->address();
  io::ServerOptions options;
  options.cluster_id = options_.cluster_id;
  options.server_name = absl::StrCat("cairnd/", getpid(), "/", options_.name);
  options.boot_epoch = env->WallNs();
  TargetService* const service = service_.get();
  options.serves_target = [service](uint32_t target) {
    return service->Serves(target);
  };
  server_ = io::RpcServer::Create(env, std::move(options));
  service_->Register(server_.get());
  server_->Serve(*std::move(listener));
  co_return absl::OkStatus();
}

Task<bool> DataLoop::Stop() {
  if (server_ != nullptr) co_await server_->Close();
  server_.reset();
  if (service_ != nullptr) co_await service_->Close();
  service_.reset();
  for (const std::unique_ptr<ChunkStore>& store : stores_) {
    absl::Status closed = co_await store->Close();
    if (!closed.ok()) spdlog::warn("closing a target: {}", closed.ToString());
  }
  stores_.clear();
  co_return true;
}

}  // namespace cairn::server
