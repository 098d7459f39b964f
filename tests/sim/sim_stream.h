// Streams and listeners of a simulated process.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>

#include "io/env.h"
#include "tests/sim/connection.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_env.h"

namespace cairn::sim {

class SimStream final : public io::Stream {
 public:
  SimStream(std::shared_ptr<Connection> connection, size_t side)
      : connection_(std::move(connection)), side_(side) {}
  ~SimStream() override;

  io::Task<absl::Status> ReceiveAll(
      std::span<const io::MutableBytes> to) override;
  io::Task<absl::StatusOr<uint64_t>> ReceiveSome(io::MutableBytes to) override;
  io::Task<absl::Status> SendAll(std::span<const io::ConstBytes> from,
                                 bool more) override;
  void Shutdown() override { connection_->Shutdown(side_); }
  std::string peer() const override;
  io::Task<void> Close() override;

 private:
  const std::shared_ptr<Connection> connection_;
  const size_t side_;
  bool receiving_ = false;  // One at a time, checked.
  bool sending_ = false;
  bool closed_ = false;
};

class SimListener final : public io::Listener {
 public:
  // `endpoint` has its final port. Registers itself.
  SimListener(SimEnv* env, Endpoint endpoint);
  ~SimListener() override;

  SimEnv* env() const { return env_; }
  // False: too many wait to be accepted.
  bool Offer(std::shared_ptr<Connection> connection);
  bool waiting() const { return !arrivals_.empty(); }

  io::Task<absl::StatusOr<std::unique_ptr<io::Stream>>> Accept() override;
  std::string address() const override { return ToString(endpoint_); }
  void Shutdown() override;
  io::Task<void> Close() override;

 private:
  SimEnv* const env_;
  const Endpoint endpoint_;
  std::deque<std::shared_ptr<Connection>> backlog_;
  io::WaitQueue arrivals_;
  bool shut_down_ = false;
  bool closed_ = false;
};

}  // namespace cairn::sim
