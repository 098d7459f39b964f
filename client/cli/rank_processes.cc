#include "client/cli/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/progress.h"
#include "format/base/status.h"

extern char** environ;

namespace cairn::client::cli {

namespace {

struct Rank {
  pid_t pid = -1;
  int report = -1;      // Read end; -1: closed.
  std::string pending;  // An unfinished line.
  uint64_t done = 0;
  uint64_t total = 0;
  std::string failure;
};

absl::Status Start(const RankRun& run, uint32_t number, Rank* rank) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", number, ": pipe: ", std::strerror(errno)));
  }
  std::vector<std::string> arguments = {"cairn"};
  arguments.insert(arguments.end(), run.arguments.begin(), run.arguments.end());
  arguments.push_back("--rank");
  arguments.push_back(absl::StrCat(number));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kReportFd);
  const int error = posix_spawn(&rank->pid, "/proc/self/exe", &actions, nullptr,
                                argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  rank->report = ends[0];
  if (error == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("rank ", number, ": start: ", std::strerror(error)));
}

void TakeLine(const std::string& line, Rank* rank) {
  if (absl::StartsWith(line, "E ")) {
    rank->failure = line.substr(2);
    return;
  }
  unsigned long long done = 0;
  unsigned long long total = 0;
  if (std::sscanf(line.c_str(), "P %llu %llu", &done, &total) == 2) {
    rank->done = done;
    rank->total = total;
  }
}

// False: the rank closed its end.
bool TakeReport(Rank* rank) {
  char buffer[4096];
  const ssize_t got = read(rank->report, buffer, sizeof(buffer));
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  rank->pending.append(buffer, static_cast<size_t>(got));
  size_t newline = 0;
  while ((newline = rank->pending.find('\n')) != std::string::npos) {
    TakeLine(rank->pending.substr(0, newline), rank);
    rank->pending.erase(0, newline + 1);
  }
  return true;
}

// Why a rank that has ended did not succeed; OK if it did.
absl::Status Judge(uint32_t number, Rank* rank) {
  int state = 0;
  while (waitpid(rank->pid, &state, 0) < 0 && errno == EINTR) {
  }
  rank->pid = -1;
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return absl::OkStatus();
  if (!rank->failure.empty()) {
    // The rank's own exit code tells the kind of failure.
    const std::string text = absl::StrCat("rank ", number, ": ", rank->failure);
    switch (WIFEXITED(state) ? WEXITSTATUS(state) : 1) {
      case 3:
        return absl::DataLossError(text);
      case 4:
        return absl::DeadlineExceededError(text);
      default:
        return absl::InternalError(text);
    }
  }
  if (WIFSIGNALED(state)) {
    return absl::InternalError(
        absl::StrCat("rank ", number, ": killed by signal ", WTERMSIG(state)));
  }
  return absl::InternalError(
      absl::StrCat("rank ", number, ": exit code ", WEXITSTATUS(state)));
}

class Watch {
 public:
  explicit Watch(const RankRun& run)
      : progress_(run.label), ranks_(run.ranks) {}
  ~Watch() {
    EndOthers();
    for (Rank& rank : ranks_) {
      if (rank.report >= 0) close(rank.report);
    }
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  absl::StatusOr<RankOutcome> Run(const RankRun& run) {
    for (uint32_t i = 0; i < run.ranks; ++i) {
      CAIRN_RETURN_IF_ERROR(Start(run, i, &ranks_[i]));
    }
    while (Running() > 0) CAIRN_RETURN_IF_ERROR(PollOnce());
    RankOutcome outcome;
    outcome.seconds = progress_.seconds();
    for (const Rank& rank : ranks_) outcome.bytes += rank.done;
    return outcome;
  }

 private:
  size_t Running() const {
    size_t running = 0;
    for (const Rank& rank : ranks_) running += rank.report >= 0 ? 1 : 0;
    return running;
  }

  absl::Status PollOnce() {
    std::vector<pollfd> waits;
    for (const Rank& rank : ranks_) {
      waits.push_back({rank.report, POLLIN, 0});  // Negative ones are skipped.
    }
    if (poll(waits.data(), waits.size(), 1000) < 0 && errno != EINTR) {
      return absl::InternalError(absl::StrCat("poll: ", std::strerror(errno)));
    }
    for (uint32_t i = 0; i < ranks_.size(); ++i) {
      if (waits[i].revents == 0 || TakeReport(&ranks_[i])) continue;
      close(ranks_[i].report);
      ranks_[i].report = -1;
      CAIRN_RETURN_IF_ERROR(Judge(i, &ranks_[i]));
    }
    Show();
    return absl::OkStatus();
  }

  void Show() {
    uint64_t done = 0;
    uint64_t total = 0;
    for (const Rank& rank : ranks_) {
      done += rank.done;
      total += rank.total;
    }
    if (total > 0) progress_.Update(done, total);
  }

  // Ranks that still run when the command gives up: their save cannot succeed.
  void EndOthers() {
    for (Rank& rank : ranks_) {
      if (rank.pid > 0) (void)kill(rank.pid, SIGTERM);
    }
    for (Rank& rank : ranks_) {
      while (rank.pid > 0 && waitpid(rank.pid, nullptr, 0) < 0 &&
             errno == EINTR) {
      }
    }
  }

  Progress progress_;
  std::vector<Rank> ranks_;
};

void Report(const std::string& line) {
  // A parent that is gone, or none: nobody to tell.
  if (write(kReportFd, line.data(), line.size()) < 0) return;
}

}  // namespace

absl::StatusOr<RankOutcome> RunRanks(const RankRun& run) {
  Watch watch(run);
  return watch.Run(run);
}

void ReportProgress(uint64_t done, uint64_t total) {
  Report(absl::StrCat("P ", done, " ", total, "\n"));
}

void ReportFailure(const absl::Status& status) {
  std::string text(status.message());
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  Report(absl::StrCat("E ", text, "\n"));
}

}  // namespace cairn::client::cli
