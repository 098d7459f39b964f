#include "bench/path/bare_path.h"

#include <fcntl.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>

#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/checksum/block_checksum.h"

namespace cairn::bench {

namespace {

constexpr uint64_t kChunk = 4 * format::kMiB;
constexpr uint64_t kPiece = 1 * format::kMiB;
constexpr uint64_t kSourceBytes = 512 * format::kMiB;

struct Header {
  uint64_t number;  // Of the chunk.
  uint64_t bytes;   // Of payload that follows.
  uint64_t hash;    // Of the payload; behind it, in a trailer.
  uint64_t pad[5];
};
static_assert(sizeof(Header) == 64);

uint8_t* Memory(uint64_t bytes) {
  constexpr uint64_t kHuge = 2 * format::kMiB;
  void* const at = mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CAIRN_CHECK(at != MAP_FAILED);
  auto* const start = reinterpret_cast<uint8_t*>(
      (reinterpret_cast<uintptr_t>(at) + kHuge - 1) / kHuge * kHuge);
  (void)madvise(start, bytes, MADV_HUGEPAGE);
  std::memset(start, 1, bytes);
  return start;
}

void FillNoise(uint8_t* to, uint64_t bytes) {
  uint64_t state = 88172645463325252ULL;
  for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(to + i, &state, 8);
  }
}

// Whole-buffer socket calls: one thread per process, as simple as it gets.
void SendAll(int fd, const void* from, uint64_t bytes, bool more) {
  auto* at = static_cast<const uint8_t*>(from);
  while (bytes > 0) {
    const ssize_t sent = send(fd, at, bytes, more ? MSG_MORE : 0);
    CAIRN_CHECK(sent > 0);
    at += sent;
    bytes -= static_cast<uint64_t>(sent);
  }
}

bool ReceiveAll(int fd, void* to, uint64_t bytes) {
  auto* at = static_cast<uint8_t*>(to);
  while (bytes > 0) {
    const ssize_t got = recv(fd, at, bytes, MSG_WAITALL);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<uint64_t>(got);
  }
  return true;
}

// Sends a chunk piece by piece, hashing each just before it goes out.
void SendChunk(int fd, uint64_t number, const uint8_t* data) {
  Header header{number, kChunk, 0, {}};
  SendAll(fd, &header, sizeof(header), true);
  format::StreamingXxh3 hash;
  for (uint64_t at = 0; at < kChunk; at += kPiece) {
    hash.Update({data + at, kPiece});
    SendAll(fd, data + at, kPiece, true);
  }
  header.hash = hash.Digest();
  SendAll(fd, &header, sizeof(header), false);
}

// Receives what SendChunk sent. False: the other side is done.
bool ReceiveChunk(int fd, uint64_t* number, uint8_t* to) {
  Header header;
  if (!ReceiveAll(fd, &header, sizeof(header))) return false;
  format::StreamingXxh3 hash;
  for (uint64_t at = 0; at < kChunk; at += kPiece) {
    CAIRN_CHECK(ReceiveAll(fd, to + at, kPiece));
    hash.Update({to + at, kPiece});
  }
  Header trailer;
  CAIRN_CHECK(ReceiveAll(fd, &trailer, sizeof(trailer)));
  CAIRN_CHECK(trailer.hash == hash.Digest());
  *number = header.number;
  return true;
}

// The server's disk: up to `depth` chunk operations in flight.
class Disk {
 public:
  struct Done {
    uint32_t slot;
    uint64_t number;
  };

  Disk(const BarePathOptions& options, uint32_t depth)
      : write_(options.write),
        ack_(options.ack),
        base_(Memory(depth * kChunk)) {
    fd_ = open(options.file.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
    CAIRN_CHECK(fd_ >= 0);
    io_uring_params params{};
    params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    CAIRN_CHECK(io_uring_queue_init_params(64, &ring_, &params) == 0);
    for (uint32_t i = 0; i < depth; ++i) free_.push_back(i);
    const iovec all{base_, depth * kChunk};
    fixed_ = io_uring_register_buffers(&ring_, &all, 1) == 0;
  }

  bool full() const { return free_.empty(); }
  uint32_t in_flight() const { return in_flight_; }
  uint8_t* buffer(uint32_t slot) const { return base_ + slot * kChunk; }
  uint32_t Take() {
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void Give(uint32_t slot) { free_.push_back(slot); }

  void Start(uint32_t slot, uint64_t number) {
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
    const uint64_t at = number * kChunk;
    if (write_) {
      fixed_ ? io_uring_prep_write_fixed(sqe, fd_, buffer(slot), kChunk, at, 0)
             : io_uring_prep_write(sqe, fd_, buffer(slot), kChunk, at);
      sqe->rw_flags = ack_ == AckAfter::kDurable ? RWF_DSYNC : 0;
    } else {
      fixed_ ? io_uring_prep_read_fixed(sqe, fd_, buffer(slot), kChunk, at, 0)
             : io_uring_prep_read(sqe, fd_, buffer(slot), kChunk, at);
    }
    sqe->user_data = (number << 16) | slot;
    ++in_flight_;
    io_uring_submit(&ring_);
  }
  // Waits for one if `wait`; false: none may be acknowledged yet.
  bool Finish(bool wait, Done* done) {
    while (done_.empty()) {
      if (!Reap(wait)) return false;
    }
    *done = done_.back();
    done_.pop_back();
    --in_flight_;
    return true;
  }

 private:
  static constexpr uint64_t kFlush = ~uint64_t{0};  // A flush's user_data.

  // One completion.
  bool Reap(bool wait) {
    io_uring_cqe* cqe = nullptr;
    if (wait) {
      CAIRN_CHECK(io_uring_wait_cqe(&ring_, &cqe) == 0);
    } else {
      io_uring_get_events(&ring_);
      if (io_uring_peek_cqe(&ring_, &cqe) != 0) return false;
    }
    if (cqe->user_data == kFlush) {
      CAIRN_CHECK(cqe->res == 0);
      done_.insert(done_.end(), flushing_.begin(), flushing_.end());
      flushing_.clear();
    } else {
      CAIRN_CHECK(cqe->res == static_cast<int>(kChunk));
      const Done one{static_cast<uint32_t>(cqe->user_data & 0xffff),
                     cqe->user_data >> 16};
      (ack_ == AckAfter::kGroupFlush ? written_ : done_).push_back(one);
    }
    io_uring_cqe_seen(&ring_, cqe);
    if (flushing_.empty() && !written_.empty()) Flush();
    return true;
  }
  void Flush() {
    flushing_.swap(written_);
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
    io_uring_prep_fsync(sqe, fd_, IORING_FSYNC_DATASYNC);
    sqe->user_data = kFlush;
    io_uring_submit(&ring_);
  }

  const bool write_;
  const AckAfter ack_;
  uint8_t* const base_;
  int fd_ = -1;
  io_uring ring_{};
  bool fixed_ = false;
  std::vector<uint32_t> free_;
  std::vector<Done> written_;   // Wait for a flush to start.
  std::vector<Done> flushing_;  // Covered by the flush under way.
  std::vector<Done> done_;
  uint32_t in_flight_ = 0;
};

void AckFinished(int fd, Disk* disk, bool wait) {
  Disk::Done done;
  while (disk->in_flight() > 0 && disk->Finish(wait, &done)) {
    disk->Give(done.slot);
    SendAll(fd, &done.number, sizeof(done.number), false);
    wait = false;
  }
}

// True if the next receive would wait: then disk operations come first.
bool SocketIsEmpty(int fd) {
  char byte = 0;
  return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

void ServeWrites(int fd, const BarePathOptions& options) {
  Disk disk(options, options.window + 1);
  uint64_t number = 0;
  while (true) {
    if (disk.in_flight() > 0 && SocketIsEmpty(fd)) {
      AckFinished(fd, &disk, true);
      continue;
    }
    const uint32_t slot = disk.Take();
    if (!ReceiveChunk(fd, &number, disk.buffer(slot))) break;
    disk.Start(slot, number);
    AckFinished(fd, &disk, disk.full() || disk.in_flight() >= options.window);
  }
}

void ServeReads(int fd, const BarePathOptions& options) {
  Disk disk(options, options.window);
  const uint64_t chunks = options.bytes / kChunk;
  uint64_t next = 0;
  while (next < chunks || disk.in_flight() > 0) {
    while (next < chunks && !disk.full()) disk.Start(disk.Take(), next++);
    Disk::Done done;
    CAIRN_CHECK(disk.Finish(true, &done));
    SendChunk(fd, done.number, disk.buffer(done.slot));
    disk.Give(done.slot);
  }
}

void WriteAll(int fd, const BarePathOptions& options, const uint8_t* source) {
  const uint64_t chunks = options.bytes / kChunk;
  uint64_t acked = 0;
  for (uint64_t sent = 0; acked < chunks;) {
    uint64_t number = 0;
    if (sent < chunks && sent - acked < options.window) {
      SendChunk(fd, sent, source + sent * kChunk % kSourceBytes);
      ++sent;
      while (sent < chunks &&
             recv(fd, &number, sizeof(number), MSG_DONTWAIT | MSG_PEEK) == 8) {
        CAIRN_CHECK(ReceiveAll(fd, &number, sizeof(number)));
        ++acked;
      }
      continue;
    }
    CAIRN_CHECK(ReceiveAll(fd, &number, sizeof(number)));
    ++acked;
  }
}

void ReadAll(int fd, const BarePathOptions& options, uint8_t* memory) {
  uint64_t number = 0;
  for (uint64_t got = 0; got < options.bytes / kChunk; ++got) {
    CAIRN_CHECK(
        ReceiveChunk(fd, &number, memory + got * kChunk % kSourceBytes));
  }
}

void Tune(int fd) {
  const int one = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Share {
  double start = 0;
  double end = 0;
  double cpu = 0;
};

// Runs `work` in a child once every side is ready; its share comes back.
int StartChild(int ready_read, int ready_write,
               const std::function<std::function<void()>()>& prepare) {
  int ends[2];
  CAIRN_CHECK(pipe(ends) == 0);
  if (fork() != 0) {
    close(ends[1]);
    return ends[0];
  }
  const std::function<void()> work = prepare();
  char token = 1;
  CAIRN_CHECK(write(ready_write, &token, 1) == 1);
  CAIRN_CHECK(read(ready_read, &token, 1) == 1);
  Share share;
  const double cpu = CpuSeconds();
  share.start = Now();
  work();
  share.end = Now();
  share.cpu = CpuSeconds() - cpu;
  CAIRN_CHECK(write(ends[1], &share, sizeof(share)) == sizeof(share));
  _exit(0);
}

}  // namespace

void PrepareBareFile(const std::string& file, uint64_t bytes) {
  struct stat info;
  if (stat(file.c_str(), &info) == 0 &&
      static_cast<uint64_t>(info.st_size) >= bytes) {
    return;
  }
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_DIRECT, 0644);
  CAIRN_CHECK(fd >= 0);
  CAIRN_CHECK(posix_fallocate(fd, 0, static_cast<off_t>(bytes)) == 0);
  uint8_t* const noise = Memory(kChunk);
  FillNoise(noise, kChunk);
  for (uint64_t at = 0; at < bytes; at += kChunk) {
    CAIRN_CHECK(pwrite(fd, noise, kChunk, static_cast<off_t>(at)) ==
                static_cast<ssize_t>(kChunk));
  }
  CAIRN_CHECK(fsync(fd) == 0);
  close(fd);
}

PathResult RunBarePath(const BarePathOptions& options) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  CAIRN_CHECK(bind(listener, reinterpret_cast<sockaddr*>(&address), length) ==
              0);
  CAIRN_CHECK(listen(listener, 1) == 0);
  CAIRN_CHECK(getsockname(listener, reinterpret_cast<sockaddr*>(&address),
                          &length) == 0);
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  CAIRN_CHECK(connect(client, reinterpret_cast<sockaddr*>(&address), length) ==
              0);
  const int server = accept(listener, nullptr, nullptr);
  close(listener);
  Tune(client);
  Tune(server);
  int ready[2];
  int go[2];
  CAIRN_CHECK(pipe(ready) == 0 && pipe(go) == 0);
  const int serve = StartChild(go[0], ready[1], [&] {
    close(client);
    return [&] {
      options.write ? ServeWrites(server, options)
                    : ServeReads(server, options);
    };
  });
  const int drive = StartChild(go[0], ready[1], [&] {
    close(server);
    uint8_t* const memory = Memory(kSourceBytes);
    FillNoise(memory, kSourceBytes);
    return [&, memory] {
      options.write ? WriteAll(client, options, memory)
                    : ReadAll(client, options, memory);
      if (options.write) shutdown(client, SHUT_WR);
    };
  });
  close(client);
  close(server);
  char tokens[2] = {1, 1};
  for (int i = 0; i < 2; ++i) CAIRN_CHECK(read(ready[0], tokens, 1) == 1);
  CAIRN_CHECK(write(go[1], tokens, 2) == 2);
  Share a;
  Share b;
  CAIRN_CHECK(read(drive, &a, sizeof(a)) == sizeof(a));
  CAIRN_CHECK(read(serve, &b, sizeof(b)) == sizeof(b));
  for (int i = 0; i < 2; ++i) wait(nullptr);
  for (int fd : {ready[0], ready[1], go[0], go[1], serve, drive}) close(fd);
  return {a.end - a.start, a.cpu + b.cpu, options.bytes};
}

}  // namespace cairn::bench
