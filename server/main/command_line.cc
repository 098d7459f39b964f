#include "server/main/command_line.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "cairnd: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? kExitUsage
                                                             : kExitFailed;
}

void SayReady(const std::string& address) {
  std::printf("ready %s\n", address.c_str());
  std::fflush(stdout);
}

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

void StopSignals::Wait() const {
  int signal = 0;
  sigwait(&signals_, &signal);
  Stop(signal);
}

bool StopSignals::WaitFor(uint64_t ms) const {
  timespec time;
  time.tv_sec = static_cast<time_t>(ms / 1000);
  time.tv_nsec = static_cast<long>(ms % 1000 * 1'000'000);
  const int signal = sigtimedwait(&signals_, nullptr, &time);
  if (signal <= 0) return false;
  Stop(signal);
  return true;
}

void StopSignals::Stop(int signal) const {
  spdlog::info("signal {}: stopping", signal);
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
}

namespace {

const std::map<std::string, io::Backend> kBackends = {
    {"auto", io::Backend::kAuto},
    {"io_uring", io::Backend::kUring},
    {"plain", io::Backend::kPlain}};

constexpr uint64_t kTimeMsMax = 400ull * 86'400'000;

// An option in milliseconds for a time in nanoseconds.
void AddTime(CLI::App* app, const std::string& name, io::TimeNs* time,
             const std::string& text) {
  app->add_option_function<uint64_t>(
         name, [time](uint64_t ms) { *time = ms * io::kMillisecond; }, text)
      ->check(CLI::Range(uint64_t{1}, kTimeMsMax))
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

}  // namespace

void AddBackend(CLI::App* app, io::Backend* backend) {
  app->add_option("--io", *backend, "auto, io_uring or plain")
      ->transform(CLI::CheckedTransformer(kBackends, CLI::ignore_case));
}

void AddScrubOptions(CLI::App* app, ScrubOptions* options) {
  app->add_option("--scrub-rate", options->bytes_per_s,
                  "Bytes a second that each target reads again of what it "
                  "stores, to find damage; 0: none")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  AddTime(app, "--scrub-after-ms", &options->start_after_ns,
          "Reading again begins so long after the start");
  AddTime(app, "--scrub-pass-ms", &options->pass_ns,
          "All is read again at most this often");
}

void AddMetaOptions(CLI::App* app, RunOptions* options) {
  app->add_option("--dir", options->directory, "Directory of the cluster")
      ->required();
  app->add_option("--listen", options->listen,
                  "HOST:PORT of the metadata service; port 0: any free one")
      ->capture_default_str();
  app->add_option("--trash-grace-ms", options->trash_grace_ms,
                  "How long unlinked files keep their space")
      ->capture_default_str();
  AddHealth(app, &options->health);
  AddTime(app, "--out-after-ms", &options->rebuild.out_after_ns,
          "A target that is down for so long is taken out, and what it held is "
          "made on others");
  app->add_flag("!--no-rebalance", options->rebuild.balance,
                "Do not move shards to targets that have fewer than their "
                "share, as added ones do");
  AddTime(app, "--compare-ms", &options->repair.compare_ns,
          "Time in which the chunk lists of all placement groups are compared "
          "once");
  AddTime(app, "--repair-poll-ms", &options->repair.poll_ns,
          "How often targets are asked for chunks that they found damaged");
  app->add_flag("--insecure", options->insecure,
                "Allow to listen beyond loopback: there is no authentication "
                "yet");
  app->add_flag("--accept-metadata-loss", options->accept_metadata_loss,
                "Serve although acknowledged metadata is missing: only after "
                "no better copy could be found");
  AddBackend(app, &options->backend);
}

}  // namespace cairn::server
