// ChunkTable: what a store keeps in memory of every chunk it has.
//
// The truth is the index; the table follows it (rebuilt at open, changed when a
// commit is durable) and answers without I/O what is there and where. Block
// checksums stay in the index.
//
// Memory:  about 130 bytes per chunk, and 64 per (blob, placement group).
// Threads: one loop.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "format/target/chunk_record.h"

namespace cairn::server {

struct ChunkEntry {
  format::ChunkPlace place;
  uint32_t chunk_bytes = 0;
  uint64_t stripe_bytes = 0;
  uint64_t digest = 0;
  uint64_t put_wall_ns = 0;
};

class ChunkTable {
 public:
  using Map = std::map<format::ChunkKey, ChunkEntry>;

  // False if the key is there already.
  bool Insert(const format::ChunkKey& key, const ChunkEntry& entry);
  // Null: no such chunk. Good until the chunk is erased.
  const ChunkEntry* Find(const format::ChunkKey& key) const;
  void Erase(const format::ChunkKey& key);  // It is there (checked).

  // Keys of a blob's chunks in all placement groups.
  std::vector<format::ChunkKey> KeysOf(format::BlobId blob) const;
  // The first chunk of the group after `after` (which may be absent).
  Map::const_iterator After(const format::ChunkKey& after) const {
    return chunks_.upper_bound(after);
  }
  Map::const_iterator FirstOf(format::PgId pg) const {
    return chunks_.lower_bound(format::ChunkKey{pg, format::ChunkId()});
  }
  Map::const_iterator end() const { return chunks_.end(); }
  uint64_t size() const { return chunks_.size(); }

 private:
  static format::ChunkKey FirstKeyOf(format::PgId pg, format::BlobId blob);

  Map chunks_;
  // Groups in which a blob has chunks here; how many.
  std::map<std::pair<format::BlobId, uint32_t>, uint64_t> groups_;
};

}  // namespace cairn::server
