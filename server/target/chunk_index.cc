#include "server/target/chunk_index.h"

#include <string_view>

#include "format/base/status.h"
#include "server/target/log_index.h"
#include "server/target/rocks_index.h"

namespace cairn::server {
namespace {

absl::Status NoRocksDbHere() {
  return absl::InvalidArgumentError(
      "RocksDB has threads and files of its own, which the simulator cannot "
      "drive: format the target with IndexKind::kLog");
}

bool CanRunRocksDb(io::Env* env) {
  return std::string_view(env->name()) != "sim";
}

}  // namespace

io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> CreateIndex(
    io::Env* env, format::IndexKind kind, std::string dir) {
  if (kind == format::IndexKind::kLog) {
    co_return co_await LogIndex::Create(env, std::move(dir));
  }
  if (!CanRunRocksDb(env)) co_return NoRocksDbHere();
  co_return co_await RocksIndex::Create(env, std::move(dir));
}

io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> OpenIndex(
    io::Env* env, format::IndexKind kind, std::string dir) {
  if (kind == format::IndexKind::kLog) {
    co_return co_await LogIndex::Open(env, std::move(dir));
  }
  if (!CanRunRocksDb(env)) co_return NoRocksDbHere();
  co_return co_await RocksIndex::Open(env, std::move(dir));
}

}  // namespace cairn::server
