#include "io/uring/uring_ports.h"

#include <unistd.h>

#include <utility>

namespace cairn::io {
namespace {

void FillMessage(msghdr* message, std::span<iovec> vectors) {
  *message = {};
  message->msg_iov = vectors.data();
  message->msg_iovlen = vectors.size();
}

}  // namespace

RingOp UringFilePort::Read(uint64_t offset, MutableBytes to) {
  RingOp op(ring_);
  const unsigned size_bytes = static_cast<unsigned>(to.size());
  if (const std::optional<int> buffer = ring_->BufferOf(to)) {
    io_uring_prep_read_fixed(op.sqe(), target(), to.data(), size_bytes, offset,
                             *buffer);
  } else {
    io_uring_prep_read(op.sqe(), target(), to.data(), size_bytes, offset);
  }
  UseSlot(&op);
  return op;
}

RingOp UringFilePort::Write(uint64_t offset, ConstBytes from, bool durable) {
  RingOp op(ring_);
  const unsigned size_bytes = static_cast<unsigned>(from.size());
  if (const std::optional<int> buffer = ring_->BufferOf(from)) {
    io_uring_prep_write_fixed(op.sqe(), target(), from.data(), size_bytes,
                              offset, *buffer);
  } else {
    io_uring_prep_write(op.sqe(), target(), from.data(), size_bytes, offset);
  }
  if (durable) op.sqe()->rw_flags = RWF_DSYNC;
  UseSlot(&op);
  return op;
}

RingOp UringFilePort::Sync() {
  RingOp op(ring_);
  io_uring_prep_fsync(op.sqe(), target(), IORING_FSYNC_DATASYNC);
  UseSlot(&op);
  return op;
}

void UringFilePort::UseSlot(RingOp* op) const {
  if (slot_ >= 0) op->sqe()->flags |= IOSQE_FIXED_FILE;
}

void UringFilePort::Forget() {
  if (slot_ >= 0) ring_->UnregisterFile(std::exchange(slot_, -1));
}

RingOp UringSocket::Receive(std::span<iovec> vectors, msghdr* message,
                            int flags) {
  RingOp op(ring_);
  if (vectors.size() == 1) {
    io_uring_prep_recv(op.sqe(), fd_, vectors[0].iov_base, vectors[0].iov_len,
                       flags);
  } else {
    FillMessage(message, vectors);
    io_uring_prep_recvmsg(op.sqe(), fd_, message, static_cast<unsigned>(flags));
  }
  return op;
}

RingOp UringSocket::Send(std::span<iovec> vectors, msghdr* message, int flags) {
  RingOp op(ring_);
  flags |= MSG_WAITALL;  // The ring itself goes on after a short send.
  if (vectors.size() == 1) {
    io_uring_prep_send(op.sqe(), fd_, vectors[0].iov_base, vectors[0].iov_len,
                       flags);
  } else {
    FillMessage(message, vectors);
    io_uring_prep_sendmsg(op.sqe(), fd_, message, static_cast<unsigned>(flags));
  }
  return op;
}

RingOp UringSocket::Accept(posix::SocketAddress* peer) {
  RingOp op(ring_);
  io_uring_prep_accept(op.sqe(), fd_, peer->get(), &peer->size_bytes,
                       SOCK_CLOEXEC);
  return op;
}

RingOp UringSocket::Connect(const posix::SocketAddress* peer) {
  RingOp op(ring_);
  io_uring_prep_connect(op.sqe(), fd_, peer->get(), peer->size_bytes);
  return op;
}

void UringSocket::Close() { close(std::exchange(fd_, -1)); }

}  // namespace cairn::io
