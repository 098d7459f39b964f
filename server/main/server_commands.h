// The commands of a cluster of several processes: cairnd meta, target, format.
//
// Lifetime: each outlives the parser that it was added to.
#pragma once

#include "CLI/CLI.hpp"
#include "server/main/format.h"
#include "server/main/run.h"
#include "server/main/target_server.h"

namespace cairn::server {

class MetaCommand {
 public:
  void Add(CLI::App* app);
  int Run() const;  // The exit code; as the others.

 private:
  RunOptions options_;
};

class TargetCommand {
 public:
  void Add(CLI::App* app);
  int Run() const;

 private:
  TargetServerOptions options_;
};

class FormatCommand {
 public:
  void Add(CLI::App* app);
  int Run() const;

 private:
  FormatTargetsOptions options_;
};

}  // namespace cairn::server
