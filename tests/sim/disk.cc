#include "tests/sim/disk.h"

#include <algorithm>
#include <set>

namespace cairn::sim {
namespace {

absl::Status NotFound(std::string_view path) {
  return absl::NotFoundError(absl::StrCat(AbslText(path), ": ENOENT"));
}

absl::Status OtherError(std::string_view path, std::string_view errno_name) {
  return absl::InternalError(
      absl::StrCat(AbslText(path), ": ", AbslText(errno_name)));
}

std::vector<std::string> Components(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.emplace_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  return parts;
}

}  // namespace

Disk::Disk(DiskOptions options, uint64_t seed)
    : options_(options),
      random_(seed),
      root_(NewInode(true)),
      faults_(Random::Mix(~seed)) {}

InodePtr Disk::NewInode(bool is_directory) {
  return std::make_shared<Inode>(++inodes_made_, is_directory, &used_bytes_);
}

absl::StatusOr<Disk::Place> Disk::Find(std::string_view path) const {
  if (path.empty()) return NotFound(path);
  Place place;
  place.inode = root_;
  for (std::string& name : Components(path)) {
    if (name.size() > format::kNameBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(AbslText(path), ": ENAMETOOLONG"));
    }
    if (place.inode == nullptr) return NotFound(path);
    if (!place.inode->is_directory) return OtherError(path, "ENOTDIR");
    place.parent = place.inode;
    place.above.push_back(place.parent.get());
    const auto it = place.parent->entries.find(name);
    place.inode = it == place.parent->entries.end() ? nullptr : it->second;
    place.name = std::move(name);
  }
  return place;
}

absl::StatusOr<InodePtr> Disk::FindDirectory(std::string_view path) const {
  CAIRN_ASSIGN_OR_RETURN(Place place, Find(path));
  if (place.inode == nullptr) return NotFound(path);
  if (!place.inode->is_directory) return OtherError(path, "ENOTDIR");
  return place.inode;
}

absl::Status Disk::Full() {
  Fired(FaultKind::kDiskFull, 0);
  return absl::ResourceExhaustedError("ENOSPC: the disk is full");
}

// Names take no space here, but a full disk has none for another.
absl::Status Disk::CheckRoomForName(std::string_view path) {
  if (Space().free_bytes > 0) return absl::OkStatus();
  return Annotate(Full(), path);
}

void Disk::Do(std::vector<NameChange> changes) {
  for (const NameChange& change : changes) {
    if (change.target == nullptr) {
      change.directory->entries.erase(change.name);
    } else {
      change.directory->entries[change.name] = change.target;
    }
  }
  pending_.push_back({std::move(changes)});
}

absl::StatusOr<InodePtr> Disk::Open(std::string_view path,
                                    const io::OpenOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(Place place, Find(path));
  if (place.inode == nullptr) {
    if (!options.create) return NotFound(path);
    CAIRN_RETURN_IF_ERROR(CheckRoomForName(path));
    InodePtr file = NewInode(false);
    Do({{place.parent, place.name, file}});
    return file;
  }
  if (options.create && options.exclusive) {
    return absl::AlreadyExistsError(absl::StrCat(AbslText(path), ": EEXIST"));
  }
  if (place.inode->is_directory) return OtherError(path, "EISDIR");
  if (options.truncate) place.inode->data.Resize(0);
  return place.inode;
}

absl::Status Disk::MakeDirectory(std::string_view path) {
  CAIRN_ASSIGN_OR_RETURN(Place place, Find(path));
  if (place.inode != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat(AbslText(path), ": EEXIST"));
  }
  CAIRN_RETURN_IF_ERROR(CheckRoomForName(path));
  Do({{place.parent, place.name, NewInode(true)}});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Disk::List(std::string_view path) {
  CAIRN_ASSIGN_OR_RETURN(const InodePtr directory, FindDirectory(path));
  std::vector<std::string> names;
  for (const auto& [name, inode] : directory->entries) names.push_back(name);
  return names;
}

absl::StatusOr<std::optional<io::FileInfo>> Disk::Stat(std::string_view path) {
  const absl::StatusOr<Place> place = Find(path);
  if (absl::IsNotFound(place.status())) return std::nullopt;
  CAIRN_RETURN_IF_ERROR(place.status());
  if (place->inode == nullptr) return std::nullopt;
  io::FileInfo info;
  info.is_directory = place->inode->is_directory;
  info.size_bytes = place->inode->data.size_bytes();
  return info;
}

absl::Status Disk::Rename(std::string_view from, std::string_view to) {
  CAIRN_ASSIGN_OR_RETURN(Place source, Find(from));
  CAIRN_ASSIGN_OR_RETURN(Place goal, Find(to));
  if (source.inode == nullptr) return NotFound(from);
  if (source.parent == nullptr || goal.parent == nullptr) {
    return OtherError(from, "EBUSY");  // The root.
  }
  if (source.inode == goal.inode) return absl::OkStatus();
  if (std::count(goal.above.begin(), goal.above.end(), source.inode.get())) {
    return absl::InvalidArgumentError(
        absl::StrCat(AbslText(to), ": lies below ", AbslText(from)));
  }
  if (goal.inode != nullptr) {
    if (goal.inode->is_directory != source.inode->is_directory) {
      return OtherError(to, goal.inode->is_directory ? "EISDIR" : "ENOTDIR");
    }
    if (!goal.inode->entries.empty()) return OtherError(to, "ENOTEMPTY");
  }
  Do({{source.parent, source.name, nullptr},
      {goal.parent, goal.name, source.inode}});
  return absl::OkStatus();
}

absl::Status Disk::Remove(std::string_view path) {
  CAIRN_ASSIGN_OR_RETURN(Place place, Find(path));
  if (place.inode == nullptr) return NotFound(path);
  if (place.parent == nullptr) return OtherError(path, "EBUSY");
  if (!place.inode->entries.empty()) return OtherError(path, "ENOTEMPTY");
  Do({{place.parent, place.name, nullptr}});
  return absl::OkStatus();
}

void Disk::MakeDurable(const DirectoryOp& op) {
  for (const NameChange& change : op.changes) {
    if (change.target == nullptr) {
      change.directory->durable_entries.erase(change.name);
    } else {
      change.directory->durable_entries[change.name] = change.target;
    }
  }
}

std::vector<bool> Disk::CoveredBy(const Inode* directory) const {
  // An operation on two directories pulls in what came before it in the other.
  std::set<const Inode*> touched = {directory};
  std::vector<bool> covered(pending_.size(), false);
  for (size_t i = pending_.size(); i-- > 0;) {
    for (const NameChange& change : pending_[i].changes) {
      covered[i] = covered[i] || touched.contains(change.directory.get());
    }
    if (!covered[i]) continue;
    for (const NameChange& change : pending_[i].changes) {
      touched.insert(change.directory.get());
    }
  }
  return covered;
}

absl::Status Disk::SyncDirectory(std::string_view path) {
  CAIRN_ASSIGN_OR_RETURN(const InodePtr directory, FindDirectory(path));
  const std::vector<bool> flush = CoveredBy(directory.get());
  std::vector<DirectoryOp> left;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (flush[i]) {
      MakeDurable(pending_[i]);
    } else {
      left.push_back(std::move(pending_[i]));
    }
  }
  pending_ = std::move(left);
  return absl::OkStatus();
}

io::DiskSpace Disk::Space() const {
  io::DiskSpace space;
  space.total_bytes = options_.capacity_bytes;
  space.free_bytes =
      options_.capacity_bytes - std::min(used_bytes_, options_.capacity_bytes);
  return space;
}

absl::Status Disk::Read(Inode* file, uint64_t offset, io::MutableBytes to) {
  const uint64_t size = file->data.size_bytes();
  const uint64_t left = size - std::min(offset, size);
  const size_t count = std::min<size_t>(to.size(), left);
  if (count > 0) file->data.Read(offset, to.first(count));
  if (count == to.size()) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("read of ", to.size(), " bytes at ",
                                            offset, " of a file of ", size));
}

absl::StatusOr<uint64_t> Disk::Write(Inode* file, uint64_t offset,
                                     io::ConstBytes from) {
  if (file->data.GrowthOfWrite(offset, from.size()) > Space().free_bytes) {
    return Full();
  }
  return file->data.Write(offset, from);
}

absl::Status Disk::Reserve(Inode* file, uint64_t size_bytes) {
  if (file->data.GrowthOfReserve(size_bytes) > Space().free_bytes) {
    return Full();
  }
  file->data.Reserve(size_bytes);
  return absl::OkStatus();
}

bool Disk::Lock(const Inode* file, uint64_t process, const void* holder) {
  const auto [it, free] =
      locks_.try_emplace(file->number, Held{process, holder});
  return free || it->second.holder == holder;
}

void Disk::Unlock(const Inode* file, const void* holder) {
  const auto it = locks_.find(file->number);
  if (it != locks_.end() && it->second.holder == holder) locks_.erase(it);
}

void Disk::UnlockAllOf(uint64_t process) {
  std::erase_if(locks_, [process](const auto& entry) {
    return entry.second.process == process;
  });
}

io::TimeNs Disk::Latency(uint64_t size_bytes) {
  return Slowed(
      random_.Between(options_.latency_ns_min, options_.latency_ns_max) +
      size_bytes * io::kMicrosecond / options_.bytes_per_microsecond);
}

io::TimeNs Disk::SyncLatency() {
  return Slowed(random_.Between(options_.latency_ns_min, options_.sync_ns_max));
}

absl::Status Disk::CorruptFile(std::string_view path, uint64_t offset,
                               uint8_t mask) {
  CAIRN_ASSIGN_OR_RETURN(Place place, Find(path));
  if (place.inode == nullptr || place.inode->is_directory) {
    return NotFound(path);
  }
  if (offset >= place.inode->data.size_bytes()) {
    return absl::OutOfRangeError(absl::StrCat(AbslText(path), ": too short"));
  }
  place.inode->data.Flip(offset, mask);
  return absl::OkStatus();
}

uint64_t Disk::unflushed() const {
  uint64_t count = pending_.size();
  for (const NamedFile& file : FilesWith("")) {
    count += file.inode->data.unflushed();
  }
  return count;
}

void Disk::Crash(const CrashOptions& options) {
  CrashOptions left = options;
  Random own(options.seed);
  Random* const random = options.seed == 0 ? &random_ : &own;
  CrashNames(&left, random);
  CrashTree(root_.get(), &left, random);
  locks_.clear();
  hung_ = false;
}

bool Disk::Survives(const DirectoryOp& op, CrashOptions* options,
                    Random* random) {
  const bool chosen = options->survivors % 2 == 1;
  options->survivors /= 2;
  bool survives = false;
  if (options->unflushed == Unflushed::kRandom) survives = random->OneIn(2);
  if (options->unflushed == Unflushed::kKeepAll) survives = true;
  if (options->unflushed == Unflushed::kChosen) survives = chosen;
  return survives && !op.doomed;
}

void Disk::CrashNames(CrashOptions* options, Random* random) {
  std::set<const Inode*> cut;  // Directories that lost an earlier change.
  for (const DirectoryOp& op : pending_) {
    bool survives = Survives(op, options, random);
    for (const NameChange& change : op.changes) {
      survives = survives && !cut.contains(change.directory.get());
    }
    if (survives) MakeDurable(op);
    if (!survives) Fired(FaultKind::kUnflushedLost, 0);
    for (const NameChange& change : op.changes) {
      if (!survives) cut.insert(change.directory.get());
    }
  }
  pending_.clear();
}

void Disk::CrashTree(Inode* inode, CrashOptions* options, Random* random) {
  if (!inode->is_directory) {
    const uint64_t changes = inode->data.unflushed();
    const FileData::Losses losses = inode->data.Crash(*options, random);
    options->survivors = changes < 64 ? options->survivors >> changes : 0;
    for (uint64_t i = 0; i < losses.whole; ++i) {
      Fired(FaultKind::kUnflushedLost, inode->number);
    }
    for (uint64_t i = 0; i < losses.torn; ++i) {
      Fired(FaultKind::kTornWrite, inode->number);
    }
    return;
  }
  inode->entries = inode->durable_entries;
  for (const auto& [name, child] : inode->entries) {
    CrashTree(child.get(), options, random);
  }
}

}  // namespace cairn::sim
