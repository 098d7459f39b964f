// What every command of the `cairn` program shares: options, connection, exit
// codes, printing.
//
// Exit codes: 0 done; 1 failed; 2 wrong arguments; 3 data is damaged (verify
// found something, or a read met kDataLoss); 4 no answer in time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "client/api/cluster.h"
#include "nlohmann/json.hpp"

namespace cairn::client::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitDamaged = 3,
  kExitNoAnswer = 4,
};

struct Context {
  std::string cluster;  // --cluster; empty: CAIRN_CLUSTER.
  uint64_t timeout_s = 60;
  bool json = false;
  int exit_code = kExitOk;
  // Set by the parser to what the chosen command does.
  std::function<absl::Status()> run;

  absl::StatusOr<std::unique_ptr<Cluster>> Connect(
      const std::string& name = "") const;
};

int ExitCodeOf(const absl::Status& status);

// Prints `value` as one line of JSON.
void PrintJson(const nlohmann::json& value);

// Each adds its subcommands to `app`.
void AddStatusCommands(CLI::App* app, Context* context);
void AddTargetCommands(CLI::App* app, Context* context);
void AddPoolCommands(CLI::App* app, Context* context);
void AddNameCommands(CLI::App* app, Context* context);
void AddCopyCommands(CLI::App* app, Context* context);
void AddVerifyCommand(CLI::App* app, Context* context);
void AddCheckpointCommands(CLI::App* app, Context* context);
// Below `ckpt`.
void AddSaveCommand(CLI::App* app, Context* context);
void AddLoadCommand(CLI::App* app, Context* context);
void AddExportCommand(CLI::App* app, Context* context);

}  // namespace cairn::client::cli
