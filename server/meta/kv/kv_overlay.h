// KvOverlay: commits that are decided but not on the disk yet, seen by reads
// before the disk is. Holds the newest one of each key.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "server/meta/kv/kv_engine.h"

namespace cairn::server {

class KvOverlay {
 public:
  struct Entry {
    std::optional<std::string> value;  // nullopt: deleted.
    uint64_t version = 0;
  };
  using Map = std::map<std::string, Entry, std::less<>>;

  void Apply(KvWrite write, uint64_t sequence) {
    Entry& entry = entries_[std::move(write.key)];
    CAIRN_CHECK(sequence >= entry.version);
    entry.value = std::move(write.value);
    entry.version = sequence;
  }

  // Null: nothing pending for the key.
  const Entry* Find(std::string_view key) const {
    const auto it = entries_.find(key);
    return it == entries_.end() ? nullptr : &it->second;
  }

  // Forgets what is on the disk now. Linear in all that is pending, which is
  // at most twice what was written.
  void DropThrough(uint64_t sequence) {
    std::erase_if(entries_, [sequence](const auto& entry) {
      return entry.second.version <= sequence;
    });
  }

  const Map& entries() const { return entries_; }

 private:
  Map entries_;
};

}  // namespace cairn::server
