// Loading tensors from a published set, as tasks on the loop. What callers
// outside see of it is CheckpointReader (api/checkpoint.h).
//
// Threads:  loop only, except ToInfo() and ViewBytes().
// Lifetime: the set, and the views with their memory, outlive the tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "client/api/checkpoint.h"
#include "client/checkpoint/set_reader.h"
#include "client/core/core.h"
#include "io/task.h"

namespace cairn::client {

struct LoadOptions {
  io::TimeNs deadline = io::kNoDeadline;
  // Called with the bytes of each run that has arrived; may be null.
  std::function<void(uint64_t bytes)> progress;
};

// Fills every view, whatever the layout it was saved in; reads the files of
// several ranks at once. Errors as CheckpointReader::Load().
io::Task<absl::Status> LoadViews(Core* core, SetReader* set,
                                 std::span<const MutableTensorView> views,
                                 LoadOptions options);

// nullopt: no such name.
io::Task<absl::StatusOr<std::optional<TensorInfo>>> FindInfo(
    SetReader* set, std::string name, io::TimeNs deadline);

TensorInfo ToInfo(const format::TensorEntry& entry);

// Bytes that a load of `views` fills; 0 for a view that makes no sense.
uint64_t ViewBytes(std::span<const MutableTensorView> views);

}  // namespace cairn::client
