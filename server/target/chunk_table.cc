#include "server/target/chunk_table.h"

#include "format/base/status.h"

namespace cairn::server {

using format::BlobId;
using format::ChunkKey;

bool ChunkTable::Insert(const ChunkKey& key, const ChunkEntry& entry) {
  if (!chunks_.emplace(key, entry).second) return false;
  ++groups_[{key.chunk.blob, key.pg.index}];
  return true;
}

const ChunkEntry* ChunkTable::Find(const ChunkKey& key) const {
  const auto it = chunks_.find(key);
  return it == chunks_.end() ? nullptr : &it->second;
}

void ChunkTable::Erase(const ChunkKey& key) {
  CAIRN_CHECK(chunks_.erase(key) == 1);
  const auto group = groups_.find({key.chunk.blob, key.pg.index});
  CAIRN_CHECK(group != groups_.end());
  if (--group->second == 0) groups_.erase(group);
}

std::vector<ChunkKey> ChunkTable::KeysOf(BlobId blob) const {
  std::vector<ChunkKey> keys;
  for (auto group = groups_.lower_bound({blob, 0});
       group != groups_.end() && group->first.first == blob; ++group) {
    const format::PgId pg{blob.pool(), group->first.second};
    for (auto it = chunks_.lower_bound(FirstKeyOf(pg, blob));
         it != chunks_.end() && it->first.pg == pg &&
         it->first.chunk.blob == blob;
         ++it) {
      keys.push_back(it->first);
    }
  }
  return keys;
}

ChunkKey ChunkTable::FirstKeyOf(format::PgId pg, BlobId blob) {
  ChunkKey key;
  key.pg = pg;
  key.chunk.blob = blob;
  return key;
}

}  // namespace cairn::server
