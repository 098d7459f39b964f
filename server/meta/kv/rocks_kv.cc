#include "server/meta/kv/rocks_kv.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "format/meta/kv_record.h"
#include "rocksdb/db.h"
#include "rocksdb/write_batch.h"
#include "server/meta/kv/kv_rules.h"
#include "server/meta/kv/rocks_options.h"

namespace cairn::server {
namespace {

// The engine's own records, below every user key.
const rocksdb::Slice kIdentityKey("\0identity", 9);
const rocksdb::Slice kSequenceKey("\0sequence", 9);
static_assert(kKvReservedPrefix == '\0');

constexpr io::TimeNs kSpaceCheckIntervalNs = io::kSecond;
// What an operation costs the queue beside its bytes.
constexpr uint64_t kOperationBytes = 64;
static_assert(kKvBytesMax + kKvOpsMax * kOperationBytes <= kKvQueuedBytesMax);

absl::Status DamagedKey(const rocksdb::Slice& key, absl::Status why) {
  return Annotate(std::move(why), "metadata key " + key.ToString(/*hex=*/true));
}

absl::StatusOr<KvPair> PairFrom(const rocksdb::Slice& key,
                                const rocksdb::Slice& stored) {
  absl::StatusOr<format::KvRecord> record =
      format::DecodeKvRecord({stored.data(), stored.size()});
  if (!record.ok()) return DamagedKey(key, record.status());
  return KvPair{key.ToString(), std::string(record->value), record->version};
}

std::string ParentOf(std::string_view dir) {
  while (dir.size() > 1 && dir.ends_with('/')) dir.remove_suffix(1);
  const size_t slash = dir.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(dir.substr(0, std::max<size_t>(slash, 1)));
}

// RocksDB makes its directory, but not the entry in the parent durable.
io::Task<absl::Status> MakeDirectoryDurably(io::Env* env, std::string dir) {
  const absl::Status made = co_await env->MakeDirectory(dir);
  if (!made.ok() && !absl::IsAlreadyExists(made)) co_return made;
  std::string parent = ParentOf(dir);
  co_return co_await env->SyncDirectory(std::move(parent));
}

// Lets everything that is ready now run first.
struct NextTurn {
  io::Executor* executor;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) const {
    executor->Schedule(handle);
  }
  void await_resume() const noexcept {}
};

}  // namespace

struct RocksKv::Batch {
  explicit Batch(io::Executor* executor) : waiters(executor) {}
  rocksdb::WriteBatch writes{
      /*reserved_bytes=*/0, /*max_bytes=*/0,
      /*protection_bytes_per_key=*/kRocksKeyProtectionBytes,
      /*default_cf_ts_sz=*/0};
  uint64_t last_sequence = 0;  // Of the newest commit in it; 0: empty.
  io::WaitQueue waiters;
};

RocksKv::RocksKv(io::Env* env, std::string dir, RocksKvOptions options,
                 std::unique_ptr<rocksdb::DB> db)
    : env_(env),
      dir_(std::move(dir)),
      options_(std::move(options)),
      db_(std::move(db)),
      batches_{std::make_unique<Batch>(env), std::make_unique<Batch>(env)},
      room_(env, kKvQueuedBytesMax),
      gate_(env) {}

RocksKv::~RocksKv() { CAIRN_CHECK(closed_); }

io::Task<absl::StatusOr<std::unique_ptr<RocksKv>>> RocksKv::Open(
    io::Env* env, std::string dir, RocksKvOptions options) {
  if (options.create) {
    CAIRN_CO_RETURN_IF_ERROR(co_await MakeDirectoryDurably(env, dir));
  }
  rocksdb::DB* raw = nullptr;
  rocksdb::Status opened;
  std::function<void()> work = [&dir, &options, &raw, &opened] {
    opened = rocksdb::DB::Open(RocksKvSettings(options.create), dir, &raw);
  };
  co_await env->RunBlocking(std::move(work));
  std::unique_ptr<rocksdb::DB> db(raw);
  CAIRN_CO_RETURN_IF_ERROR(FromRocksOpen(opened, dir));
  std::unique_ptr<RocksKv> kv(
      new RocksKv(env, std::move(dir), std::move(options), std::move(db)));
  absl::Status loaded = kv->LoadIdentity();
  if (loaded.ok()) loaded = kv->LoadSequence();
  if (loaded.ok()) loaded = co_await kv->LookAtSpace();
  if (!loaded.ok()) {
    (void)co_await kv->Close();
    co_return Annotate(std::move(loaded), "metadata store " + kv->dir_);
  }
  co_return kv;
}

absl::Status RocksKv::LoadIdentity() {
  std::string stored;
  const rocksdb::Status got = db_->Get({}, kIdentityKey, &stored);
  if (got.IsNotFound() && options_.create) {
    return FromRocks(db_->Put(RocksKvSyncedWrite(), kIdentityKey,
                              format::EncodeKvIdentity(options_.cluster)));
  }
  if (got.IsNotFound()) {
    return absl::FailedPreconditionError(
        "was never fully made: initialise it again");
  }
  CAIRN_RETURN_IF_ERROR(FromRocks(got));
  CAIRN_ASSIGN_OR_RETURN(const format::ClusterId cluster,
                         format::DecodeKvIdentity(format::AsBytes(stored)));
  if (cluster != options_.cluster) {
    return absl::FailedPreconditionError(
        absl::StrCat("belongs to cluster ", format::ToString(cluster),
                     ", not to ", format::ToString(options_.cluster)));
  }
  return absl::OkStatus();
}

absl::Status RocksKv::LoadSequence() {
  std::string stored;
  const rocksdb::Status got = db_->Get({}, kSequenceKey, &stored);
  if (got.IsNotFound()) return absl::OkStatus();  // No commit yet.
  CAIRN_RETURN_IF_ERROR(FromRocks(got));
  CAIRN_ASSIGN_OR_RETURN(sequence_,
                         format::DecodeKvSequence(format::AsBytes(stored)));
  durable_sequence_ = sequence_;
  return absl::OkStatus();
}

io::Task<absl::StatusOr<std::optional<KvValue>>> RocksKv::Get(std::string key) {
  CAIRN_CHECK(!closed_);
  if (!latched_.ok()) co_return latched_;
  CAIRN_CO_RETURN_IF_ERROR(CheckKvKey(key));
  co_return Find(key);
}

io::Task<absl::StatusOr<std::vector<KvPair>>> RocksKv::Scan(std::string begin,
                                                            std::string end,
                                                            uint32_t limit) {
  CAIRN_CHECK(!closed_);
  if (!latched_.ok()) co_return latched_;
  co_return Merge(std::move(begin), end, limit);
}

absl::StatusOr<std::optional<KvValue>> RocksKv::Find(
    const std::string& key) const {
  std::optional<KvValue> found;
  if (const KvOverlay::Entry* pending = overlay_.Find(key)) {
    if (pending->value) found = KvValue{*pending->value, pending->version};
    return found;
  }
  rocksdb::PinnableSlice stored;
  const rocksdb::Status got =
      db_->Get({}, db_->DefaultColumnFamily(), key, &stored);
  if (got.IsNotFound()) return found;
  if (!got.ok()) return DamagedKey(key, FromRocks(got));
  CAIRN_ASSIGN_OR_RETURN(KvPair pair, PairFrom(key, stored));
  found = KvValue{std::move(pair.value), pair.version};
  return found;
}

// Both sides are sorted; where both have a key the overlay is the newer one.
absl::StatusOr<std::vector<KvPair>> RocksKv::Merge(std::string begin,
                                                   const std::string& end,
                                                   uint32_t limit) const {
  begin = std::max(std::move(begin), std::string(kKvFirstUserKey));
  std::vector<KvPair> found;
  if (begin >= end || limit == 0) return found;
  rocksdb::ReadOptions bounded;
  const rocksdb::Slice upper(end);
  bounded.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> stored(db_->NewIterator(bounded));
  stored->Seek(begin);
  auto pending = overlay_.entries().lower_bound(begin);
  while (found.size() < limit) {
    const bool in_overlay =
        pending != overlay_.entries().end() && pending->first < end;
    if (!stored->Valid() && !in_overlay) break;
    const int order =
        !in_overlay ? 1
        : !stored->Valid()
            ? -1
            : rocksdb::Slice(pending->first).compare(stored->key());
    if (order > 0) {
      CAIRN_ASSIGN_OR_RETURN(KvPair pair,
                             PairFrom(stored->key(), stored->value()));
      found.push_back(std::move(pair));
    } else if (pending->second.value) {
      found.push_back(
          {pending->first, *pending->second.value, pending->second.version});
    }
    if (order <= 0) ++pending;
    if (order >= 0) stored->Next();
  }
  if (!stored->status().ok()) {
    return DamagedKey(begin, FromRocks(stored->status()));
  }
  return found;
}

absl::Status RocksKv::Holds(const KvCommit& commit) const {
  for (const KvExpect& expect : commit.expect) {
    CAIRN_ASSIGN_OR_RETURN(const std::optional<KvValue> now, Find(expect.key));
    if ((now ? now->version : 0) != expect.version) {
      return absl::AbortedError("an expected key has changed");
    }
  }
  for (const KvExpectEmpty& range : commit.expect_empty) {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<KvPair> first,
                           Merge(range.begin, range.end, 1));
    if (!first.empty()) {
      return absl::AbortedError("a range expected to be empty is not");
    }
  }
  return absl::OkStatus();
}

io::Task<absl::StatusOr<uint64_t>> RocksKv::Commit(KvCommit commit) {
  CAIRN_CHECK(!closed_);
  const auto in_flight = gate_.Enter();
  CAIRN_CO_RETURN_IF_ERROR(CheckKvCommit(commit));
  CAIRN_CO_RETURN_IF_ERROR(co_await CheckSpace(&commit));
  const uint64_t bytes =
      KvCommitBytes(commit) + kOperationBytes * commit.writes.size();
  co_await room_.Acquire(bytes);
  absl::StatusOr<uint64_t> decided = Decide(std::move(commit));
  if (decided.ok()) {
    absl::Status durable = co_await Durable(*decided);
    if (!durable.ok()) decided = std::move(durable);
  }
  room_.Release(bytes);
  co_return decided;
}

absl::StatusOr<uint64_t> RocksKv::Decide(KvCommit commit) {
  CAIRN_RETURN_IF_ERROR(latched_);
  CAIRN_RETURN_IF_ERROR(Holds(commit));
  if (!commit.writes.empty()) {
    ++sequence_;
    Enqueue(std::move(commit.writes));
  }
  return sequence_;
}

// Queues `writes` as the commit sequence_.
void RocksKv::Enqueue(std::vector<KvWrite> writes) {
  Batch* const batch = gathering();
  std::array<char, format::kKvVersionBytes> version{};
  format::StoreLe(version.data(), sequence_);
  for (KvWrite& write : writes) {
    const rocksdb::Slice key(write.key);
    rocksdb::Status added;
    if (write.value) {
      const std::array<rocksdb::Slice, 2> stored = {
          rocksdb::Slice(version.data(), version.size()), *write.value};
      added = batch->writes.Put(rocksdb::SliceParts(&key, 1),
                                rocksdb::SliceParts(stored.data(), 2));
    } else {
      added = batch->writes.Delete(key);
    }
    CAIRN_CHECK(added.ok());
    overlay_.Apply(std::move(write), sequence_);
  }
  batch->last_sequence = sequence_;
  if (flushing_) return;
  flushing_ = true;
  gate_.Spawn(Flush());
}

io::Task<void> RocksKv::Flush() {
  while (true) {
    // Callers that the last batch woke come back in this turn: without the
    // pause each batch would leave with one commit and the rest wait for it.
    co_await NextTurn{env_};
    Batch* const batch = gathering();
    if (batch->last_sequence == 0 || !latched_.ok()) break;
    gathering_ ^= 1;
    // A file system that cannot tell its space will tell by failing the write.
    (void)co_await LookAtSpace();
    absl::Status written = co_await WriteOut(batch);
    Finish(batch, std::move(written));
  }
  flushing_ = false;
}

io::Task<absl::Status> RocksKv::WriteOut(Batch* batch) {
  const std::string newest = format::EncodeKvSequence(batch->last_sequence);
  rocksdb::Status written = batch->writes.Put(kSequenceKey, newest);
  CAIRN_CHECK(written.ok());
  rocksdb::DB* const db = db_.get();
  std::function<void()> work = [db, batch, &written] {
    written = db->Write(RocksKvSyncedWrite(), &batch->writes);
  };
  co_await env_->RunBlocking(std::move(work));
  co_return FromRocks(written);
}

void RocksKv::Finish(Batch* batch, absl::Status written) {
  if (written.ok()) {
    durable_sequence_ = batch->last_sequence;
    overlay_.DropThrough(durable_sequence_);
  } else {
    latched_ = absl::UnavailableError(absl::StrCat(
        "metadata store ", dir_,
        " failed and stays stopped until restarted: ", written.ToString()));
    // These wait for a batch that will never be written.
    gathering()->waiters.WakeAll();
  }
  batch->writes.Clear();
  batch->last_sequence = 0;
  batch->waiters.WakeAll();
  if (written.ok() && options_.on_durable) {
    options_.on_durable(durable_sequence_);
  }
}

io::Task<absl::Status> RocksKv::Durable(uint64_t sequence) {
  CAIRN_CHECK(sequence <= sequence_);
  while (durable_sequence_ < sequence) {
    if (!latched_.ok()) co_return latched_;
    Batch* batch = batches_[gathering_ ^ 1].get();  // The one being written.
    if (sequence > batch->last_sequence) batch = gathering();
    co_await batch->waiters.Wait();
  }
  co_return absl::OkStatus();
}

io::Task<absl::Status> RocksKv::AwaitDurable(uint64_t sequence) {
  CAIRN_CHECK(!closed_);
  const auto in_flight = gate_.Enter();
  if (sequence > sequence_) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("sequence ", sequence, " was never given out"));
  }
  co_return co_await Durable(sequence);
}

io::Task<absl::Status> RocksKv::SkipTo(uint64_t sequence) {
  CAIRN_CHECK(!closed_);
  const auto in_flight = gate_.Enter();
  if (!latched_.ok()) co_return latched_;
  if (sequence < sequence_) {
    co_return absl::InvalidArgumentError("a sequence never moves back");
  }
  if (sequence > sequence_) {
    sequence_ = sequence;
    Enqueue({});
  }
  co_return co_await Durable(sequence);
}

bool RocksKv::Fits(const KvCommit& commit) const {
  if (free_bytes_ >= options_.reserve_bytes) return true;
  const auto deletes = static_cast<size_t>(std::ranges::count_if(
      commit.writes,
      [](const KvWrite& write) { return !write.value.has_value(); }));
  const bool low = free_bytes_ < options_.reserve_bytes / 2;
  return deletes == commit.writes.size() || (!low && deletes > 0);
}

// Suspends only if the last look said that there is too little.
io::Task<absl::Status> RocksKv::CheckSpace(const KvCommit* commit) {
  if (Fits(*commit)) co_return absl::OkStatus();
  CAIRN_CO_RETURN_IF_ERROR(co_await LookAtSpace());
  if (Fits(*commit)) co_return absl::OkStatus();
  co_return absl::ResourceExhaustedError(absl::StrCat(
      "metadata store ", dir_, " keeps ", options_.reserve_bytes,
      " bytes free to be able to delete; its file system has ", free_bytes_));
}

io::Task<absl::Status> RocksKv::LookAtSpace() {
  const io::TimeNs now = env_->NowNs();
  if (now < look_again_ns_) co_return absl::OkStatus();
  look_again_ns_ = now + kSpaceCheckIntervalNs;
  const absl::StatusOr<io::DiskSpace> space = co_await env_->Space(dir_);
  if (!space.ok()) co_return Annotate(space.status(), "free space of " + dir_);
  free_bytes_ = space->free_bytes;
  co_return absl::OkStatus();
}

io::Task<absl::Status> RocksKv::Close() {
  CAIRN_CHECK(!closed_);
  closed_ = true;
  co_await gate_.Close();
  rocksdb::Status closed;
  std::function<void()> work = [this, &closed] {
    closed = db_->Close();
    db_.reset();
  };
  co_await env_->RunBlocking(std::move(work));
  co_return FromRocks(closed);
}

}  // namespace cairn::server
