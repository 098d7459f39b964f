// Disk: what faults do to its operations and to what it stores.
#include <algorithm>
#include <utility>

#include "tests/sim/disk.h"

namespace cairn::sim {
namespace {

// How often a seeded place that will not do is drawn again.
constexpr int kDrawsMax = 64;

FaultKind KindOf(const absl::Status& failure, FaultKind other) {
  return absl::IsResourceExhausted(failure) ? FaultKind::kDiskFull : other;
}

// `bytes` are at `offset`; the block is the one around `at`.
void ZeroOneBlock(uint64_t at, uint64_t offset, io::MutableBytes bytes) {
  const uint64_t block = at - at % format::kDiskAlignBytes;
  const uint64_t start = std::max(block, offset) - offset;
  const uint64_t end = std::min<uint64_t>(
      bytes.size(), block + format::kDiskAlignBytes - offset);
  std::fill(bytes.begin() + static_cast<ptrdiff_t>(start),
            bytes.begin() + static_cast<ptrdiff_t>(end), uint8_t{0});
}

}  // namespace

void Disk::Damaged(FaultKind kind, std::string_view path, uint64_t offset,
                   uint64_t size_bytes) {
  Fired(kind, offset);
  damages_.push_back({kind, std::string(path), offset, size_bytes});
}

// --- Finding places.

std::vector<Disk::NamedFile> Disk::FilesWith(
    std::string_view path_contains) const {
  std::vector<NamedFile> files;
  std::vector<NamedFile> left = {{"", root_.get()}};
  while (!left.empty()) {
    const NamedFile next = std::move(left.back());
    left.pop_back();
    if (!next.inode->is_directory) {
      if (next.path.find(path_contains) != next.path.npos) {
        files.push_back(next);
      }
      continue;
    }
    const auto& entries = next.inode->entries;
    for (auto it = entries.rbegin(); it != entries.rend(); ++it) {
      left.push_back(
          {absl::StrCat(next.path, "/", it->first), it->second.get()});
    }
  }
  return files;
}

std::optional<Disk::Spot> Disk::PickStored(
    const std::vector<NamedFile>& files) {
  uint64_t pages = 0;
  for (const NamedFile& file : files) pages += file.inode->data.stored_pages();
  if (pages == 0) return std::nullopt;
  uint64_t page = faults_.random()->Below(pages);
  for (const NamedFile& file : files) {
    const uint64_t here = file.inode->data.stored_pages();
    if (page < here) {
      return Spot{file, file.inode->data.StoredByte(page, faults_.random())};
    }
    page -= here;
  }
  return std::nullopt;
}

std::optional<Disk::Spot> Disk::PickOther(const Inode* file, uint64_t offset,
                                          uint64_t size_bytes,
                                          std::string_view path_contains) {
  const std::vector<NamedFile> files = FilesWith(path_contains);
  for (int i = 0; i < kDrawsMax; ++i) {
    std::optional<Spot> spot = PickStored(files);
    if (!spot) return std::nullopt;
    spot->offset -= spot->offset % format::kDiskAlignBytes;
    const uint64_t end = spot->offset + size_bytes;
    if (end > spot->file.inode->data.size_bytes()) continue;
    const bool overlaps = spot->file.inode == file &&
                          spot->offset < offset + size_bytes && offset < end;
    if (!overlaps) return spot;
  }
  return std::nullopt;
}

// --- Rot.

void Disk::RotIn(Inode* file, std::string_view path, uint64_t offset,
                 uint64_t size_bytes) {
  const uint64_t byte = offset + faults_.random()->Below(size_bytes);
  const uint64_t bit = faults_.random()->Below(8);
  file->data.Flip(byte, static_cast<uint8_t>(1u << bit));
  Damaged(FaultKind::kBitRot, path, byte, 1);
}

bool Disk::RotOnce(const std::vector<NamedFile>& files,
                   std::vector<Damage>* hits) {
  for (int i = 0; i < kDrawsMax; ++i) {
    const std::optional<Spot> spot = PickStored(files);
    if (!spot) return false;
    FileData* const data = &spot->file.inode->data;
    if (!data->IsSettled(spot->offset)) continue;
    const uint64_t start = spot->offset - spot->offset % kSectorBytes;
    std::vector<uint8_t> sector(
        std::min(kSectorBytes, data->size_bytes() - start));
    data->Read(start, sector);
    const bool zeros = std::all_of(sector.begin(), sector.end(),
                                   [](uint8_t byte) { return byte == 0; });
    if (zeros) continue;  // Likely space that nothing uses.
    RotIn(spot->file.inode, spot->file.path, spot->offset, 1);
    hits->push_back(damages_.back());
    return true;
  }
  return false;
}

std::vector<Damage> Disk::Rot(std::string_view path_contains, uint64_t count) {
  const std::vector<NamedFile> files = FilesWith(path_contains);
  std::vector<Damage> hits;
  for (uint64_t i = 0; i < count && RotOnce(files, &hits); ++i) {
  }
  return hits;
}

void Disk::DropCache() {
  for (const NamedFile& file : FilesWith("")) file.inode->data.DropCache();
}

// --- Reads.

absl::Status Disk::FaultyRead(Inode* file, std::string_view path,
                              uint64_t offset, io::MutableBytes to) {
  const std::optional<DiskHit> hit = faults_.Draw(DiskOp::kRead, path);
  if (!hit) return Read(file, offset, to);
  if (hit->effect == DiskEffect::kError) {
    Fired(FaultKind::kDiskReadError, offset);
    return hit->status;
  }
  const uint64_t size = file->data.size_bytes();
  const uint64_t count =
      std::min<uint64_t>(to.size(), size - std::min(offset, size));
  if (count == 0) return Read(file, offset, to);
  if (hit->effect == DiskEffect::kRot) {
    RotIn(file, path, offset, count);
    return Read(file, offset, to);
  }
  absl::Status status = Read(file, offset, to);
  Distort(*hit, file, offset, to.first(count));
  return status;
}

void Disk::Distort(const DiskHit& hit, Inode* file, uint64_t offset,
                   io::MutableBytes bytes) {
  const std::vector<uint8_t> right(bytes.begin(), bytes.end());
  FaultKind kind = FaultKind::kStaleRead;
  if (hit.effect == DiskEffect::kStale) {
    file->data.ReadReplaced(offset, bytes);
  } else if (hit.effect == DiskEffect::kMisdirected &&
             Misread(file, offset, bytes, hit.path_contains)) {
    kind = FaultKind::kMisdirectedRead;
  } else {
    kind = FaultKind::kZeroedRead;
    ZeroOneBlock(offset + faults_.random()->Below(bytes.size()), offset, bytes);
  }
  if (!std::equal(right.begin(), right.end(), bytes.begin())) {
    Fired(kind, offset);
  }
}

bool Disk::Misread(const Inode* file, uint64_t offset, io::MutableBytes bytes,
                   std::string_view path_contains) {
  const std::optional<Spot> other =
      PickOther(file, offset, bytes.size(), path_contains);
  if (!other) return false;
  other->file.inode->data.Read(other->offset, bytes);
  return true;
}

// --- Writes.

absl::StatusOr<uint64_t> Disk::FaultyWrite(Inode* file, std::string_view path,
                                           uint64_t offset,
                                           io::ConstBytes from) {
  const std::optional<DiskHit> hit = faults_.Draw(DiskOp::kWrite, path);
  if (!hit || from.empty()) return Write(file, offset, from);
  if (hit->effect == DiskEffect::kError) {
    Fired(KindOf(hit->status, FaultKind::kDiskWriteError), offset);
    const uint64_t part = random_.Between(0, from.size());
    CAIRN_RETURN_IF_ERROR(Write(file, offset, from.first(part)).status());
    return hit->status;
  }
  if (file->data.GrowthOfWrite(offset, from.size()) > Space().free_bytes) {
    return Full();
  }
  if (hit->effect == DiskEffect::kLost) {
    return LoseWrite(file, path, offset, from.size());
  }
  return MisdirectWrite(file, path, offset, from, hit->path_contains);
}

// The file's size is the file system's to write, and is not lost.
absl::StatusOr<uint64_t> Disk::LoseWrite(Inode* file, std::string_view path,
                                         uint64_t offset, uint64_t size_bytes) {
  Damaged(FaultKind::kLostWrite, path, offset, size_bytes);
  const uint64_t end = offset + size_bytes;
  return end > file->data.size_bytes() ? file->data.Resize(end) : uint64_t{0};
}

absl::StatusOr<uint64_t> Disk::MisdirectWrite(Inode* file,
                                              std::string_view path,
                                              uint64_t offset,
                                              io::ConstBytes from,
                                              std::string_view path_contains) {
  const std::optional<Spot> victim =
      PickOther(file, offset, from.size(), path_contains);
  absl::StatusOr<uint64_t> change = LoseWrite(file, path, offset, from.size());
  if (!victim) return change;
  FileData* const data = &victim->file.inode->data;
  data->FlushOne(data->Write(victim->offset, from));
  Damaged(FaultKind::kMisdirectedWrite, victim->file.path, victim->offset,
          from.size());
  return change;
}

// --- Flushes and names.

absl::Status Disk::FaultySync(Inode* file, std::string_view path,
                              uint64_t change) {
  const std::optional<DiskHit> hit = faults_.Draw(DiskOp::kSync, path);
  if (!hit) {
    file->data.FlushUpTo(change);
    return absl::OkStatus();
  }
  if (hit->effect == DiskEffect::kError) {
    file->data.ForgetUpTo(change);  // As a kernel that marks pages clean.
    Fired(FaultKind::kDiskSyncError, file->number);
    return hit->status;
  }
  if (file->data.DoomUpTo(change)) Damaged(FaultKind::kLyingSync, path, 0, 0);
  return absl::OkStatus();
}

absl::Status Disk::FaultyFlush(Inode* file, std::string_view path,
                               uint64_t change) {
  const std::optional<DiskHit> hit = faults_.Draw(DiskOp::kDurable, path);
  if (!hit) {
    file->data.FlushOne(change);
    return absl::OkStatus();
  }
  if (hit->effect == DiskEffect::kError) {
    Fired(FaultKind::kDiskSyncError, file->number);
    return hit->status;
  }
  if (file->data.DoomOne(change)) Damaged(FaultKind::kLyingSync, path, 0, 0);
  return absl::OkStatus();
}

absl::Status Disk::FaultySyncDirectory(std::string_view path) {
  const std::optional<DiskHit> hit = faults_.Draw(DiskOp::kSync, path);
  if (!hit) return SyncDirectory(path);
  if (hit->effect == DiskEffect::kError) {
    Fired(FaultKind::kDiskSyncError, 0);
    return hit->status;
  }
  CAIRN_ASSIGN_OR_RETURN(const InodePtr directory, FindDirectory(path));
  const std::vector<bool> covered = CoveredBy(directory.get());
  bool any = false;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (covered[i]) any = pending_[i].doomed = true;
  }
  if (any) Damaged(FaultKind::kLyingSync, path, 0, 0);
  return absl::OkStatus();
}

absl::Status Disk::NameFault(std::string_view path) {
  const std::optional<DiskHit> hit = faults_.Draw(DiskOp::kName, path);
  if (!hit) return absl::OkStatus();
  Fired(KindOf(hit->status, FaultKind::kDiskNameError), 0);
  return hit->status;
}

// --- Time.

void Disk::set_slow_factor(uint64_t factor) {
  CAIRN_CHECK(factor > 0);
  slow_factor_ = factor;
  slowness_noted_ = false;
}

io::TimeNs Disk::Slowed(io::TimeNs latency) {
  const uint64_t drawn = faults_.DrawSlowness();
  if (drawn > 1 || (slow_factor_ > 1 && !slowness_noted_)) {
    slowness_noted_ = slow_factor_ > 1;
    Fired(FaultKind::kSlowDisk, drawn * slow_factor_);
  }
  return latency * drawn * slow_factor_;
}

}  // namespace cairn::sim
