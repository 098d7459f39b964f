#include "server/main/data_loop.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/main/listen.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using io::Task;

namespace {
// Of the disk, and not a mistake in what was asked for.
bool IsBadDisk(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsInternal(status) ||
         absl::IsResourceExhausted(status);
}
}  // namespace

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
  service_ = std::make_unique<TargetService>(env, options_.scrub);
  for (const TargetPlace& place : options_.targets) {
    const TargetIdentity expect{options_.cluster_id, place.id,
                                place.disk_generation};
    absl::StatusOr<std::unique_ptr<ChunkStore>> store =
        co_await ChunkStore::Open(env, place.directory, expect);
    if (!store.ok()) {
      absl::Status failed = Annotate(
          store.status(),
          absl::StrCat("target ", place.id.value, " in ", place.directory));
      if (!options_.tolerate_bad_disks || !IsBadDisk(failed)) co_return failed;
      spdlog::error("going on without {}", StdText(failed.message()));
      continue;
    }
    const StoreStats stats = (*store)->stats();
    meta_sequence_ = std::max(meta_sequence_, stats.meta_sequence);
    stores_.push_back(*std::move(store));
    directories_.push_back(place.directory);
    spdlog::info("target {} in {}: {} chunks, {} of {} bytes used",
                 place.id.value, place.directory, stats.chunks,
                 stats.used_bytes, stats.capacity_bytes);
  }
  if (stores_.empty() && !options_.targets.empty()) {
    co_return absl::DataLossError("no target of this loop can be read");
  }
  co_return co_await Serve(env);
}

Task<absl::Status> DataLoop::Serve(io::Env* env) {
  std::string listen = absl::StrCat(options_.listen_host, ":", options_.port);
  absl::StatusOr<std::unique_ptr<io::Listener>> listener =
      co_await ListenPatiently(env, std::move(listen));
  if (!listener.ok()) co_return listener.status();
  address_ = (*listener)->address();
  if (!options_.advertise_host.empty()) {
    address_ = absl::StrCat(options_.advertise_host,
                            address_.substr(address_.rfind(':')));
  }
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

void DataLoop::Join(JoinerOptions options) {
  thread_->Run<bool>([this, &options](io::Env* env) {
    return StartJoin(env, std::move(options));
  });
}

Task<bool> DataLoop::StartJoin(io::Env* env, JoinerOptions options) {
  CAIRN_CHECK(joiner_ == nullptr);
  options.address = address_;
  options.process = absl::StrCat("cairnd/", getpid(), "/", options_.name);
  joiner_ = std::make_unique<Joiner>(env, service_.get(), std::move(options));
  for (size_t i = 0; i < stores_.size(); ++i) {
    joiner_->Add(stores_[i].get(), directories_[i]);
  }
  co_return true;
}

DataLoop::JoinStates DataLoop::join_states() {
  return thread_->Run<JoinStates>([this](io::Env*) { return ReadStates(); });
}

Task<DataLoop::JoinStates> DataLoop::ReadStates() {
  JoinStates states;
  states.decided = joiner_->decided();
  states.targets = joiner_->states();
  co_return states;
}

bool DataLoop::AwaitJoined(uint64_t ms) {
  return thread_->Run<bool>(
      [this, ms](io::Env* env) { return WaitForJoin(env, ms); });
}

Task<bool> DataLoop::WaitForJoin(io::Env* env, uint64_t ms) {
  co_return co_await joiner_->AwaitDecided(env->NowNs() +
                                           ms * io::kMillisecond);
}

Task<bool> DataLoop::Stop() {
  if (joiner_ != nullptr) co_await joiner_->Close();
  joiner_.reset();
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
