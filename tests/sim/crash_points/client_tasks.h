// What scenarios of the crash enumeration let clients do, as tasks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/core/core.h"
#include "io/task.h"
#include "tests/sim/cluster/sample_model.h"

namespace cairn::sim {

class Stage;

// Bytes that follow from the seed.
std::string PatternBytes(uint64_t seed, uint64_t size_bytes);

// Makes or replaces the whole file. OK: published.
io::Task<absl::Status> WriteWhole(client::Core* core, std::string path,
                                  std::string bytes);

// nullopt: no such file. kInternal: the sizes that stat, open and read tell
// are not the same. Other errors as OpenOnLoop() and Pread().
io::Task<absl::StatusOr<std::optional<std::string>>> ReadWhole(
    client::Core* core, std::string path);

// A set and who saves it.
struct SetSave {
  std::string path;
  const SampleModel* model = nullptr;
  uint64_t attempt = 1;
  uint32_t ranks = 2;
};

client::CheckpointWriter::Options RankOptions(const SetSave& save,
                                              uint32_t rank);

// All ranks at once, each to publication. The first error of any.
io::Task<absl::Status> SaveWithNewClients(Stage* stage, SetSave save);

}  // namespace cairn::sim
