#include "tests/sim/cluster/meta_process.h"

#include <utility>

namespace cairn::sim {

using io::Task;

namespace {
// As server/main/meta_loop.cc.
constexpr uint32_t kReadAheadBytes = 64 * 1024;
}  // namespace

MetaProcess::MetaProcess(SimEnv* env, server::ModelKvDisk* disk,
                         Options options)
    : env_(env),
      disk_(disk),
      options_(std::move(options)),
      opening_(env),
      addresses_(options_.target_addresses) {}

Task<absl::Status> MetaProcess::Open() {
  const io::Gate::Hold hold = opening_.Enter();
  CAIRN_CO_RETURN_IF_ERROR(co_await OpenStore());
  CAIRN_CO_RETURN_IF_ERROR(co_await OpenService());
  co_return co_await Serve();
}

Task<absl::Status> MetaProcess::OpenStore() {
  absl::StatusOr<std::unique_ptr<server::HighWaterMark>> mark =
      co_await server::HighWaterMark::Open(env_, options_.directory,
                                           options_.cluster_id, false);
  if (!mark.ok()) co_return mark.status();
  mark_ = *std::move(mark);
  // An engine made after the death of its process would write for it.
  CAIRN_CO_RETURN_IF_ERROR(env_->CheckAlive());
  server::ModelKvOptions options;
  options.commit_delay_ns = options_.commit_delay_ns;
  server::HighWaterMark* const advance = mark_.get();
  options.on_durable = [advance](uint64_t s) { advance->Advance(s); };
  kv_ = std::make_unique<server::ModelKv>(env_, disk_, std::move(options));
  absl::Status whole =
      mark_->Check(kv_->sequence(), options_.targets_sequence_max);
  if (whole.ok()) mark_->Advance(kv_->sequence());
  if (whole.ok() || !options_.accept_metadata_loss) co_return whole;
  co_return co_await mark_->AcceptLoss(kv_.get(),
                                       options_.targets_sequence_max);
}

Task<absl::Status> MetaProcess::OpenService() {
  server::TargetClientOptions client;
  client.cluster_id = options_.cluster_id;
  targets_ = std::make_unique<server::TargetClient>(env_, client);
  absl::StatusOr<std::unique_ptr<server::MetaService>> service =
      co_await server::MetaService::Open(env_, kv_.get(), targets_.get(),
                                         options_.meta);
  if (!service.ok()) co_return service.status();
  service_ = *std::move(service);
  // Those that were told while the service opened are the newest.
  for (const auto& [target, address] : addresses_) {
    targets_->SetAddress(target, address);
    service_->SetTargetAddress(target, address);
  }
  co_return absl::OkStatus();
}

Task<absl::Status> MetaProcess::Serve() {
  absl::StatusOr<std::unique_ptr<io::Listener>> listener =
      co_await env_->Listen(env_->Address(options_.port));
  if (!listener.ok()) co_return listener.status();
  io::ServerOptions options;
  options.cluster_id = options_.cluster_id;
  options.server_name = absl::StrCat("cairnd/", env_->process(), "/metadata");
  options.boot_epoch = env_->WallNs();
  options.read_ahead_bytes = kReadAheadBytes;
  server_ = io::RpcServer::Create(env_, std::move(options));
  service_->Register(server_.get());
  service_->Start();
  server_->Serve(*std::move(listener));
  co_return absl::OkStatus();
}

void MetaProcess::SetTargetAddress(format::TargetId target,
                                   const std::string& address) {
  addresses_[target] = address;
  if (service_ == nullptr) return;
  targets_->SetAddress(target, address);
  service_->SetTargetAddress(target, address);
}

void MetaProcess::Die(uint64_t keep) {
  if (kv_ != nullptr) kv_->Crash(keep);
}

Task<void> MetaProcess::Close() {
  co_await opening_.Close();
  if (server_ != nullptr) co_await server_->Close();
  server_.reset();
  if (service_ != nullptr) (void)co_await service_->Close();
  service_.reset();
  if (targets_ != nullptr) co_await targets_->Close();
  targets_.reset();
  if (kv_ != nullptr) (void)co_await kv_->Close();
  kv_.reset();
  if (mark_ != nullptr) (void)co_await mark_->Close();
  mark_.reset();
}

}  // namespace cairn::sim
