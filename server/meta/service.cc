#include "server/meta/service.h"

#include "spdlog/spdlog.h"

namespace cairn::server {

using format::InodeId;
using format::KeyKind;

MetaService::MetaService(io::Env* env, KvEngine* kv, TargetOrders* orders,
                         MetaOptions options)
    : core_(env, kv, std::move(options)),
      orders_(orders),
      sessions_(&core_),
      extents_(&core_, &sessions_),
      names_(&core_, &sessions_, &extents_),
      sets_(&core_, &sessions_, &names_, &extents_),
      trash_(&core_),
      health_(&core_, orders),
      membership_(&core_, orders),
      pools_(&core_),
      chores_(&core_, orders, &health_),
      garbage_(&core_, orders, &chores_),
      rebuild_(&core_, orders, &health_, &chores_),
      scrub_(&core_, orders, &health_),
      started_ns_(env->NowNs()) {}

MetaService::~MetaService() { CAIRN_CHECK(closed_); }

io::Task<absl::Status> MetaService::Bootstrap(io::Env* env, KvEngine* kv,
                                              format::ClusterMap map) {
  format::CarryPgEpochs(format::ClusterMap(), &map);
  CAIRN_CO_RETURN_IF_ERROR(format::ValidateMap(map));
  Txn txn(kv);
  store::Map record;
  format::MapToProto(map, record.mutable_map());
  txn.Expect(format::MapKey(), 0);
  txn.Put(format::MapKey(), record);
  const uint64_t now = env->WallNs();
  store::Inode root;
  root.set_type(static_cast<uint32_t>(format::InodeType::kDirectory));
  root.set_mode(0755);
  root.set_nlink(1);
  root.set_mtime_ns(now);
  root.set_ctime_ns(now);
  root.set_atime_ns(now);
  root.set_generation(1);
  root.set_parent(format::kRootInode.value);
  const std::string root_key = format::InodeKey(format::kRootInode);
  txn.Expect(root_key, 0);
  txn.Put(root_key, root);
  const absl::StatusOr<uint64_t> committed = co_await txn.Commit();
  if (IsConflict(committed.status())) {
    co_return absl::AlreadyExistsError(
        "the metadata store is initialised already");
  }
  co_return committed.status();
}

io::Task<absl::StatusOr<std::unique_ptr<MetaService>>> MetaService::Open(
    io::Env* env, KvEngine* kv, TargetOrders* orders, MetaOptions options) {
  CAIRN_CO_RETURN_IF_ERROR(CheckHealthOptions(options.health));
  std::unique_ptr<MetaService> service(
      new MetaService(env, kv, orders, std::move(options)));
  const absl::Status loaded = co_await service->Load();
  if (!loaded.ok()) {
    CAIRN_CO_RETURN_IF_ERROR(co_await service->Close());
    co_return loaded;
  }
  co_return service;
}

io::Task<absl::Status> MetaService::Load() {
  CAIRN_CO_RETURN_IF_ERROR(co_await core_.map.Load());
  CAIRN_CO_RETURN_IF_ERROR(co_await core_.clock.Load());
  CAIRN_CO_RETURN_IF_ERROR(co_await membership_.Load());
  // All inodes from here on are made by this run.
  const absl::StatusOr<uint64_t> first =
      co_await core_.ids.Next(format::CounterId::kInodeCounter);
  if (!first.ok()) co_return first.status();
  first_new_inode_ = *first;
  core_.files.StartScan(first_new_inode_);
  CAIRN_CO_RETURN_IF_ERROR(co_await sessions_.Load());
  CAIRN_CO_RETURN_IF_ERROR(co_await rebuild_.Load());
  co_return co_await sets_.Load();
}

void MetaService::Start() {
  core_.gate.Spawn(sessions_.ExpireLoop());
  core_.gate.Spawn(sets_.IdleLoop());
  core_.gate.Spawn(trash_.Loop());
  core_.gate.Spawn(garbage_.Loop());
  core_.gate.Spawn(health_.Loop());
  core_.gate.Spawn(rebuild_.Loop());
  core_.gate.Spawn(scrub_.Loop());
  core_.gate.Spawn(SaveClockLoop());
  core_.gate.Spawn(CountFiles(first_new_inode_));
}

io::Task<absl::Status> MetaService::Close() {
  if (closed_) co_return absl::OkStatus();
  core_.stopping.Cancel();
  co_await core_.gate.Close();
  closed_ = true;
  co_return absl::OkStatus();
}

io::Task<void> MetaService::SaveClockLoop() {
  while (!core_.stopping.cancelled()) {
    co_await io::SleepFor(core_.env, core_.options.clock_save_ns,
                          &core_.stopping);
    const absl::Status saved = co_await core_.clock.Save();
    if (!saved.ok()) {
      spdlog::warn("metadata: saving the service clock: {}",
                   StdText(saved.message()));
    }
  }
}

io::Task<void> MetaService::CountFiles(uint64_t first_new) {
  const absl::Status counted = co_await CountFilesBelow(first_new);
  core_.files.EndScan();
  if (!counted.ok()) {
    spdlog::warn("metadata: counting files: {}", StdText(counted.message()));
  }
}

io::Task<absl::Status> MetaService::CountFilesBelow(uint64_t first_new) {
  constexpr uint32_t kPage = 1024;
  format::KeyRange range;
  range.begin = format::InodeKey(InodeId(0));
  range.end = format::InodeKey(InodeId(first_new));
  while (!core_.stopping.cancelled()) {
    const absl::StatusOr<std::vector<KvPair>> page =
        co_await core_.kv->Scan(range.begin, range.end, kPage);
    if (!page.ok()) co_return page.status();
    uint64_t found = 0;
    uint64_t cursor = first_new;
    for (const KvPair& pair : *page) {
      CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                                format::ParseKey(pair.key));
      CAIRN_CO_ASSIGN_OR_RETURN(
          const store::Inode record,
          format::DecodeRecord<store::Inode>(pair.key, pair.value));
      cursor = key.numbers[0] + 1;
      if (!IsDirectory(record) && record.nlink() > 0) ++found;
    }
    if (page->size() < kPage) cursor = first_new;
    core_.files.Scanned(cursor, found);
    if (page->size() < kPage) break;
    range.begin = format::InodeKey(InodeId(cursor));
    // Other work first: there may be millions.
    co_await io::SleepFor(core_.env, io::kMillisecond, &core_.stopping);
  }
  co_return absl::OkStatus();
}

void MetaService::SetTargetAddress(format::TargetId target,
                                   std::string address) {
  core_.map.SetAddress(target, std::move(address));
}

io::Task<absl::Status> MetaService::ReplaceMap(format::ClusterMap map) {
  const io::Gate::Hold hold = core_.gate.Enter();
  co_return co_await core_.map.Replace(std::move(map));
}

}  // namespace cairn::server
