#include "tests/sim/campaign/seed_process.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "format/base/status.h"
#include "tests/fault_points/list.h"

namespace cairn::sim {

namespace {

constexpr int kViolated = 3;  // Exit code of the child.

double NowSeconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int TemporaryFile(const char* name) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  CAIRN_CHECK(file >= 0);
  return file;
}

std::string ReadAll(int file) {
  std::string text;
  char buffer[4096];
  CAIRN_CHECK(lseek(file, 0, SEEK_SET) == 0);
  for (ssize_t got = 0; (got = read(file, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

void WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(file, text.data(), text.size());
    CAIRN_CHECK(put > 0);
    text.remove_prefix(static_cast<size_t>(put));
  }
}

// One line each, in the order in which Decode() reads them.
std::string Encode(const CampaignResult& result) {
  std::string text = absl::StrCat(
      result.tunables, "\n", result.attacks, "\n", result.points, "\n",
      result.trace_hash, "\n", result.events, "\n", result.operations, "\n",
      result.loads, "\n", result.virtual_seconds, "\n");
  for (const uint64_t count : result.attack_counts) {
    absl::StrAppend(&text, count, "\n");
  }
  for (const uint64_t count : result.fault_counts) {
    absl::StrAppend(&text, count, "\n");
  }
  const PointCounts& points = result.point_counts;
  for (const auto* counts :
       {&points.reached, &points.fired, &points.sometimes}) {
    for (const uint64_t count : *counts) absl::StrAppend(&text, count, "\n");
  }
  return text;
}

std::optional<CampaignResult> Decode(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  constexpr size_t kFixed = 8;
  const size_t points = AllFaultPoints().size();
  const size_t sometimes = AllSometimes().size();
  constexpr size_t kCounts = kFixed + kAttacks + kFaultKinds;
  if (lines.size() != kCounts + 2 * points + sometimes + 1) {
    return std::nullopt;
  }
  const auto number = [&lines](size_t i) {
    return std::strtoull(lines[i].c_str(), nullptr, 10);
  };
  CampaignResult result;
  result.tunables = lines[0];
  result.attacks = lines[1];
  result.points = lines[2];
  result.trace_hash = number(3);
  result.events = number(4);
  result.operations = number(5);
  result.loads = number(6);
  result.virtual_seconds = std::strtod(lines[7].c_str(), nullptr);
  for (size_t i = 0; i < kAttacks; ++i) {
    result.attack_counts[i] = number(kFixed + i);
  }
  for (size_t i = 0; i < kFaultKinds; ++i) {
    result.fault_counts[i] = number(kFixed + kAttacks + i);
  }
  const auto take = [&number](size_t first, size_t count) {
    std::vector<uint64_t> counts;
    for (size_t i = 0; i < count; ++i) counts.push_back(number(first + i));
    return counts;
  };
  result.point_counts.reached = take(kCounts, points);
  result.point_counts.fired = take(kCounts + points, points);
  result.point_counts.sometimes = take(kCounts + 2 * points, sometimes);
  return result;
}

[[noreturn]] void RunChild(uint64_t seed, SeedOptions how, int output,
                           int result) {
  dup2(output, STDERR_FILENO);
  dup2(output, STDOUT_FILENO);
  alarm(how.limit_seconds);
  signal(SIGINT, SIG_IGN);  // Ctrl-C lets those that run end.
  CampaignOptions options;
  options.seed = seed;
  options.fault_points = how.fault_points;
  options.on_violation = [](const std::string& what) {
    std::fprintf(stderr, "VIOLATION: %s\n", what.c_str());
    std::fflush(stderr);
    _exit(kViolated);
  };
  WriteAll(result, Encode(RunCampaign(options)));
  std::fflush(nullptr);
  _exit(0);
}

std::string Why(int wait_status, const std::string& output) {
  const size_t violation = output.rfind("VIOLATION: ");
  if (violation != std::string::npos) {
    return output.substr(violation);
  }
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    if (signal == SIGALRM) return "ran out of real time";
    return absl::StrCat("killed by signal ", signal);
  }
  return absl::StrCat("exit code ", WEXITSTATUS(wait_status));
}

}  // namespace

SeedProcess::SeedProcess(uint64_t seed, SeedOptions options)
    : seed_(seed),
      output_(TemporaryFile("output")),
      result_(TemporaryFile("result")),
      started_(NowSeconds()) {
  std::fflush(nullptr);
  pid_ = fork();
  CAIRN_CHECK(pid_ >= 0);
  if (pid_ == 0) RunChild(seed, options, output_, result_);
}

SeedProcess::~SeedProcess() {
  close(output_);
  close(result_);
}

SeedOutcome SeedProcess::Collect(int wait_status) {
  SeedOutcome outcome;
  outcome.seed = seed_;
  outcome.real_seconds = NowSeconds() - started_;
  outcome.output = ReadAll(output_);
  const bool ended = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
  if (ended) outcome.result = Decode(ReadAll(result_));
  if (!outcome.result) outcome.failure = Why(wait_status, outcome.output);
  return outcome;
}

}  // namespace cairn::sim
