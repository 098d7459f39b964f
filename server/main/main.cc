// cairnd: the server program. `cairnd --help`.
#include <sys/resource.h>

#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "server/main/command_line.h"
#include "server/main/init.h"
#include "server/main/run.h"
#include "server/main/server_commands.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace cairn::server {
namespace {

void AddInit(CLI::App* app, InitOptions* options, std::string* scheme) {
  app->add_option("--dir", options->directory, "Directory of the cluster")
      ->required();
  auto* count = app->add_option("--targets", options->targets,
                                "Make this many targets below --dir")
                    ->check(CLI::Range(1, 4096));
  auto* directories =
      app->add_option("--target", options->target_directories,
                      "A target's directory (absent or empty); one per disk, "
                      "repeat it")
          ->excludes(count);
  app->add_flag("--no-targets", options->no_targets,
                "Metadata only: targets join later (cairnd format, cairnd "
                "target), and pools are made then (cairn pool create)")
      ->excludes(count)
      ->excludes(directories);
  app->add_option("--scheme", *scheme,
                  "Redundancy: rs:K+M (Reed-Solomon) or replicate:R")
      ->capture_default_str();
  app->add_option("--chunk-size", options->chunk_size,
                  "Bytes of a chunk, a multiple of 4K, at most 4M")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app->add_option("--capacity", options->capacity_bytes,
                  "Bytes of payload a target may hold (default: an even share "
                  "of the free space)")
      ->transform(CLI::AsSizeValue(false));
  app->add_option("--slab-size", options->slab_bytes,
                  "Bytes of one preallocated slab file")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app->add_flag("--prewrite", options->prewrite,
                "Write all slabs once now: slower start, faster first writes");
  app->footer(
      "Examples:\n"
      "  cairnd init --dir ./c --targets 6 --scheme rs:4+2\n"
      "  cairnd init --dir /srv/cairn --target /disk1/cairn --target "
      "/disk2/cairn --scheme replicate:2\n"
      "  cairnd init --dir /srv/cairn --no-targets\n");
}

void AddRun(CLI::App* app, RunOptions* options) {
  AddMetaOptions(app, options);
  AddScrubOptions(app, &options->scrub);
  app->add_option("--data-port", options->data_port,
                  "First port of the data loops (default: any free ones)");
  app->add_option("--loops", options->loops,
                  "Data loops, each with its own thread, port and targets "
                  "(default: one for every two cores)");
  app->add_option("--memory", options->memory_bytes,
                  "Bytes of buffers for all data loops (default: 160M)")
      ->transform(CLI::AsSizeValue(false));
  app->footer(
      "Examples:\n"
      "  cairnd run --dir ./c --listen 127.0.0.1:7400\n"
      "SIGTERM and SIGINT end it cleanly; kill -9 loses nothing acknowledged "
      "either.\n");
}

int Init(InitOptions options, const std::string& scheme) {
  absl::StatusOr<format::Scheme> parsed = format::ParseScheme(scheme);
  if (!parsed.ok()) return Fail(parsed.status());
  options.scheme = *parsed;
  const bool default_targets =
      options.targets == 0 && options.target_directories.empty();
  if (default_targets && !options.no_targets) options.targets = 6;
  const absl::Status made = InitCluster(options);
  if (!made.ok()) return Fail(made);
  if (options.no_targets) {
    std::printf(
        "made a cluster without targets in %s\nstart it: cairnd meta "
        "--dir %s\n",
        options.directory.c_str(), options.directory.c_str());
    return 0;
  }
  std::printf(
      "made a cluster of %zu targets (%s) in %s\nstart it: cairnd run "
      "--dir %s\n",
      options.target_directories.empty() ? static_cast<size_t>(options.targets)
                                         : options.target_directories.size(),
      ToString(options.scheme).c_str(), options.directory.c_str(),
      options.directory.c_str());
  return 0;
}

int Run(const RunOptions& options) {
  const StopSignals signals;
  absl::StatusOr<std::unique_ptr<AllInOne>> server = AllInOne::Start(options);
  if (!server.ok()) return Fail(server.status());
  spdlog::info("serving {} targets on {} ({})", (*server)->targets(),
               (*server)->address(), (*server)->backend());
  SayReady((*server)->address());
  signals.Wait();
  server->reset();
  return 0;
}

void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int Main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("cairnd"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  RaiseDescriptorLimit();
  CLI::App app("cairnd: server of the Cairn storage system");
  app.require_subcommand(1);
  app.set_version_flag("--version", "cairnd 0.1.0");
  InitOptions init;
  std::string scheme = "rs:4+2";
  AddInit(app.add_subcommand("init", "Make a new cluster"), &init, &scheme);
  RunOptions run;
  AddRun(app.add_subcommand("run", "Serve a cluster: metadata and all targets"),
         &run);
  MetaCommand meta;
  meta.Add(&app);
  TargetCommand target;
  target.Add(&app);
  FormatCommand format;
  format.Add(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kExitUsage;
  }
  if (app.got_subcommand("init")) return Init(init, scheme);
  if (app.got_subcommand("meta")) return meta.Run();
  if (app.got_subcommand("target")) return target.Run();
  if (app.got_subcommand("format")) return format.Run();
  return Run(run);
}

}  // namespace
}  // namespace cairn::server

int main(int argc, char** argv) { return cairn::server::Main(argc, argv); }
