#include "format/meta/keys.h"

#include <algorithm>

#include "format/base/status.h"

namespace cairn::format {
namespace {

constexpr size_t kNumberBytes = sizeof(uint64_t);

void AppendBigEndian(uint64_t number, std::string* key) {
  for (int shift = 56; shift >= 0; shift -= 8) {
    key->push_back(static_cast<char>(number >> shift));
  }
}

uint64_t ReadBigEndian(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < kNumberBytes; ++i) {
    number = (number << 8) | static_cast<uint8_t>(bytes[i]);
  }
  return number;
}

std::string Prefix(KeyKind kind, std::initializer_list<uint64_t> numbers) {
  std::string key(1, static_cast<char>(kind));
  for (const uint64_t number : numbers) AppendBigEndian(number, &key);
  return key;
}

// The least key above every key that starts with `prefix`.
std::string After(std::string prefix) {
  while (!prefix.empty() && static_cast<uint8_t>(prefix.back()) == 0xff) {
    prefix.pop_back();
  }
  CAIRN_CHECK(!prefix.empty());  // Letters are ASCII.
  prefix.back() = static_cast<char>(static_cast<uint8_t>(prefix.back()) + 1);
  return prefix;
}

}  // namespace

uint32_t KeyNumbers(KeyKind kind) {
  switch (kind) {
    case KeyKind::kBlob:
    case KeyKind::kSet:
    case KeyKind::kDirent:
    case KeyKind::kInode:
    case KeyKind::kDirectoryTime:
    case KeyKind::kOpenSet:
    case KeyKind::kPublication:
    case KeyKind::kSession:
    case KeyKind::kMap:
    case KeyKind::kMember:
      return 1;
    case KeyKind::kExtent:
    case KeyKind::kManifestBlock:
    case KeyKind::kManifestHeader:
    case KeyKind::kCounter:
    case KeyKind::kGarbage:
    case KeyKind::kReference:
    case KeyKind::kTrash:
    case KeyKind::kResult:
    case KeyKind::kOwnedBlob:
    case KeyKind::kRank:
    case KeyKind::kQuarantine:
      return 2;
    case KeyKind::kManifestPiece:
    case KeyKind::kMove:
    case KeyKind::kChore:
      return 3;
  }
  return 0;
}

bool KeyHasName(KeyKind kind) {
  return kind == KeyKind::kDirent || kind == KeyKind::kOpenSet;
}

std::string MakeKey(KeyKind kind, std::initializer_list<uint64_t> numbers,
                    std::string_view name) {
  CAIRN_CHECK(numbers.size() == KeyNumbers(kind));
  CAIRN_CHECK(name.empty() || KeyHasName(kind));
  std::string key = Prefix(kind, numbers);
  key.append(name);
  return key;
}

absl::StatusOr<ParsedKey> ParseKey(std::string_view key) {
  if (key.empty()) return absl::DataLossError("a key is empty");
  ParsedKey parsed;
  parsed.kind = static_cast<KeyKind>(key[0]);
  const uint32_t numbers = KeyNumbers(parsed.kind);
  if (numbers == 0) return absl::DataLossError("a key has an unknown letter");
  key.remove_prefix(1);
  if (key.size() < numbers * kNumberBytes) {
    return absl::DataLossError("a key is cut short");
  }
  for (uint32_t i = 0; i < numbers; ++i) {
    parsed.numbers[i] = ReadBigEndian(key);
    key.remove_prefix(kNumberBytes);
  }
  if (KeyHasName(parsed.kind) == key.empty()) {
    return absl::DataLossError("a key's name is missing, or too much");
  }
  parsed.name = std::string(key);
  return parsed;
}

KeyRange RangeOf(KeyKind kind, std::initializer_list<uint64_t> numbers) {
  CAIRN_CHECK(numbers.size() <= KeyNumbers(kind));
  std::string begin = Prefix(kind, numbers);
  std::string end = After(begin);
  return {std::move(begin), std::move(end)};
}

std::string InodeKey(InodeId inode) {
  return MakeKey(KeyKind::kInode, {inode.value});
}
std::string DirentKey(InodeId parent, std::string_view name) {
  return MakeKey(KeyKind::kDirent, {parent.value}, name);
}
std::string DirectoryTimeKey(InodeId directory) {
  return MakeKey(KeyKind::kDirectoryTime, {directory.value});
}
std::string ExtentKey(InodeId inode, uint64_t file_end) {
  return MakeKey(KeyKind::kExtent, {inode.value, file_end});
}
std::string ReferenceKey(BlobId blob, InodeId inode) {
  return MakeKey(KeyKind::kReference, {blob.value, inode.value});
}
std::string BlobKey(BlobId blob) {
  return MakeKey(KeyKind::kBlob, {blob.value});
}
std::string OwnedBlobKey(SessionId session, BlobId blob) {
  return MakeKey(KeyKind::kOwnedBlob, {session.value, blob.value});
}
std::string SessionKey(SessionId session) {
  return MakeKey(KeyKind::kSession, {session.value});
}
std::string ResultKey(SessionId session, uint64_t request) {
  return MakeKey(KeyKind::kResult, {session.value, request});
}
std::string SetKey(InodeId set) { return MakeKey(KeyKind::kSet, {set.value}); }
std::string OpenSetKey(InodeId parent, std::string_view name) {
  return MakeKey(KeyKind::kOpenSet, {parent.value}, name);
}
std::string PublicationKey(uint64_t publication) {
  return MakeKey(KeyKind::kPublication, {publication});
}
std::string RankKey(InodeId set, uint32_t rank) {
  return MakeKey(KeyKind::kRank, {set.value, rank});
}
std::string ManifestPieceKey(InodeId set, uint32_t rank, uint32_t piece) {
  return MakeKey(KeyKind::kManifestPiece, {set.value, rank, piece});
}
std::string ManifestBlockKey(InodeId set, uint32_t block) {
  return MakeKey(KeyKind::kManifestBlock, {set.value, block});
}
std::string ManifestHeaderKey(InodeId set, uint32_t piece) {
  return MakeKey(KeyKind::kManifestHeader, {set.value, piece});
}
std::string TrashKey(uint64_t due_ms, InodeId inode) {
  return MakeKey(KeyKind::kTrash, {due_ms, inode.value});
}
std::string GarbageKey(uint64_t due_ms, BlobId blob) {
  return MakeKey(KeyKind::kGarbage, {due_ms, blob.value});
}
std::string MoveKey(PgId pg, uint32_t shard) {
  return MakeKey(KeyKind::kMove, {pg.pool.value, pg.index, shard});
}

std::string ChoreKey(TargetId target, PgId pg) {
  return MakeKey(KeyKind::kChore, {target.value, pg.pool.value, pg.index});
}

std::string CounterKey(CounterId counter, uint64_t part) {
  return MakeKey(KeyKind::kCounter, {static_cast<uint64_t>(counter), part});
}
std::string MapKey() { return MakeKey(KeyKind::kMap, {0}); }
std::string MemberKey(TargetId target) {
  return MakeKey(KeyKind::kMember, {target.value});
}
std::string QuarantineKey(TargetId target, uint64_t place) {
  return MakeKey(KeyKind::kQuarantine, {target.value, place});
}

}  // namespace cairn::format
