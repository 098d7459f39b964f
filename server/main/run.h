// `cairnd run`: metadata and all targets of a cluster in one process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/event_loop.h"
#include "server/main/data_loop.h"
#include "server/main/data_loop_plan.h"
#include "server/main/meta_loop.h"

namespace cairn::server {

struct RunOptions {
  std::string directory;
  std::string listen = "127.0.0.1:7400";
  bool insecure = false;      // Listen beyond loopback without authentication.
  uint32_t loops = 0;         // Data loops; 0: one for every two cores.
  uint16_t data_port = 0;     // First port of the data loops; 0: any free ones.
  uint64_t memory_bytes = 0;  // Buffers of all data loops; 0: the default.
  bool accept_metadata_loss = false;
  uint64_t trash_grace_ms = 3'600'000;
  HealthOptions health;
  RebuildOptions rebuild;
  RepairOptions repair;
  ScrubOptions scrub{.bytes_per_s = kScrubRateDefault};
  io::Backend backend = io::Backend::kAuto;
};

// What the options say of the metadata service.
MetaLoop::Options PlanMetaLoop(const RunOptions& options,
                               format::ClusterId cluster_id);

class AllInOne {
 public:
  // kFailedPrecondition, kNotFound, kAlreadyExists, kDataLoss: as the parts
  // say; the message tells what to do.
  static absl::StatusOr<std::unique_ptr<AllInOne>> Start(RunOptions options);
  const std::string& address() const { return meta_->address(); }
  uint64_t targets() const { return targets_; }
  const char* backend() const { return data_.front()->backend(); }

 private:
  AllInOne() = default;
  void Join();
  std::vector<std::unique_ptr<DataLoop>> data_;
  std::unique_ptr<MetaLoop> meta_;  // Stops before the data loops.
  uint64_t targets_ = 0;
};

}  // namespace cairn::server
