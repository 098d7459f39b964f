// Puts chunks into a target until it is killed: the victim of
// tests/unit/server/target/store_kill_test.cc.
//
//   target_kill_child DIR BLOB COUNT
//
// Prints the stripe of each chunk as soon as it is acknowledged.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "io/event_loop.h"
#include "server/target/chunk_store.h"
#include "spdlog/spdlog.h"
#include "tests/unit/server/target/store_harness.h"

namespace cairn::server {
namespace {

io::Task<void> PutAndSay(ChunkStore* store, uint64_t blob, uint32_t stripe,
                         io::Semaphore* window) {
  const TestChunk chunk = KillTestChunk(blob, stripe);
  const absl::Status status = co_await PutChunk(store, &chunk, stripe + 1);
  window->Release();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    co_return;
  }
  std::printf("%u\n", stripe);
  std::fflush(stdout);
}

io::Task<void> Run(io::Env* env, std::string dir, uint64_t blob, uint32_t count,
                   int* exit_code) {
  auto opened = co_await ChunkStore::Open(env, dir, TestIdentity());
  if (!opened.ok()) {
    std::fprintf(stderr, "%s\n", opened.status().ToString().c_str());
    *exit_code = 1;
    co_return;
  }
  io::Semaphore window(env, 4);
  io::Gate gate(env);
  for (uint32_t stripe = 0; stripe < count; ++stripe) {
    co_await window.Acquire();
    gate.Spawn(PutAndSay(opened->get(), blob, stripe, &window));
  }
  co_await gate.Close();
  (void)co_await (*opened)->Close();
}

}  // namespace
}  // namespace cairn::server

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  spdlog::set_level(spdlog::level::off);  // Standard output is for the parent.
  cairn::io::LoopOptions options;
  options.pool_large_buffers = 2;
  auto env = cairn::io::MakeRealEnv(options);
  if (!env.ok()) return 3;
  int exit_code = 0;
  (*env)->RunUntilDone(cairn::server::Run(
      env->get(), argv[1], std::strtoull(argv[2], nullptr, 10),
      static_cast<uint32_t>(std::atoi(argv[3])), &exit_code));
  return exit_code;
}
