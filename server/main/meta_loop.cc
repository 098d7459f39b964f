#include "server/main/meta_loop.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "server/main/cluster_config.h"
#include "server/main/listen.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using io::Task;

namespace {
// Many small requests come on each connection: read them in bulk.
constexpr uint32_t kReadAheadBytes = 64 * 1024;
}  // namespace

absl::StatusOr<std::unique_ptr<MetaLoop>> MetaLoop::Start(Options options) {
  std::unique_ptr<MetaLoop> loop(new MetaLoop(std::move(options)));
  CAIRN_ASSIGN_OR_RETURN(
      loop->thread_, io::LoopThread::Start("cairn-meta", loop->options_.loop));
  MetaLoop* const self = loop.get();
  CAIRN_RETURN_IF_ERROR(self->thread_->Run<absl::Status>(
      [self](io::Env* env) { return self->Open(env); }));
  return loop;
}

MetaLoop::~MetaLoop() {
  if (thread_ == nullptr) return;
  thread_->Run<bool>([this](io::Env*) { return Stop(); });
}

Task<absl::Status> MetaLoop::OpenStore(io::Env* env) {
  absl::StatusOr<std::unique_ptr<HighWaterMark>> mark =
      co_await HighWaterMark::Open(env, options_.directory, options_.cluster_id,
                                   false);
  if (!mark.ok()) co_return mark.status();
  mark_ = *std::move(mark);
  RocksKvOptions options;
  options.cluster = options_.cluster_id;
  HighWaterMark* const advance = mark_.get();
  options.on_durable = [advance](uint64_t s) { advance->Advance(s); };
  absl::StatusOr<std::unique_ptr<RocksKv>> kv = co_await RocksKv::Open(
      env, MetaPath(options_.directory), std::move(options));
  if (!kv.ok()) co_return kv.status();
  kv_ = *std::move(kv);
  absl::Status whole =
      mark_->Check(kv_->sequence(), options_.targets_sequence_max);
  if (whole.ok()) mark_->Advance(kv_->sequence());
  if (whole.ok() || !options_.accept_metadata_loss) co_return whole;
  spdlog::warn("going on without lost metadata, as asked: {}",
               std::string(whole.message()));
  co_return co_await mark_->AcceptLoss(kv_.get(),
                                       options_.targets_sequence_max);
}

Task<absl::Status> MetaLoop::Open(io::Env* env) {
  CAIRN_CO_RETURN_IF_ERROR(co_await OpenStore(env));
  TargetClientOptions client;
  client.cluster_id = options_.cluster_id;
  targets_ = std::make_unique<TargetClient>(env, client);
  MetaOptions meta = options_.meta;
  meta.accept_metadata_loss = options_.accept_metadata_loss;
  absl::StatusOr<std::unique_ptr<MetaService>> service =
      co_await MetaService::Open(env, kv_.get(), targets_.get(), meta);
  if (!service.ok()) co_return service.status();
  service_ = *std::move(service);
  co_return co_await Serve(env);
}

Task<absl::Status> MetaLoop::Serve(io::Env* env) {
  absl::StatusOr<std::unique_ptr<io::Listener>> listener =
      co_await ListenPatiently(env, options_.listen);
  if (!listener.ok()) co_return listener.status();
  address_ = (*listener)->address();
  io::ServerOptions options;
  options.cluster_id = options_.cluster_id;
  options.server_name = absl::StrCat("cairnd/", getpid(), "/metadata");
  options.boot_epoch = env->WallNs();
  options.read_ahead_bytes = kReadAheadBytes;
  server_ = io::RpcServer::Create(env, std::move(options));
  service_->Register(server_.get());
  service_->Start();
  server_->Serve(*std::move(listener));
  co_return absl::OkStatus();
}

Task<bool> MetaLoop::Stop() {
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
  co_return true;
}

}  // namespace cairn::server
