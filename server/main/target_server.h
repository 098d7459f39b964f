// `cairnd target`: some targets of this machine, joined to a metadata service
// elsewhere.
//
// Threads: made, asked and destroyed by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/main/data_loop_plan.h"

namespace cairn::server {

struct TargetServerOptions {
  std::string meta_address;
  std::string listen = "127.0.0.1:0";  // Of the first loop; the next ports
                                       // are those of the others.
  std::string advertise_host;          // How others reach `listen`.
  bool insecure = false;
  // DIR, or ID=DIR: then it must be that target.
  std::vector<std::string> directories;
  uint32_t loops = 0;
  uint64_t memory_bytes = 0;
  ScrubOptions scrub{.bytes_per_s = kScrubRateDefault};
  std::string host;  // Failure domain; empty: this machine's name.
  std::string rack;  // Empty: what the cluster knows.
  io::Backend backend = io::Backend::kAuto;
};

class TargetServer {
 public:
  // Opens the directories, listens, and starts to join. A disk that cannot be
  // read is left out, loudly, if there are others.
  // kInvalidArgument, kNotFound, kFailedPrecondition: a directory that is no
  // target, is another target than it was said to be, is in use, or is given
  // twice; says which and what to do.
  static absl::StatusOr<std::unique_ptr<TargetServer>> Start(
      TargetServerOptions options);

  struct State {
    bool decided = false;  // Each target was let in or turned away.
    uint64_t served = 0;
    std::vector<std::string> problems;  // Of those that are not served.
  };
  State state();
  // Of the first loop.
  const std::string& address() const { return data_.front()->address(); }
  uint64_t targets() const { return targets_; }
  const char* backend() const { return data_.front()->backend(); }

 private:
  TargetServer() = default;
  std::vector<std::unique_ptr<DataLoop>> data_;
  uint64_t targets_ = 0;
};

}  // namespace cairn::server
