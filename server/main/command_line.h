// What the commands of `cairnd` share: exit codes, options, signals.
//
// Exit codes: 0 fine; 1 refused or failed (the message says why); 2 wrong
// arguments.
#pragma once

#include <signal.h>

#include <map>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "io/event_loop.h"
#include "server/main/run.h"

namespace cairn::server {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// Prints the message; the exit code.
int Fail(const absl::Status& status);

// "ready HOST:PORT" on stdout, for who started it.
void SayReady(const std::string& address);

// SIGTERM and SIGINT, kept for Wait(): make it before any thread starts.
class StopSignals {
 public:
  StopSignals();
  // Until one comes. A second one ends the process at once: that loses nothing
  // either.
  void Wait() const;
  // The same for `ms` at most; false: none came.
  bool WaitFor(uint64_t ms) const;

 private:
  void Stop(int signal) const;
  sigset_t signals_;
};

void AddBackend(CLI::App* app, io::Backend* backend);
// Options of scrubbing, of all that serve targets.
void AddScrubOptions(CLI::App* app, ScrubOptions* options);
// Options of the metadata service.
void AddMetaOptions(CLI::App* app, RunOptions* options);

}  // namespace cairn::server
