#include "server/target/rocks_index.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include "format/base/status.h"
#include "server/target/limits.h"

namespace cairn::server {
namespace {

using format::IndexOp;

// Each key and value in a batch carries its own check up to the log.
constexpr size_t kProtectionBytesPerKey = 8;

absl::Status FromRocks(const rocksdb::Status& status, std::string_view what) {
  if (status.ok()) return absl::OkStatus();
  const std::string message =
      absl::StrCat("index: ", AbslText(what), ": ", status.ToString());
  if (status.IsCorruption()) return absl::DataLossError(message);
  if (status.IsNoSpace()) return absl::ResourceExhaustedError(message);
  if (status.IsInvalidArgument()) return absl::DataLossError(message);
  return absl::InternalError(message);
}

// A directory that is not there is an index that was lost, not an empty one.
io::Task<absl::Status> CheckExists(io::Env* env, std::string dir) {
  absl::StatusOr<std::optional<io::FileInfo>> info = co_await env->Stat(dir);
  if (!info.ok()) co_return info.status();
  if (info->has_value()) co_return absl::OkStatus();
  co_return absl::DataLossError(absl::StrCat("index: ", dir, " is missing"));
}

rocksdb::Options MakeOptions(bool create) {
  rocksdb::Options options;
  options.create_if_missing = create;
  options.error_if_exists = create;
  options.paranoid_checks = true;
  options.wal_recovery_mode =
      rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = true;
  options.verify_sst_unique_id_in_manifest = true;
  options.recycle_log_file_num = 0;
  options.max_bgerror_resume_count = 0;  // A failed flush stays failed.

  options.write_buffer_size = kIndexWriteBufferBytes;
  options.max_write_buffer_number = kIndexWriteBuffers;
  options.max_total_wal_size = kIndexWalBytesMax;
  options.max_open_files = kIndexOpenFilesMax;
  options.max_background_jobs = 2;
  options.manifest_preallocation_size = 64 * 1024;
  options.compression = rocksdb::kNoCompression;  // Checksums do not shrink.

  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.keep_log_file_num = 2;
  options.max_log_file_size = kIndexInfoLogBytesMax;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(kIndexBlockCacheBytes);
  table.cache_index_and_filter_blocks = true;
  table.checksum = rocksdb::kXXH3;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace

RocksIndex::RocksIndex(io::Env* env, std::unique_ptr<rocksdb::DB> db)
    : env_(env), db_(std::move(db)) {}

RocksIndex::~RocksIndex() { CAIRN_CHECK(!db_); }

io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> RocksIndex::Create(
    io::Env* env, std::string dir) {
  return OpenDb(env, std::move(dir), true);
}

io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> RocksIndex::Open(
    io::Env* env, std::string dir) {
  return OpenDb(env, std::move(dir), false);
}

io::Task<absl::StatusOr<std::unique_ptr<ChunkIndex>>> RocksIndex::OpenDb(
    io::Env* env, std::string dir, bool create) {
  if (!create) CAIRN_CO_RETURN_IF_ERROR(co_await CheckExists(env, dir));
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::Status status;
  std::function<void()> open = [&db, &status, &dir, create] {
    rocksdb::DB* raw = nullptr;
    status = rocksdb::DB::Open(MakeOptions(create), dir, &raw);
    db.reset(raw);
  };
  co_await env->RunBlocking(std::move(open));
  CAIRN_CO_RETURN_IF_ERROR(FromRocks(status, absl::StrCat("opening ", dir)));
  co_return std::unique_ptr<ChunkIndex>(new RocksIndex(env, std::move(db)));
}

io::Task<absl::StatusOr<std::vector<ChunkIndex::Entry>>> RocksIndex::Scan(
    std::string after, uint32_t limit) {
  std::vector<Entry> page;
  rocksdb::Status status;
  std::function<void()> scan = [this, &page, &status, &after, limit] {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options));
    it->Seek(after);
    if (it->Valid() && it->key() == after) it->Next();
    for (; it->Valid() && page.size() < limit; it->Next()) {
      page.push_back({it->key().ToString(), it->value().ToString()});
    }
    status = it->status();
  };
  co_await env_->RunBlocking(std::move(scan));
  CAIRN_CO_RETURN_IF_ERROR(FromRocks(status, "scan"));
  co_return page;
}

io::Task<absl::StatusOr<std::optional<std::string>>> RocksIndex::Get(
    std::string key) {
  std::string value;
  rocksdb::ReadOptions memory_only;
  memory_only.read_tier = rocksdb::kBlockCacheTier;
  rocksdb::Status status = db_->Get(memory_only, key, &value);
  if (status.IsIncomplete()) {
    std::function<void()> get = [this, &status, &key, &value] {
      status = db_->Get(rocksdb::ReadOptions(), key, &value);
    };
    co_await env_->RunBlocking(std::move(get));
  }
  std::optional<std::string> found;
  if (status.IsNotFound()) co_return found;
  CAIRN_CO_RETURN_IF_ERROR(FromRocks(status, "get"));
  found = std::move(value);
  co_return found;
}

io::Task<absl::Status> RocksIndex::Commit(std::vector<IndexOp> ops) {
  CAIRN_CHECK(db_ && !ops.empty());
  rocksdb::WriteBatch batch(0, 0, kProtectionBytesPerKey, 0);
  rocksdb::Status status;
  for (const IndexOp& op : ops) {
    if (op.kind == IndexOp::Kind::kErase) {
      status = batch.Delete(op.key);
    } else {
      status = batch.Put(op.key, op.value);
    }
    CAIRN_CO_RETURN_IF_ERROR(FromRocks(status, "batch"));
  }
  std::function<void()> write = [this, &status, &batch] {
    rocksdb::WriteOptions options;
    options.sync = true;
    status = db_->Write(options, &batch);
  };
  co_await env_->RunBlocking(std::move(write));
  co_return FromRocks(status, "commit");
}

io::Task<absl::Status> RocksIndex::Close() {
  if (!db_) co_return absl::OkStatus();
  rocksdb::Status status;
  std::function<void()> close = [this, &status] {
    status = db_->Close();
    db_.reset();
  };
  co_await env_->RunBlocking(std::move(close));
  co_return FromRocks(status, "close");
}

}  // namespace cairn::server
