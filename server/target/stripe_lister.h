// StripeLister: which stripes a row has, from the lists of all sources at once.
//
// Every list ascends, so they are merged page by page: memory is one page a
// source. A stripe is told of if any source has it.
//
// Threads: one loop. Lifetime: the sources outlive it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/target/rebuild_sources.h"

namespace cairn::server {

struct ListedStripe {
  format::BlobId blob;
  uint32_t stripe = 0;
  // By source: what it has; nullopt: nothing of this stripe.
  std::vector<std::optional<SourceChunk>> chunks;
};

class StripeLister {
 public:
  explicit StripeLister(Sources* sources);

  // In order of blob and stripe; nullopt: the end. An error: a source's list
  // cannot be had, so nobody knows which stripes there are.
  io::Task<absl::StatusOr<std::optional<ListedStripe>>> Next();

 private:
  struct Cursor {
    std::vector<SourceChunk> page;
    size_t at = 0;
    std::string next;
    bool is_last = false;
    bool started = false;
  };
  io::Task<absl::Status> Fill(uint32_t source);

  Sources* const sources_;
  std::vector<Cursor> cursors_;
};

}  // namespace cairn::server
