#include "client/core/cluster_core.h"

#include <unistd.h>

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace cairn::client {

namespace {

// Touches the buffers that are handed out next: now, where nobody waits, and
// not in the middle of a save. The first touch of memory costs several times as
// much as all else that is done with it.
void Populate(io::BufferPool* pool, uint32_t count) {
  std::vector<io::Buffer> buffers;
  while (buffers.size() < count) {
    io::Buffer buffer = pool->TryAcquire(format::kChunkBytesMax);
    if (!buffer) break;
    std::memset(buffer.bytes().data(), 0, buffer.bytes().size());
    buffers.push_back(std::move(buffer));
  }
  // Last in, first out: returned in reverse, the pool is as it was.
  while (!buffers.empty()) buffers.pop_back();
}

io::Task<absl::Status> StartCore(io::Env* env, Options options,
                                 std::unique_ptr<Core>* core) {
  auto made = std::make_unique<Core>(env, std::move(options));
  absl::Status status = co_await made->Start();
  if (status.ok()) {
    Populate(env->pool(), made->ParityBuffersInFlight());
    *core = std::move(made);
  }
  co_return status;
}

io::Task<bool> StopCore(std::unique_ptr<Core>* core) {
  co_await (*core)->Stop();
  core->reset();
  co_return true;
}

std::string DefaultName() {
  char host[256] = "?";
  (void)gethostname(host, sizeof(host) - 1);
  return absl::StrCat(host, "/", getpid());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterCore>> ClusterCore::Connect(
    Options options) {
  if (options.name.empty()) options.name = DefaultName();
  if (!options.uid) options.uid = getuid();
  if (!options.gid) options.gid = getgid();
  io::LoopOptions loop;
  loop.pool_large_buffers = kPoolLargeBuffers;
  loop.pool_lazy = true;
  absl::StatusOr<std::unique_ptr<io::LoopThread>> thread =
      io::LoopThread::Start("cairn-client", loop);
  if (!thread.ok()) return thread.status();
  std::unique_ptr<ClusterCore> cluster(new ClusterCore());
  cluster->loop_ = *std::move(thread);
  std::unique_ptr<Core>* const core = &cluster->core_;
  CAIRN_RETURN_IF_ERROR(cluster->loop_->Run<absl::Status>(
      [options, core](io::Env* env) { return StartCore(env, options, core); }));
  return cluster;
}

ClusterCore::~ClusterCore() {
  if (core_ == nullptr) return;
  std::unique_ptr<Core>* const core = &core_;
  loop_->Run<bool>([core](io::Env*) { return StopCore(core); });
}

}  // namespace cairn::client
