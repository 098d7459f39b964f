// cairnd: the server program. `cairnd --help`.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "server/main/init.h"
#include "server/main/run.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace cairn::server {
namespace {

// Exit codes: 0 fine, 1 refused or failed (the message says why), 2 wrong
// arguments.
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "cairnd: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? kExitUsage
                                                             : kExitFailed;
}

const std::map<std::string, io::Backend> kBackends = {
    {"auto", io::Backend::kAuto},
    {"io_uring", io::Backend::kUring},
    {"plain", io::Backend::kPlain}};

void AddInit(CLI::App* app, InitOptions* options, std::string* scheme) {
  app->add_option("--dir", options->directory, "Directory of the cluster")
      ->required();
  auto* count = app->add_option("--targets", options->targets,
                                "Make this many targets below --dir")
                    ->check(CLI::Range(1, 4096));
  app->add_option("--target", options->target_directories,
                  "A target's directory (absent or empty); one per disk, "
                  "repeat it")
      ->excludes(count);
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
      "/disk2/cairn --scheme replicate:2\n");
}

// An option in milliseconds for a time in nanoseconds.
void AddTime(CLI::App* app, const std::string& name, io::TimeNs* time,
             const std::string& text) {
  app->add_option_function<uint64_t>(
         name, [time](uint64_t ms) { *time = ms * io::kMillisecond; }, text)
      ->check(CLI::Range(uint64_t{1}, uint64_t{86'400'000}))
      ->default_str(absl::StrCat(*time / io::kMillisecond));
}

void AddHealth(CLI::App* app, HealthOptions* options) {
  AddTime(app, "--heartbeat-ms", &options->heartbeat_ns,
          "Time between two heartbeats to a target");
  AddTime(app, "--suspect-after-ms", &options->suspect_after_ns,
          "No new data for a target that gave no answer for so long");
  AddTime(app, "--down-after-ms", &options->down_after_ns,
          "Reads avoid a target that gave no answer for so long");
  AddTime(app, "--up-after-ms", &options->up_after_ns,
          "A target is up again after answering for so long (twice as long "
          "each time that it falls again)");
  app->add_option("--brake-share", options->brake_share,
                  "Share of all targets: if more are down, nothing is done "
                  "about it automatically")
      ->capture_default_str();
}

void AddRun(CLI::App* app, RunOptions* options) {
  app->add_option("--dir", options->directory, "Directory of the cluster")
      ->required();
  app->add_option("--listen", options->listen,
                  "HOST:PORT of the metadata service; port 0: any free one")
      ->capture_default_str();
  app->add_option("--data-port", options->data_port,
                  "First port of the data loops (default: any free ones)");
  app->add_option("--loops", options->loops,
                  "Data loops, each with its own thread, port and targets "
                  "(default: one for every two cores)");
  app->add_option("--memory", options->memory_bytes,
                  "Bytes of buffers for all data loops (default: 160M)")
      ->transform(CLI::AsSizeValue(false));
  app->add_option("--trash-grace-ms", options->trash_grace_ms,
                  "How long unlinked files keep their space")
      ->capture_default_str();
  AddHealth(app, &options->health);
  AddTime(app, "--out-after-ms", &options->rebuild.out_after_ns,
          "A target that is down for so long is taken out, and what it held is "
          "made on others");
  app->add_flag("--insecure", options->insecure,
                "Allow to listen beyond loopback: there is no authentication "
                "yet");
  app->add_flag("--accept-metadata-loss", options->accept_metadata_loss,
                "Serve although acknowledged metadata is missing: only after "
                "no better copy could be found");
  app->add_option("--io", options->backend, "auto, io_uring or plain")
      ->transform(CLI::CheckedTransformer(kBackends, CLI::ignore_case));
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
  if (options.targets == 0 && options.target_directories.empty()) {
    options.targets = 6;
  }
  const absl::Status made = InitCluster(options);
  if (!made.ok()) return Fail(made);
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
  // Blocked before any thread starts, so that only sigwait() below gets them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  absl::StatusOr<std::unique_ptr<AllInOne>> server = AllInOne::Start(options);
  if (!server.ok()) return Fail(server.status());
  spdlog::info("serving {} targets on {} ({})", (*server)->targets(),
               (*server)->address(), (*server)->backend());
  std::printf("ready %s\n", (*server)->address().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("signal {}: stopping", signal);
  // A second signal ends the process at once: that loses nothing either.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kExitUsage;
  }
  if (app.got_subcommand("init")) return Init(init, scheme);
  return Run(run);
}

}  // namespace
}  // namespace cairn::server

int main(int argc, char** argv) { return cairn::server::Main(argc, argv); }
