#include "server/main/server_commands.h"

#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/main/command_line.h"
#include "server/main/meta_server.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

namespace {
// How often a process of targets looks whether it still serves any.
constexpr uint64_t kLookMs = 200;

void AddMetaAddress(CLI::App* app, std::string* address) {
  app->add_option("--meta", *address, "HOST:PORT of the metadata service")
      ->envname("CAIRN_CLUSTER")
      ->required();
}
}  // namespace

void MetaCommand::Add(CLI::App* app) {
  CLI::App* const command = app->add_subcommand(
      "meta", "Serve the metadata of a cluster; targets join on their own");
  AddMetaOptions(command, &options_);
  command->footer(
      "Examples:\n"
      "  cairnd init --dir /srv/cairn --no-targets\n"
      "  cairnd meta --dir /srv/cairn --listen 10.0.0.1:7400 --insecure\n");
}

int MetaCommand::Run() const {
  const StopSignals signals;
  absl::StatusOr<std::unique_ptr<MetaLoop>> server = StartMetaServer(options_);
  if (!server.ok()) return Fail(server.status());
  spdlog::info("serving metadata on {}", (*server)->address());
  SayReady((*server)->address());
  signals.Wait();
  server->reset();
  return 0;
}

void TargetCommand::Add(CLI::App* app) {
  CLI::App* const command = app->add_subcommand(
      "target", "Serve targets of this machine that were formatted before");
  AddMetaAddress(command, &options_.meta_address);
  command
      ->add_option("--listen", options_.listen,
                   "HOST:PORT of the first data loop, the next ports for "
                   "the others; port 0: any free ones")
      ->capture_default_str();
  command->add_option("--advertise", options_.advertise_host,
                      "Name or address under which clients reach this machine "
                      "(default: the host of --listen)");
  command->add_option("--loops", options_.loops,
                      "Data loops, each with its own thread, port and targets "
                      "(default: one for every two cores)");
  command
      ->add_option("--memory", options_.memory_bytes,
                   "Bytes of buffers for all data loops (default: 160M)")
      ->transform(CLI::AsSizeValue(false));
  AddScrubOptions(command, &options_.scrub);
  command->add_option("--host", options_.host,
                      "Failure domain: the machine (default: its name)");
  command->add_option("--rack", options_.rack,
                      "Failure domain: the rack (default: as formatted)");
  command->add_flag("--insecure", options_.insecure,
                    "Allow to listen beyond loopback: there is no "
                    "authentication yet");
  AddBackend(command, &options_.backend);
  command
      ->add_option("DIR", options_.directories,
                   "Directories of the targets; ID=DIR: and it must be "
                   "target ID")
      ->required();
  command->footer(
      "Examples:\n"
      "  cairnd target --meta 10.0.0.1:7400 --listen 10.0.0.2:7500 --insecure "
      "/disk1/cairn /disk2/cairn\n"
      "  cairnd target --meta 10.0.0.1:7400 3=/disk3/cairn\n"
      "It waits for the metadata service as long as it takes. If the service "
      "turns all its targets away, it says why and ends with 1.\n");
}

int TargetCommand::Run() const {
  const StopSignals signals;
  absl::StatusOr<std::unique_ptr<TargetServer>> server =
      TargetServer::Start(options_);
  if (!server.ok()) return Fail(server.status());
  spdlog::info("{} targets on {} ({}), joining at {}", (*server)->targets(),
               (*server)->address(), (*server)->backend(),
               options_.meta_address);
  bool ready = false;
  while (!signals.WaitFor(kLookMs)) {
    const TargetServer::State state = (*server)->state();
    if (!state.decided) continue;
    if (state.served == 0) {
      return Fail(absl::FailedPreconditionError(absl::StrCat(
          "no target is served: ", absl::StrJoin(state.problems, "; "))));
    }
    if (!ready) SayReady((*server)->address());
    ready = true;
  }
  server->reset();
  return 0;
}

void FormatCommand::Add(CLI::App* app) {
  CLI::App* const command = app->add_subcommand(
      "format", "Make directories (disks) new targets of a running cluster");
  AddMetaAddress(command, &options_.meta_address);
  command->add_option("--host", options_.host,
                      "Failure domain: the machine (default: its name)");
  command->add_option("--rack", options_.rack, "Failure domain: the rack")
      ->capture_default_str();
  command
      ->add_option("--capacity", options_.capacity_bytes,
                   "Bytes of payload each may hold (default: what its disk "
                   "has)")
      ->transform(CLI::AsSizeValue(false));
  command
      ->add_option("--slab-size", options_.slab_bytes,
                   "Bytes of one preallocated slab file")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_flag("--prewrite", options_.prewrite,
                    "Write all slabs once now: slower start, faster first "
                    "writes");
  AddBackend(command, &options_.backend);
  command
      ->add_option("DIR", options_.directories,
                   "Directories, absent or empty: one per disk")
      ->required();
  command->footer(
      "Examples:\n"
      "  cairnd format --meta 10.0.0.1:7400 --rack r1 /disk1/cairn "
      "/disk2/cairn\n"
      "Then start them (cairnd target), and put them into service (cairn "
      "target add).\n");
}

int FormatCommand::Run() const {
  const absl::StatusOr<std::vector<FormattedTarget>> made =
      FormatTargets(options_);
  if (!made.ok()) return Fail(made.status());
  std::string directories;
  std::string ids;
  for (const FormattedTarget& target : *made) {
    std::printf("formatted %s as target %u\n", target.directory.c_str(),
                target.target.value);
    absl::StrAppend(&directories, " ", target.directory);
    absl::StrAppend(&ids, " ", target.target.value);
  }
  std::printf(
      "start:           cairnd target --meta %s --listen HOST:PORT%s\n"
      "put in service:  cairn target add%s\n",
      options_.meta_address.c_str(), directories.c_str(), ids.c_str());
  return 0;
}

}  // namespace cairn::server
