// Keys of the metadata store: docs/format/metadata-keys.md.
//
// A key is a letter, big-endian 64-bit integers, and for some kinds a name.
// Keys of one kind sort as their numbers do, then by name.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "format/base/ids.h"

namespace cairn::format {

// Persisted: add values, never reuse a letter.
enum class KeyKind : char {
  kBlob = 'B',
  kSet = 'C',
  kDirent = 'D',
  kExtent = 'E',
  kManifestBlock = 'F',
  kManifestHeader = 'H',
  kInode = 'I',
  kDirectoryTime = 'M',
  kCounter = 'N',
  kOpenSet = 'O',
  kPublication = 'P',
  kGarbage = 'Q',
  kReference = 'R',
  kSession = 'S',
  kTrash = 'T',
  kMove = 'V',
  kChore = 'W',
  kResult = 'X',
  kMap = 'Z',
  kOwnedBlob = 'b',
  kRank = 'c',
  kMember = 'm',
  kManifestPiece = 'p',
  kQuarantine = 'q',
};

// First integer of a kCounter key; the second is 0, or the pool of
// kBlobCounter.
// Persisted: add values, never renumber.
enum class CounterId : uint64_t {
  kInodeCounter = 1,
  kBlobCounter = 2,
  kSessionCounter = 3,
  kPublicationCounter = 4,
  kServiceClock = 5,  // Milliseconds.
  kRenameLock = 6,    // Written by each move of a directory.
};

// What a kTrash key asks for. Persisted: add values, never renumber.
enum class TrashKind : uint32_t {
  kFile = 1,      // Unlinked: free its extents, then forget it.
  kSet = 2,       // Take apart a set with its files and records.
  kSetParts = 3,  // Published: manifest parts and claims; and the manifest,
                  // if the set's record is gone.
};

// What a kChore key asks of a target. Persisted: add values, never renumber.
enum class GroupChore : uint32_t {
  kDrop = 1,   // Erase the group: its row has other targets now.
  kSweep = 2,  // Erase chunks of blobs that went while the group was copied.
};

inline constexpr uint32_t kKeyNumbersMax = 3;

// How many integers keys of `kind` have; 0: no such kind.
uint32_t KeyNumbers(KeyKind kind);
bool KeyHasName(KeyKind kind);

// numbers.size() == KeyNumbers(kind), and `name` is given exactly if
// KeyHasName(kind) (checked; a range's begin may have an empty name).
std::string MakeKey(KeyKind kind, std::initializer_list<uint64_t> numbers,
                    std::string_view name = {});

struct ParsedKey {
  KeyKind kind = KeyKind::kInode;
  std::array<uint64_t, kKeyNumbersMax> numbers{};
  std::string name;
};
// kDataLoss: an unknown letter, too short, or bytes left over.
absl::StatusOr<ParsedKey> ParseKey(std::string_view key);

// [begin, end) of all keys of a kind whose first integers are `numbers` (none
// up to all of them).
struct KeyRange {
  std::string begin;
  std::string end;
};
KeyRange RangeOf(KeyKind kind, std::initializer_list<uint64_t> numbers);

// --- The keys by name.
std::string InodeKey(InodeId inode);
std::string DirentKey(InodeId parent, std::string_view name);
std::string DirectoryTimeKey(InodeId directory);
std::string ExtentKey(InodeId inode, uint64_t file_end);
std::string ReferenceKey(BlobId blob, InodeId inode);
std::string BlobKey(BlobId blob);
std::string OwnedBlobKey(SessionId session, BlobId blob);
std::string SessionKey(SessionId session);
std::string ResultKey(SessionId session, uint64_t request);
std::string SetKey(InodeId set);
std::string OpenSetKey(InodeId parent, std::string_view name);
std::string PublicationKey(uint64_t publication);
std::string RankKey(InodeId set, uint32_t rank);
std::string ManifestPieceKey(InodeId set, uint32_t rank, uint32_t piece);
std::string ManifestBlockKey(InodeId set, uint32_t block);
std::string ManifestHeaderKey(InodeId set, uint32_t piece);
std::string TrashKey(uint64_t due_ms, InodeId inode);
std::string GarbageKey(uint64_t due_ms, BlobId blob);
std::string MoveKey(PgId pg, uint32_t shard);
std::string ChoreKey(TargetId target, PgId pg);
std::string CounterKey(CounterId counter, uint64_t part = 0);
std::string MapKey();
std::string MemberKey(TargetId target);
std::string QuarantineKey(TargetId target, uint64_t place);

}  // namespace cairn::format
