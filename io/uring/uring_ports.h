// The Ports of the io_uring backend: each operation is one ring entry.
//
// Threads: belong to one loop.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <span>

#include "io/env.h"
#include "io/posix/address.h"
#include "io/threads/blocking_pool.h"
#include "io/uring/ring.h"

namespace cairn::io {

// See io/posix/basic_file.h. Registered files and buffers are used where the
// ring has them.
class UringFilePort {
 public:
  UringFilePort(Ring* ring, BlockingPool* blocking, int fd)
      : ring_(ring),
        blocking_(blocking),
        fd_(fd),
        slot_(ring->RegisterFile(fd)) {}

  RingOp Read(uint64_t offset, MutableBytes to);
  RingOp Write(uint64_t offset, ConstBytes from, bool durable);
  RingOp Sync();
  void Forget();
  BlockingPool* blocking() const { return blocking_; }

 private:
  int target() const { return slot_ >= 0 ? slot_ : fd_; }
  void UseSlot(RingOp* op) const;

  Ring* ring_;
  BlockingPool* blocking_;
  int fd_;
  int slot_;
};

// See io/posix/basic_stream.h.
class UringSocket {
 public:
  UringSocket(Ring* ring, int fd) : ring_(ring), fd_(fd) {}

  int fd() const { return fd_; }
  RingOp Receive(std::span<iovec> vectors, msghdr* message, int flags);
  RingOp Send(std::span<iovec> vectors, msghdr* message, int flags);
  RingOp Accept(posix::SocketAddress* peer);
  void CancelAccept(const RingOp* op) { ring_->Cancel(op); }
  RingOp Connect(const posix::SocketAddress* peer);
  absl::StatusOr<UringSocket> Adopt(int fd) { return UringSocket(ring_, fd); }
  void Forget() {}
  void Close();

 private:
  Ring* ring_;
  int fd_;
};

}  // namespace cairn::io
