// Saves and loads of checkpoint sets by rank processes, against the bare path P
// of the same minute. `checkpoint_bench --help`.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/path/bare_path.h"
#include "client/api/checkpoint.h"
#include "format/base/limits.h"

namespace cairn::bench {
namespace {

struct Options {
  std::string directory = "./bench-data";
  std::string cairnd;
  std::string scheme = "replicate:1";
  uint32_t targets = 4;
  uint32_t ranks = 8;
  uint32_t rounds = 5;
  uint32_t loops = 0;
  uint64_t bytes = 4 * format::kGiB;
};

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "checkpoint_bench: %s\n", what.c_str());
  std::exit(1);
}

double OwnCpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A field of /proc/PID/status, in bytes.
uint64_t StatusBytes(pid_t pid, const std::string& field) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(field + ":", 0) == 0) {
      return std::stoull(line.substr(field.size() + 1)) * 1024;
    }
  }
  return 0;
}

// cairnd as a child of its own.
class Server {
 public:
  explicit Server(const Options& options) : options_(options) {
    directory_ = options.directory + "/cluster";
    std::filesystem::remove_all(directory_);
    const uint64_t copies = 2;  // Parity and slack.
    const uint64_t capacity =
        options.bytes * copies * (options.rounds + 1) / options.targets;
    RunTool({options.cairnd, "init", "--dir", directory_, "--targets",
             absl::StrCat(options.targets), "--scheme", options.scheme,
             "--capacity", absl::StrCat(capacity), "--prewrite"});
    Start();
  }
  ~Server() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
    std::filesystem::remove_all(directory_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& address() const { return address_; }
  uint64_t resident_max_bytes() const { return StatusBytes(pid_, "VmHWM"); }
  double CpuSeconds() const {
    std::ifstream file(absl::StrCat("/proc/", pid_, "/stat"));
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(text.rfind(')') + 2));
    std::string skip;
    for (int i = 0; i < 11; ++i) fields >> skip;
    double user = 0;
    double system = 0;
    fields >> user >> system;
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

 private:
  static void RunTool(std::vector<std::string> arguments) {
    const pid_t pid = fork();
    if (pid == 0) Exec(std::move(arguments), -1);
    int state = 0;
    waitpid(pid, &state, 0);
    if (state != 0) Die("cairnd init failed");
  }
  [[noreturn]] static void Exec(std::vector<std::string> arguments, int out) {
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    const int null = open("/dev/null", O_WRONLY);
    dup2(out >= 0 ? out : null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  void Start() {
    int ends[2];
    if (pipe(ends) != 0) Die("pipe");
    std::vector<std::string> arguments = {
        options_.cairnd, "run", "--dir", directory_, "--listen", "127.0.0.1:0"};
    if (options_.loops > 0) {
      arguments.push_back("--loops");
      arguments.push_back(absl::StrCat(options_.loops));
    }
    pid_ = fork();
    if (pid_ == 0) Exec(std::move(arguments), ends[1]);
    close(ends[1]);
    char line[128] = {};
    for (size_t n = 0; n + 1 < sizeof(line); ++n) {
      if (read(ends[0], line + n, 1) != 1) Die("cairnd did not start");
      if (line[n] == '\n') break;
    }
    address_ = std::string(line).substr(std::strlen("ready "));
    address_.resize(address_.find('\n'));
    close(ends[0]);
  }

  const Options options_;
  std::string directory_;
  std::string address_;
  pid_t pid_ = -1;
};

// --- A rank: its tensors, and what it reports.

struct RankReport {
  double end = 0;
  double cpu = 0;
  uint64_t extra_bytes = 0;  // Resident beyond its tensors, at most.
};

constexpr uint64_t kTensorBytes = 64 * format::kMiB;

struct RankTensors {
  uint8_t* data = nullptr;
  uint64_t bytes = 0;
};

RankTensors MakeTensors(uint64_t bytes, uint32_t rank) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) Die("no memory for tensors");
  (void)madvise(at, bytes, MADV_HUGEPAGE);
  RankTensors tensors{static_cast<uint8_t*>(at), bytes};
  uint64_t state = 0x9e3779b97f4a7c15ULL * (rank + 1);
  for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(tensors.data + i, &state, 8);
  }
  return tensors;
}

// Every rank holds its rows of tensors that all ranks share.
template <typename View, typename Pointer>
std::vector<View> Views(const Options& options, uint32_t rank,
                        uint64_t rank_bytes, Pointer* data) {
  std::vector<View> views;
  for (uint64_t at = 0; at < rank_bytes; at += kTensorBytes) {
    const uint64_t rows = std::min(kTensorBytes, rank_bytes - at) / 8192;
    View view;
    view.name = absl::StrCat("layers.", at / kTensorBytes, ".weight");
    view.dtype = client::Dtype::kBf16;
    view.global_shape = {rows * options.ranks, 4096};
    view.offset = {rows * rank, 0};
    view.shape = {rows, 4096};
    view.data = data + at;
    views.push_back(std::move(view));
  }
  return views;
}

void Check(const absl::Status& status) {
  if (!status.ok()) Die(std::string(status.message()));
}

struct Job {
  const Options* options;
  std::string address;
  std::string path;
  bool save = true;
  uint32_t rank = 0;
};

void Save(client::Cluster* cluster, const Job& job,
          const RankTensors& tensors) {
  client::CheckpointWriter::Options options;
  options.path = job.path;
  options.set_id = "bench";
  options.world_size = job.options->ranks;
  options.rank = job.rank;
  auto writer = client::CheckpointWriter::Open(cluster, options);
  Check(writer.status());
  for (auto& view :
       Views<client::TensorView>(*job.options, job.rank, tensors.bytes,
                                 static_cast<const uint8_t*>(tensors.data))) {
    Check((*writer)->AddTensor(view));
  }
  Check((*writer)->Commit());
}

void Load(client::Cluster* cluster, const Job& job,
          const RankTensors& tensors) {
  client::CheckpointReader::Options options;
  options.path = job.path;
  auto reader = client::CheckpointReader::Open(cluster, options);
  Check(reader.status());
  const auto views = Views<client::MutableTensorView>(
      *job.options, job.rank, tensors.bytes, tensors.data);
  Check((*reader)->Load(views));
}

[[noreturn]] void RunRank(const Job& job, int ready, int go, int report) {
  const RankTensors tensors =
      MakeTensors(job.options->bytes / job.options->ranks, job.rank);
  const uint64_t before = StatusBytes(getpid(), "VmRSS");
  client::Options options;
  options.address = job.address;
  auto cluster = client::Cluster::Connect(options);
  Check(cluster.status());
  char token = 1;
  if (write(ready, &token, 1) != 1 || read(go, &token, 1) != 1) _exit(1);
  RankReport mine;
  const double cpu = OwnCpuSeconds();
  job.save ? Save(cluster->get(), job, tensors)
           : Load(cluster->get(), job, tensors);
  mine.end = Now();
  mine.cpu = OwnCpuSeconds() - cpu;
  mine.extra_bytes = StatusBytes(getpid(), "VmHWM") - before;
  if (write(report, &mine, sizeof(mine)) != sizeof(mine)) _exit(1);
  cluster->reset();
  _exit(0);
}

struct Figure {
  PathResult path;
  uint64_t rank_extra_bytes = 0;
};

Figure RunRanks(const Options& options, const Server& server,
                const std::string& path, bool save) {
  int ready[2];
  int go[2];
  int report[2];
  if (pipe(ready) != 0 || pipe(go) != 0 || pipe(report) != 0) Die("pipe");
  std::vector<pid_t> ranks;
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() == 0) {
      RunRank({&options, server.address(), path, save, rank}, ready[1], go[0],
              report[1]);
    }
  }
  std::vector<char> tokens(options.ranks, 1);
  for (char& token : tokens) {
    if (read(ready[0], &token, 1) != 1) Die("a rank died");
  }
  const double cpu = server.CpuSeconds();
  const double start = Now();
  if (write(go[1], tokens.data(), tokens.size()) < 0) Die("pipe");
  Figure figure;
  for (uint32_t i = 0; i < options.ranks; ++i) {
    RankReport one;
    if (read(report[0], &one, sizeof(one)) != sizeof(one)) Die("a rank died");
    figure.path.seconds = std::max(figure.path.seconds, one.end - start);
    figure.path.cpu_seconds += one.cpu;
    figure.rank_extra_bytes =
        std::max(figure.rank_extra_bytes, one.extra_bytes);
  }
  figure.path.cpu_seconds += server.CpuSeconds() - cpu;
  figure.path.bytes = options.bytes;
  for (const pid_t pid : ranks) waitpid(pid, nullptr, 0);
  for (int fd : {ready[0], ready[1], go[0], go[1], report[0], report[1]}) {
    close(fd);
  }
  return figure;
}

// --- Rounds and the table.

using Figures = std::map<std::string, std::vector<PathResult>>;

// The median of a quantity of each round, and of its ratio to the same quantity
// of `to` in the same round.
double MedianRatio(const std::vector<PathResult>& of,
                   const std::vector<PathResult>& to,
                   double (PathResult::*quantity)() const) {
  std::vector<double> ratios;
  for (size_t i = 0; i < of.size(); ++i) {
    ratios.push_back((of[i].*quantity)() / (to[i].*quantity)());
  }
  return Median(std::move(ratios));
}

std::vector<double> Rates(const std::vector<PathResult>& results) {
  std::vector<double> rates;
  for (const PathResult& one : results) rates.push_back(one.gb_per_second());
  std::sort(rates.begin(), rates.end());
  return rates;
}

void PrintRow(const Figures& figures, const std::string& name) {
  const std::vector<PathResult>& results = figures.at(name);
  std::vector<double> cpu;
  for (const PathResult& one : results) cpu.push_back(one.cpu_per_gb());
  const std::vector<double> rates = Rates(results);
  std::printf("%-22s %5.2f GB/s [%.2f..%.2f]  %.3f CPU s/GB", name.c_str(),
              Median(rates), rates.front(), rates.back(), Median(cpu));
  const std::vector<std::string> baselines =
      name == "load" ? std::vector<std::string>{"P read"}
      : name == "save"
          ? std::vector<std::string>{"P write, durable", "P write, no flush"}
          : std::vector<std::string>{};
  for (const std::string& baseline : baselines) {
    const auto& to = figures.at(baseline);
    std::printf("\n    %.2f of '%s' (CPU %.2f)",
                MedianRatio(results, to, &PathResult::gb_per_second),
                baseline.c_str(),
                MedianRatio(results, to, &PathResult::cpu_per_gb));
  }
  std::printf("\n");
}

// The quicker of the two ways to be durable: the harder baseline.
PathResult RunDurablePath(BarePathOptions options) {
  options.ack = AckAfter::kDurable;
  const PathResult each = RunBarePath(options);
  options.ack = AckAfter::kGroupFlush;
  const PathResult grouped = RunBarePath(options);
  return each.seconds < grouped.seconds ? each : grouped;
}

void Run(const Options& options) {
  std::filesystem::create_directories(options.directory);
  const std::string bare_file = options.directory + "/bare";
  BarePathOptions write;
  write.file = bare_file;
  write.bytes = std::min<uint64_t>(options.bytes, 2 * format::kGiB);
  BarePathOptions read = write;
  read.write = false;
  read.window = 16;
  PrepareBareFile(bare_file, write.bytes);
  const Server server(options);
  Figures figures;
  uint64_t rank_extra = 0;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    const std::string path = absl::StrCat("/bench/round-", round);
    figures["P write, no flush"].push_back(RunBarePath(write));
    figures["P write, durable"].push_back(RunDurablePath(write));
    const Figure saved = RunRanks(options, server, path, true);
    figures["P read"].push_back(RunBarePath(read));
    const Figure loaded = RunRanks(options, server, path, false);
    figures["save"].push_back(saved.path);
    figures["load"].push_back(loaded.path);
    rank_extra =
        std::max({rank_extra, saved.rank_extra_bytes, loaded.rank_extra_bytes});
  }
  std::printf(
      "%s over %u targets, %u ranks, %.1f GB, median of %u interleaved "
      "rounds\n",
      options.scheme.c_str(), options.targets, options.ranks,
      static_cast<double>(options.bytes) / 1e9, options.rounds);
  for (const char* name :
       {"P write, no flush", "P write, durable", "save", "P read", "load"}) {
    PrintRow(figures, name);
  }
  std::printf(
      "cairnd resident at most %.0f MiB, a rank beyond its tensors at "
      "most %.0f MiB\n",
      static_cast<double>(server.resident_max_bytes()) / 1048576,
      static_cast<double>(rank_extra) / 1048576);
}

int Main(int argc, char** argv) {
  Options options;
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  options.cairnd = (self.parent_path() / "../server/cairnd").string();
  CLI::App app("checkpoint_bench: saves and loads against the bare path P");
  app.add_option("--dir", options.directory)->capture_default_str();
  app.add_option("--cairnd", options.cairnd)->capture_default_str();
  app.add_option("--scheme", options.scheme)->capture_default_str();
  app.add_option("--targets", options.targets)->capture_default_str();
  app.add_option("--ranks", options.ranks)->capture_default_str();
  app.add_option("--rounds", options.rounds)->capture_default_str();
  app.add_option("--loops", options.loops, "cairnd's data loops");
  app.add_option("--bytes", options.bytes, "In all ranks together")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  Run(options);
  return 0;
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) { return cairn::bench::Main(argc, argv); }
