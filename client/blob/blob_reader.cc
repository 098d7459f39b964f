#include "client/blob/blob_reader.h"

#include "absl/strings/str_cat.h"
#include "client/blob/chunk_reader.h"
#include "format/extent/stripe.h"

namespace cairn::client {

using io::Task;

namespace {

struct Shared {
  Core* core;
  const ReadOptions* options;
  absl::Status failure;
};

Task<void> ReadOne(Shared* shared, ChunkRead read) {
  const uint64_t bytes = read.range.length;
  const io::TimeNs started = shared->core->env()->NowNs();
  absl::Status status = co_await ReadChunkRange(shared->core, std::move(read));
  const io::TimeNs took = shared->core->env()->NowNs() - started;
  shared->core->read_window()->Release(bytes, status.ok() ? took : 0);
  if (status.ok()) {
    if (shared->options->progress) shared->options->progress(bytes);
  } else if (shared->failure.ok()) {
    shared->failure = std::move(status);
  }
}

Task<void> StartExtent(Shared* shared, const ExtentRead* read, io::Gate* gate) {
  const auto map = shared->core->map();
  const format::Extent& extent = read->extent;
  const format::Pool* pool = map->FindPool(extent.blob.pool());
  if (pool == nullptr) {
    shared->failure = absl::FailedPreconditionError(
        absl::StrCat(ToString(extent.blob), ": no such pool in the map"));
    co_return;
  }
  GatherCursor<uint8_t> cursor(read->to);
  for (const format::ChunkRange& range : format::ChunksOfRange(
           *pool, extent.blob, extent.blob_offset, extent.length)) {
    ChunkRead chunk;
    chunk.range = range;
    cursor.Take(range.length, UINT64_MAX, &chunk.to);
    chunk.traffic_class = shared->options->traffic_class;
    chunk.deadline = shared->options->deadline;
    AdaptiveWindow* const window = shared->core->read_window();
    if (!co_await window->Acquire(range.length, shared->options->deadline)) {
      shared->failure = absl::DeadlineExceededError(
          "earlier reads were not answered in time");
      co_return;
    }
    if (!shared->failure.ok()) {  // Failed while we waited.
      window->Release(range.length, 0);
      co_return;
    }
    gate->Spawn(ReadOne(shared, std::move(chunk)));
  }
}

}  // namespace

Task<absl::Status> ReadExtents(Core* core, std::vector<ExtentRead> reads,
                               ReadOptions options) {
  Shared shared{core, &options, absl::OkStatus()};
  io::Gate gate(core->env());
  for (const ExtentRead& read : reads) {
    CAIRN_CHECK(TotalBytes(read.to) == read.extent.length);
    if (!shared.failure.ok()) break;
    co_await StartExtent(&shared, &read, &gate);
  }
  co_await gate.Close();
  co_return shared.failure;
}

}  // namespace cairn::client
