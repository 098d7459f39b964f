#include "server/main/format.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "format/wire/member.pb.h"
#include "io/rpc/channel.h"
#include "server/main/data_loop_plan.h"
#include "server/target/chunk_store.h"

namespace cairn::server {

using io::Task;

namespace {

constexpr io::TimeNs kAllocateNs = 30 * io::kSecond;
constexpr io::TimeNs kAllocateTryNs = 5 * io::kSecond;
constexpr io::TimeNs kAllocatePauseNs = 200 * io::kMillisecond;

std::string CleanPath(const std::string& directory) {
  auto path = std::filesystem::absolute(directory).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.string();
}

// Before an id is asked for, which would be wasted.
absl::Status CheckEmpty(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory, error)) {
    const auto parent = std::filesystem::path(directory).parent_path();
    if (std::filesystem::is_directory(parent, error)) return absl::OkStatus();
    return absl::NotFoundError(
        absl::StrCat(parent.string(), ": no such directory"));
  }
  if (!std::filesystem::is_directory(directory, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, " is not a directory"));
  }
  if (std::filesystem::exists(std::filesystem::path(directory) / "superblock",
                              error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        directory,
        " is a target already; nothing was changed. Give an empty directory, "
        "or empty this one by hand if what it holds may be lost"));
  }
  for (const auto& entry :
       std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name == "lost+found") continue;
    return absl::AlreadyExistsError(absl::StrCat(
        directory, " has files (", name,
        "); nothing was changed. Give an empty directory, or empty this one "
        "by hand if what it holds may be lost"));
  }
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(directory, ": ", error.message()));
}

uint64_t NewNonce() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

Task<absl::StatusOr<wire::AllocateTargetResponse>> Allocate(
    io::Env* env, io::Channel* meta, wire::AllocateTargetRequest request) {
  const io::TimeNs give_up = env->NowNs() + kAllocateNs;
  while (true) {
    io::CallOptions call;
    call.deadline = env->NowNs() + kAllocateTryNs;
    absl::StatusOr<wire::AllocateTargetResponse> answer =
        co_await io::CallProto<wire::AllocateTargetResponse>(
            meta, format::Method::kAllocateTarget, request, call);
    const bool lost = absl::IsUnavailable(answer.status()) ||
                      absl::IsDeadlineExceeded(answer.status());
    if (!lost || env->NowNs() >= give_up) co_return answer;
    co_await io::SleepFor(env, kAllocatePauseNs);
  }
}

Task<absl::StatusOr<FormattedTarget>> FormatOne(
    io::Env* env, io::Channel* meta, const FormatTargetsOptions* options,
    std::string directory) {
  CAIRN_CO_RETURN_IF_ERROR(CheckEmpty(directory));
  wire::AllocateTargetRequest request;
  request.set_nonce(NewNonce());
  request.set_host(options->host.empty() ? HostName() : options->host);
  request.set_rack(options->rack);
  request.set_directory(directory);
  request.set_capacity_bytes(options->capacity_bytes);
  const absl::StatusOr<wire::AllocateTargetResponse> given =
      co_await Allocate(env, meta, std::move(request));
  if (!given.ok()) co_return given.status();
  FormatOptions format;
  if (given->cluster_id().size() != format.identity.cluster_id.bytes.size()) {
    co_return absl::DataLossError("malformed answer of the metadata service");
  }
  std::memcpy(format.identity.cluster_id.bytes.data(),
              given->cluster_id().data(), given->cluster_id().size());
  format.identity.target_id = format::TargetId(given->target());
  format.identity.disk_generation = given->disk_generation();
  format.capacity_bytes = options->capacity_bytes / format::kDiskAlignBytes *
                          format::kDiskAlignBytes;
  format.slab_bytes = options->slab_bytes;
  if (format.capacity_bytes != 0) {
    format.slab_bytes = std::min(format.slab_bytes, format.capacity_bytes);
  }
  format.prewrite = options->prewrite;
  const absl::Status made = co_await FormatTarget(env, directory, format);
  if (!made.ok()) {
    co_return Annotate(
        made, absl::StrCat("formatting target ", given->target(),
                           " (its id is not used: cairn target remove ",
                           given->target(), ")"));
  }
  FormattedTarget done;
  done.directory = std::move(directory);
  done.target = format.identity.target_id;
  co_return done;
}

Task<void> RunFormat(io::Env* env, const FormatTargetsOptions* options,
                     std::vector<FormattedTarget>* made, absl::Status* result) {
  io::ChannelOptions channel;
  channel.address = options->meta_address;
  channel.client_name = "cairnd format";
  channel.server_name = "metadata";
  const std::unique_ptr<io::Channel> meta =
      io::Channel::Create(env, std::move(channel));
  for (const std::string& directory : options->directories) {
    std::string path = CleanPath(directory);
    absl::StatusOr<FormattedTarget> one =
        co_await FormatOne(env, meta.get(), options, std::move(path));
    *result = one.status();
    if (!one.ok()) break;
    made->push_back(*std::move(one));
  }
  co_await meta->Close();
}

}  // namespace

absl::StatusOr<std::vector<FormattedTarget>> FormatTargets(
    const FormatTargetsOptions& options) {
  io::LoopOptions loop;
  loop.backend = options.backend;
  loop.pool_large_buffers = 2;
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<io::RealEnv> env,
                         io::MakeRealEnv(loop));
  std::vector<FormattedTarget> made;
  absl::Status result;
  env->RunUntilDone(RunFormat(env.get(), &options, &made, &result));
  CAIRN_RETURN_IF_ERROR(result);
  return made;
}

}  // namespace cairn::server
