// ClusterCore: the loop thread of a Cluster and the way onto it.
//
// Threads:  Run() may be called from any thread except the loop's own; it
//           blocks until the task is done.
// Lifetime: what Run() starts finishes before the destructor returns.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "client/core/core.h"
#include "io/event_loop.h"

namespace cairn::client {

class ClusterCore {
 public:
  static absl::StatusOr<std::unique_ptr<ClusterCore>> Connect(Options options);
  ~ClusterCore();

  // `make` runs on the loop and returns the task to run there.
  template <typename T>
  T Run(std::function<io::Task<T>(Core*)> make) {
    Core* const core = core_.get();
    return loop_->Run<T>(
        [core, make = std::move(make)](io::Env*) { return make(core); });
  }

 private:
  ClusterCore() = default;
  std::unique_ptr<io::LoopThread> loop_;
  std::unique_ptr<Core> core_;  // Made and destroyed on the loop.
};

}  // namespace cairn::client
