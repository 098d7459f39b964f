// A turn: a mutex for coroutines of one loop, released when it goes away.
#pragma once

#include <utility>

#include "io/wait.h"

namespace cairn::client {

class Turn {
 public:
  explicit Turn(io::Semaphore* semaphore) : semaphore_(semaphore) {}
  Turn(Turn&& other) noexcept
      : semaphore_(std::exchange(other.semaphore_, nullptr)) {}
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    if (semaphore_ != nullptr) semaphore_->Release();
  }

 private:
  io::Semaphore* semaphore_;
};

// `semaphore` has one unit and outlives the turn.
inline io::Task<Turn> TakeTurn(io::Semaphore* semaphore) {
  co_await semaphore->Acquire();
  co_return Turn(semaphore);
}

}  // namespace cairn::client
