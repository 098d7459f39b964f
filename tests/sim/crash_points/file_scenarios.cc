// Scenarios in which one file changes: overwritten in place, truncated and
// written anew, replaced by rename.
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/file/open.h"
#include "client/names/operations.h"
#include "tests/sim/crash_points/client_tasks.h"
#include "tests/sim/crash_points/scenarios.h"

namespace cairn::sim {

using io::Task;

namespace {

constexpr char kFile[] = "/d/file";
constexpr char kOther[] = "/d/other";

// A file that goes through known states, one per step that publishes. A crash
// leaves one of them whole: not before the last acknowledged, not after the
// last one asked for.
class FileScenario : public Scenario {
 public:
  explicit FileScenario(std::string scheme) : scheme_(std::move(scheme)) {}

  ClusterOptions Cluster(uint64_t seed) const override {
    return SmallCluster(seed, scheme_);
  }

  void Prepare(Stage* stage) override {
    client::Core* const core = stage->NewClient("maker")->core();
    if (stage->violated()) return;
    stage->Must(stage->cluster()->Await(client::MakeDirectories(
                    core, "/d", 0755, core->Deadline())),
                "mkdir");
    states_ = States();
    stage->MakeFile(kFile, states_.front());
    stage->MakeFile(kOther, PatternBytes(9, 50'000));
    stage->files.erase(kFile);  // Checked here.
    writer_ = stage->NewClient("writer");
  }

  Task<void> Act(Stage* stage) override {
    result_ = co_await Change(writer_->core());
    stage->finished = result_.ok();
  }

  void Check(Stage* stage) override {
    stage->MayFailCleanly(result_, "the change");
    if (result_.ok() && acked_ + 1 != states_.size()) {
      stage->Violation("the scenario did not go through all states");
    }
    client::Core* const core = stage->NewClient("looker")->core();
    if (!stage->violated()) CheckFile(stage, core);
    if (!stage->violated()) CheckBeside(stage, core);
  }

  void Repeat(Stage* stage) override {
    client::Core* const core = stage->NewClient("again")->core();
    if (stage->violated()) return;
    stage->Must(stage->cluster()->Await(Change(core)), "the change, again");
    stage->files[kFile] = states_.back();
  }

 protected:
  // What the file is, from before the action to its end.
  virtual std::vector<std::string> States() const = 0;
  // Goes through them, with Ask() before each and Acknowledged() after.
  virtual Task<absl::Status> Change(client::Core* core) = 0;
  virtual void CheckBeside(Stage*, client::Core*) {}

  void Ask(size_t state) { asked_ = std::max(asked_, state); }
  void Acknowledged(size_t state) { acked_ = std::max(acked_, state); }
  const std::string& state(size_t number) const { return states_[number]; }
  size_t asked() const { return asked_; }
  size_t acked() const { return acked_; }

 private:
  void CheckFile(Stage* stage, client::Core* core) {
    const auto found = stage->cluster()->Await(ReadWhole(core, kFile));
    if (!stage->Must(found.status(), "reading the file")) return;
    if (!found->has_value()) return stage->Violation("the file is gone");
    for (size_t i = acked_; i <= asked_; ++i) {
      if (**found == states_[i]) return;
    }
    std::string was = absl::StrCat((*found)->size(), " bytes of no state");
    for (size_t i = 0; i < states_.size(); ++i) {
      if (**found == states_[i]) was = absl::StrCat("state ", i);
    }
    stage->Violation(absl::StrCat("the file is ", was, "; acknowledged: state ",
                                  acked_, ", asked for: ", asked_));
  }

  const std::string scheme_;
  std::vector<std::string> states_;
  SimClient* writer_ = nullptr;
  size_t asked_ = 0;
  size_t acked_ = 0;
  absl::Status result_;
};

// Publishes `state` of the scenario by an fsync.
Task<absl::Status> FinishWith(client::OpenFile* file, absl::Status status) {
  if (status.ok()) status = co_await file->Fsync();
  co_await file->Finish();
  co_return status;
}

class OverwriteScenario final : public FileScenario {
 public:
  using FileScenario::FileScenario;

 private:
  static constexpr size_t kOffset = 20'000;
  static constexpr size_t kLength = 110'000;  // Ends in the fifth chunk.

  std::vector<std::string> States() const override {
    const std::string old = PatternBytes(1, 180'000);
    std::string changed = old;
    changed.replace(kOffset, kLength, PatternBytes(2, kLength));
    changed.replace(170'000, 20'000, PatternBytes(3, 20'000));  // Grows.
    return {old, changed};
  }

  Task<absl::Status> Change(client::Core* core) override {
    client::OpenOptions options;
    options.write = true;
    CAIRN_CO_ASSIGN_OR_RETURN(
        const std::unique_ptr<client::OpenFile> file,
        co_await client::OpenOnLoop(core, kFile, options));
    const auto bytes = format::AsBytes(state(1));
    absl::Status status =
        co_await file->Pwrite(kOffset, bytes.subspan(kOffset, kLength));
    if (status.ok()) {
      status = co_await file->Pwrite(170'000, bytes.subspan(170'000));
    }
    Ask(1);
    status = co_await FinishWith(file.get(), std::move(status));
    if (status.ok()) Acknowledged(1);
    co_return status;
  }
};

class RewriteScenario final : public FileScenario {
 public:
  using FileScenario::FileScenario;

 private:
  static constexpr size_t kKept = 40'000;

  std::vector<std::string> States() const override {
    const std::string old = PatternBytes(1, 150'000);
    return {old, old.substr(0, kKept), PatternBytes(2, 120'000)};
  }

  Task<absl::Status> Change(client::Core* core) override {
    client::OpenOptions options;
    options.write = true;
    CAIRN_CO_ASSIGN_OR_RETURN(
        const std::unique_ptr<client::OpenFile> file,
        co_await client::OpenOnLoop(core, kFile, options));
    Ask(1);
    absl::Status status = co_await file->Truncate(kKept);
    if (status.ok()) Acknowledged(1);
    const auto bytes = format::AsBytes(state(2));
    for (size_t at = 0; at < bytes.size() && status.ok(); at += kKept) {
      status = co_await file->Pwrite(at, bytes.subspan(at, kKept));
    }
    Ask(2);
    status = co_await FinishWith(file.get(), std::move(status));
    if (status.ok()) Acknowledged(2);
    co_return status;
  }
};

class ReplaceScenario final : public FileScenario {
 public:
  using FileScenario::FileScenario;

 private:
  static constexpr char kFresh[] = "/d/file.new";

  std::vector<std::string> States() const override {
    return {PatternBytes(1, 90'000), PatternBytes(2, 140'000)};
  }

  Task<absl::Status> Change(client::Core* core) override {
    CAIRN_CO_RETURN_IF_ERROR(co_await WriteWhole(core, kFresh, state(1)));
    written_ = true;
    Ask(1);
    const absl::Status renamed = co_await client::RenamePath(
        core, kFresh, kFile, false, core->Deadline());
    if (renamed.ok()) Acknowledged(1);
    co_return renamed;
  }

  // The new file is whole once it was fsynced, and has one name.
  void CheckBeside(Stage* stage, client::Core* core) override {
    const auto file = stage->cluster()->Await(ReadWhole(core, kFile));
    const auto fresh = stage->cluster()->Await(ReadWhole(core, kFresh));
    if (!stage->Must(file.status(), "reading the file again") ||
        !stage->Must(fresh.status(), "reading the new file")) {
      return;
    }
    const bool is_renamed = *file == state(1);
    if (is_renamed && fresh->has_value()) {
      stage->Violation("the new file has two names");
    }
    if (written_ && !is_renamed && *fresh != state(1)) {
      stage->Violation("the new file is not what was fsynced");
    }
    if (fresh->has_value() && **fresh != state(1) && !(*fresh)->empty()) {
      stage->Violation("the new file is neither empty nor whole");
    }
  }

  bool written_ = false;  // The new file was, and fsynced.
};

}  // namespace

std::unique_ptr<Scenario> MakeOverwriteScenario(const std::string& scheme) {
  return std::make_unique<OverwriteScenario>(scheme);
}

std::unique_ptr<Scenario> MakeRewriteScenario(const std::string& scheme) {
  return std::make_unique<RewriteScenario>(scheme);
}

std::unique_ptr<Scenario> MakeReplaceScenario(const std::string& scheme) {
  return std::make_unique<ReplaceScenario>(scheme);
}

}  // namespace cairn::sim
