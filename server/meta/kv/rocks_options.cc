#include "server/meta/kv/rocks_options.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <string_view>

#include "format/base/status.h"
#include "rocksdb/cache.h"
#include "rocksdb/env.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/table.h"
#include "server/meta/limits.h"
#include "spdlog/spdlog.h"

namespace cairn::server {
namespace {

// RocksDB's warnings and errors go to our log. Not to a file beside the data:
// Debian's library is built with assertions, and one of them ends the process
// when a second line does not fit on a full disk.
class Warnings final : public rocksdb::Logger {
 public:
  Warnings() : Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, kRocksLogLineBytesMax> line{};
    std::vsnprintf(line.data(), line.size(), format, arguments);
    std::string_view text(line.data());
    while (text.ends_with('\n')) text.remove_suffix(1);
    spdlog::warn("rocksdb: {}", text);
  }
};

rocksdb::BlockBasedTableOptions TableSettings() {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(kRocksBlockCacheBytes);
  // Indexes and filters count against the cache too: memory stays bounded.
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.checksum = rocksdb::kXXH3;
  table.format_version = 5;
  return table;
}

}  // namespace

rocksdb::Options RocksKvSettings(bool create) {
  rocksdb::Options options;
  options.create_if_missing = create;

  // A torn tail was never acknowledged and goes; anything else wrong in the log
  // refuses. What is missing at a clean end, the high-water mark finds.
  options.wal_recovery_mode =
      rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = true;
  options.recycle_log_file_num = 0;  // An old record must not pass for new.
  options.manual_wal_flush = false;
  options.paranoid_checks = true;
  options.force_consistency_checks = true;
  options.verify_sst_unique_id_in_manifest = true;
  options.memtable_protection_bytes_per_key = kRocksKeyProtectionBytes;
  // A process that ends leaves what kill -9 leaves: the log. One way to start.
  options.avoid_flush_during_shutdown = true;

  options.write_buffer_size = kRocksWriteBufferBytes;
  options.max_write_buffer_number = kRocksWriteBuffersMax;
  options.level_compaction_dynamic_level_bytes = true;
  options.max_background_jobs = 2;
  // Every table is opened, and so looked at, when the store is.
  options.max_open_files = -1;
  // Readable by any build of the library, whatever it was linked with.
  options.compression = rocksdb::kNoCompression;
  options.table_factory.reset(
      rocksdb::NewBlockBasedTableFactory(TableSettings()));

  // Shared with RocksDB's threads, which outlive any scope of ours.
  options.info_log = std::make_shared<Warnings>();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

rocksdb::WriteOptions RocksKvSyncedWrite() {
  rocksdb::WriteOptions options;
  options.sync = true;
  options.disableWAL = false;
  return options;
}

absl::Status FromRocks(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  if (status.IsCorruption()) return absl::DataLossError(text);
  if (status.IsNoSpace()) return absl::ResourceExhaustedError(text);
  if (status.IsNotFound()) return absl::NotFoundError(text);
  if (status.IsInvalidArgument()) return absl::InvalidArgumentError(text);
  return absl::UnavailableError(text);
}

absl::Status FromRocksOpen(const rocksdb::Status& status,
                           const std::string& dir) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  const auto says = [&text](const char* words) {
    return text.find(words) != std::string::npos;
  };
  // RocksDB has no codes for these two.
  if (status.IsIOError() && (says("lock hold by") || says("While lock file"))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "metadata store ", dir, " is in use by another process: ", text));
  }
  if (status.IsInvalidArgument() && says("create_if_missing is false")) {
    return absl::NotFoundError(absl::StrCat("no metadata store in ", dir));
  }
  return Annotate(FromRocks(status),
                  "metadata store " + dir + " does not open");
}

}  // namespace cairn::server
