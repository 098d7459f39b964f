// sim_campaign: runs seeds of the simulated cluster, and says which fail.
//
//   sim_campaign --seeds 1000 [--first 1] [--jobs 2] [--budget-seconds 600]
//                [--stop]        at the first seed that fails
//   sim_campaign --seed 17 [--trace] [--hash]     one seed, in this process
//   sim_campaign --list FILE                      the seeds in a file
//
// --no-points: no fault point fires. --require-all: every fault point must fire
// and every "sometimes" be reached by at least one of the seeds.
//
// Many seeds say on standard error how far they are. Ctrl-C ends them early,
// with the summary of those that ran; twice: at once.
//
// Exit code: 0 all passed; 1 a violation, or ended early; 2 usage.
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "spdlog/spdlog.h"
#include "tests/sim/campaign/campaign.h"
#include "tests/sim/campaign/seed_process.h"
#include "tests/sim/campaign/summary.h"

namespace cairn::sim {
namespace {

struct Arguments {
  uint64_t first = 1;
  uint64_t seeds = 100;
  uint64_t seed = 0;  // One only.
  uint64_t jobs = 1;
  uint64_t budget_seconds = 0;   // 0: none.
  uint64_t limit_seconds = 120;  // Of one seed.
  std::string list;
  bool trace = false;
  bool hash = false;
  bool verbose = false;
  bool no_points = false;
  bool require_all = false;
  bool stop = false;  // At the first seed that fails.
};

bool Parse(int argc, char** argv, Arguments* out) {
  const std::map<std::string, uint64_t*> numbers = {
      {"--first", &out->first},
      {"--seeds", &out->seeds},
      {"--seed", &out->seed},
      {"--jobs", &out->jobs},
      {"--budget-seconds", &out->budget_seconds},
      {"--limit-seconds", &out->limit_seconds}};
  const std::map<std::string, bool*> flags = {
      {"--trace", &out->trace},
      {"--hash", &out->hash},
      {"--verbose", &out->verbose},
      {"--no-points", &out->no_points},
      {"--require-all", &out->require_all},
      {"--stop", &out->stop}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto flag = flags.find(argument);
    if (flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    if (++i == argc) return false;
    const auto number = numbers.find(argument);
    if (number != numbers.end()) {
      *number->second = std::strtoull(argv[i], nullptr, 10);
    } else if (argument == "--list") {
      out->list = argv[i];
    } else {
      return false;
    }
  }
  return out->jobs > 0;
}

// Lines of "SEED why it is kept"; '#' starts a comment.
std::deque<uint64_t> ReadList(const std::string& path) {
  std::deque<uint64_t> seeds;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    seeds.push_back(std::strtoull(line.c_str(), nullptr, 10));
  }
  return seeds;
}

int RunOne(const Arguments& arguments) {
  CampaignOptions options;
  options.seed = arguments.seed;
  options.fault_points = !arguments.no_points;
  options.trace = arguments.trace ? stderr : nullptr;
  options.on_violation = [](const std::string& what) {
    std::printf("VIOLATION: %s\n", what.c_str());
    std::fflush(stdout);
    std::_Exit(1);  // The world cannot go on after it.
  };
  const CampaignResult result = RunCampaign(options);
  std::printf("%s\nattacks: %s\npoints: %s\n", result.tunables.c_str(),
              result.attacks.c_str(), result.points.c_str());
  std::printf(
      "seed %llu passed: %.1f virtual seconds, %llu events, %llu "
      "operations, %llu reads compared, hash %016llx\n",
      static_cast<unsigned long long>(arguments.seed), result.virtual_seconds,
      static_cast<unsigned long long>(result.events),
      static_cast<unsigned long long>(result.operations),
      static_cast<unsigned long long>(result.loads),
      static_cast<unsigned long long>(result.trace_hash));
  return 0;
}

void Say(const Arguments& arguments, const char* program,
         const SeedOutcome& outcome) {
  const auto seed = static_cast<unsigned long long>(outcome.seed);
  if (outcome.result) {
    if (arguments.hash || arguments.verbose) {
      std::printf("seed %llu hash %016llx %.2f s: %s\n", seed,
                  static_cast<unsigned long long>(outcome.result->trace_hash),
                  outcome.real_seconds, outcome.result->attacks.c_str());
    }
    return;
  }
  std::printf("seed %llu FAILED: %s\n  replay: %s --seed %llu --trace%s\n",
              seed, outcome.failure.c_str(), program, seed,
              arguments.no_points ? " --no-points" : "");
  // The end says most: what a check or a sanitizer had to say.
  constexpr size_t kTailBytes = 3000;
  const std::string& said = outcome.output;
  if (arguments.verbose || outcome.failure.rfind("VIOLATION", 0) != 0) {
    std::printf("%s\n", said.size() > kTailBytes
                            ? said.substr(said.size() - kTailBytes).c_str()
                            : said.c_str());
  }
  std::fflush(stdout);
}

volatile sig_atomic_t interrupted = 0;

void EndEarlyOnCtrlC() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

// Says how far it is, now and then.
class Progress {
 public:
  void Note(const Summary& summary, size_t left) {
    const auto now = std::chrono::steady_clock::now();
    if (now - said_ < kPause) return;
    said_ = now;
    std::fprintf(
        stderr, "%llu seeds done, %llu failed, %zu left; %lld s\n",
        static_cast<unsigned long long>(summary.seeds()),
        static_cast<unsigned long long>(summary.failed()), left,
        static_cast<long long>(
            std::chrono::duration_cast<std::chrono::seconds>(now - started_)
                .count()));
  }

 private:
  static constexpr auto kPause = std::chrono::seconds(30);
  const std::chrono::steady_clock::time_point started_ =
      std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point said_ = started_;
};

std::deque<uint64_t> SeedsOf(const Arguments& arguments) {
  if (!arguments.list.empty()) return ReadList(arguments.list);
  std::deque<uint64_t> seeds;
  for (uint64_t i = 0; i < arguments.seeds; ++i) {
    seeds.push_back(arguments.first + i);
  }
  return seeds;
}

int RunMany(const Arguments& arguments, const char* program) {
  std::deque<uint64_t> seeds = SeedsOf(arguments);
  const auto started = std::chrono::steady_clock::now();
  const auto over = [&] {
    return arguments.budget_seconds > 0 &&
           std::chrono::steady_clock::now() - started >
               std::chrono::seconds(arguments.budget_seconds);
  };
  SeedOptions options;
  options.limit_seconds = static_cast<uint32_t>(arguments.limit_seconds);
  options.fault_points = !arguments.no_points;
  std::map<pid_t, std::unique_ptr<SeedProcess>> running;
  Summary summary;
  Progress progress;
  EndEarlyOnCtrlC();
  while (!seeds.empty() || !running.empty()) {
    while (!seeds.empty() && running.size() < arguments.jobs) {
      auto process = std::make_unique<SeedProcess>(seeds.front(), options);
      seeds.pop_front();
      running.emplace(process->pid(), std::move(process));
    }
    int status = 0;
    const auto ended = running.find(waitpid(-1, &status, 0));
    if (ended == running.end()) continue;
    const SeedOutcome outcome = ended->second->Collect(status);
    running.erase(ended);
    summary.Add(outcome);
    Say(arguments, program, outcome);
    progress.Note(summary, seeds.size());
    // Those that run already end: so the lowest that fails is always found.
    if (over() || interrupted != 0 ||
        (arguments.stop && summary.failed() > 0)) {
      seeds.clear();
    }
  }
  std::printf("%s", summary.ToString().c_str());
  const bool idle = arguments.require_all && !summary.NeverReached().empty();
  return summary.failed() == 0 && !idle && interrupted == 0 ? 0 : 1;
}

}  // namespace
}  // namespace cairn::sim

int main(int argc, char** argv) {
  // A world lives for a second: what it frees is not worth giving back.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  // And most of its processes touch little of their pools.
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  cairn::sim::Arguments arguments;
  if (!cairn::sim::Parse(argc, argv, &arguments)) {
    std::fprintf(
        stderr,
        "usage: %s [--seeds N] [--first K] [--jobs J] "
        "[--budget-seconds S] [--limit-seconds S] [--list FILE]\n"
        "          [--hash] [--verbose] [--no-points] [--require-all]\n"
        "          [--stop]\n"
        "          | --seed K [--trace] [--no-points]\n",
        argv[0]);
    return 2;
  }
  spdlog::set_level(arguments.trace ? spdlog::level::info : spdlog::level::off);
  if (arguments.seed != 0) return cairn::sim::RunOne(arguments);
  return cairn::sim::RunMany(arguments, argv[0]);
}
