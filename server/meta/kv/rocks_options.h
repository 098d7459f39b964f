// How Cairn sets RocksDB up, and what RocksDB's answers mean here.
//
// Every setting that guards against wrong or lost bytes is on, and none may be
// turned off: a damaged store refuses to open or answers kDataLoss.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn::server {

// `create`: make the store if it is absent.
rocksdb::Options RocksKvSettings(bool create);

// Each batch is on stable storage before it is acknowledged.
rocksdb::WriteOptions RocksKvSyncedWrite();

// Bytes of checksum that each key carries from the batch into the memtable.
inline constexpr uint32_t kRocksKeyProtectionBytes = 8;

// kDataLoss: corruption. kResourceExhausted: the disk is full. kNotFound,
// kInvalidArgument. kUnavailable: everything else.
absl::Status FromRocks(const rocksdb::Status& status);

// The same for DB::Open() of `dir`. kFailedPrecondition: another process has
// it. kNotFound: no store there.
absl::Status FromRocksOpen(const rocksdb::Status& status,
                           const std::string& dir);

}  // namespace cairn::server
