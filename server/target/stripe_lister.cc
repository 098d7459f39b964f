#include "server/target/stripe_lister.h"

#include <algorithm>
#include <utility>

namespace cairn::server {

using io::Task;

StripeLister::StripeLister(Sources* sources)
    : sources_(sources), cursors_(sources->count()) {}

// Until the cursor stands on a chunk or at the end.
Task<absl::Status> StripeLister::Fill(uint32_t source) {
  Cursor& cursor = cursors_[source];
  while (cursor.at == cursor.page.size() && !cursor.is_last) {
    absl::StatusOr<Sources::Page> page =
        co_await sources_->List(source, cursor.next);
    if (!page.ok()) co_return page.status();
    // Cursors of a target go forward; a target that turned back would keep us
    // for ever.
    if (cursor.started && !page->next.empty() && page->next <= cursor.next) {
      co_return absl::DataLossError(absl::StrCat("the list of ",
                                                 sources_->NameOf(source),
                                                 " does not come to an end"));
    }
    cursor.page = std::move(page->chunks);
    cursor.at = 0;
    cursor.next = std::move(page->next);
    cursor.is_last = cursor.next.empty();
    cursor.started = true;
  }
  co_return absl::OkStatus();
}

Task<absl::StatusOr<std::optional<ListedStripe>>> StripeLister::Next() {
  std::optional<ListedStripe> first;
  for (uint32_t source = 0; source < cursors_.size(); ++source) {
    CAIRN_CO_RETURN_IF_ERROR(co_await Fill(source));
    const Cursor& cursor = cursors_[source];
    if (cursor.at == cursor.page.size()) continue;
    const format::ChunkId chunk = cursor.page[cursor.at].chunk;
    if (first && std::pair(chunk.blob, chunk.stripe) >=
                     std::pair(first->blob, first->stripe)) {
      continue;
    }
    if (!first) first.emplace();
    first->blob = chunk.blob;
    first->stripe = chunk.stripe;
  }
  if (!first) co_return first;
  first->chunks.resize(cursors_.size());
  for (uint32_t source = 0; source < cursors_.size(); ++source) {
    Cursor& cursor = cursors_[source];
    if (cursor.at == cursor.page.size()) continue;
    const SourceChunk& found = cursor.page[cursor.at];
    if (found.chunk.blob != first->blob ||
        found.chunk.stripe != first->stripe) {
      continue;
    }
    first->chunks[source] = found;
    ++cursor.at;
  }
  co_return first;
}

}  // namespace cairn::server
