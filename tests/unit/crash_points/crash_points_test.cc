// Servers crash after every I/O operation of an action, in every way, and what
// was acknowledged is there, what was not is whole or absent, nothing leaks.
// docs/testing.md#crash-enumeration.
#include <string>
#include <vector>

#include "client/file/open.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/crash_points/enumerate.h"
#include "tests/sim/crash_points/scenarios.h"

namespace cairn::sim {
namespace {

using ::testing::HasSubstr;

void ExpectNoViolation(const EnumerateOptions& options) {
  const EnumerationReport report = Enumerate(options);
  for (const std::string& violation : report.violations) {
    ADD_FAILURE() << violation;
  }
  ::testing::Test::RecordProperty("report", ToString(report));
}

EnumerateOptions Options(const std::string& name,
                         std::function<std::unique_ptr<Scenario>()> make) {
  EnumerateOptions options;
  options.scenario = name;
  options.make = std::move(make);
  options.sample = {80};
  return options;
}

TEST(CrashPoints, SavedSetOfTwoCopiesIsThereOrAbsent) {
  ExpectNoViolation(Options("save, replicate:2",
                            [] { return MakeSaveScenario("replicate:2"); }));
}

TEST(CrashPoints, SavedSetWithParityIsThereOrAbsent) {
  ExpectNoViolation(
      Options("save, rs:2+1", [] { return MakeSaveScenario("rs:2+1"); }));
}

TEST(CrashPoints, FirstSetOfANewClusterIsThereOrAbsent) {
  ExpectNoViolation(Options(
      "first save", [] { return MakeFirstSaveScenario("replicate:2"); }));
}

TEST(CrashPoints, OverwrittenFileIsOldOrNew) {
  ExpectNoViolation(
      Options("overwrite", [] { return MakeOverwriteScenario("rs:2+1"); }));
}

TEST(CrashPoints, RewrittenFileIsOldTruncatedOrNew) {
  ExpectNoViolation(Options("truncate and rewrite",
                            [] { return MakeRewriteScenario("replicate:2"); }));
}

TEST(CrashPoints, ReplacedFileIsOldOrNewAndNeverGone) {
  ExpectNoViolation(
      Options("replace", [] { return MakeReplaceScenario("replicate:2"); }));
}

TEST(CrashPoints, DeletedDataIsGoneAndItsSpaceIsUsedAgain) {
  ExpectNoViolation(
      Options("delete", [] { return MakeDeleteScenario("rs:2+1"); }));
}

EnumerateOptions Starts(const std::string& name,
                        std::function<std::unique_ptr<Scenario>()> make) {
  EnumerateOptions options = Options(name, std::move(make));
  options.sample = {12, 3, 1};
  options.full = {kEveryCase, kEveryCase};
  return options;
}

TEST(CrashPoints, TargetStartsOverATornLogHoweverOftenItDies) {
  ExpectNoViolation(Starts("target start, torn log", [] {
    return MakeTargetStartScenario(LogEnd::kTorn);
  }));
}

TEST(CrashPoints, TargetStartsOverAnUnflushedFrameHoweverOftenItDies) {
  ExpectNoViolation(Starts("target start, unflushed log", [] {
    return MakeTargetStartScenario(LogEnd::kUnflushed);
  }));
}

TEST(CrashPoints, TargetStartsAndRewritesItsLogHoweverOftenItDies) {
  EnumerateOptions options = Starts("target start, long log", [] {
    return MakeTargetStartScenario(LogEnd::kLong);
  });
  options.full = {kEveryCase, 12, 1};
  ExpectNoViolation(options);
}

TEST(CrashPoints, MetadataServiceStartsHoweverOftenItDies) {
  EnumerateOptions options = Starts("metadata start", MakeMetaStartScenario);
  options.full = {kEveryCase, 4, 1};
  ExpectNoViolation(options);
}

// --- The enumeration objects.

void LieOnEveryTarget(SimCluster* cluster) {
  DiskFaultRates rates;
  rates.lying_sync = 1;
  for (uint32_t t = 1; t <= cluster->options().targets; ++t) {
    cluster->world()->disk(cluster->TargetNode(t))->set_fault_rates(rates);
  }
}

TEST(CrashPoints, FlushesThatLieAreReportedAsALoss) {
  EnumerateOptions options = Options(
      "save on disks that lie", [] { return MakeSaveScenario("replicate:1"); });
  options.spoil = LieOnEveryTarget;
  options.violations_max = 1;
  const EnumerationReport report = Enumerate(options);
  ASSERT_EQ(report.violations.size(), 1u);
  EXPECT_THAT(report.violations.front(), HasSubstr("CAIRN_CRASH_PLAN="));
}

// Says that a file is published which nobody fsynced.
class BoastScenario final : public Scenario {
 public:
  ClusterOptions Cluster(uint64_t seed) const override {
    return SmallCluster(seed, "replicate:2");
  }
  void Prepare(Stage* stage) override { writer_ = stage->NewClient("writer"); }
  io::Task<void> Act(Stage* stage) override {
    client::OpenOptions options;
    options.write = true;
    options.create = true;
    const auto file =
        co_await client::OpenOnLoop(writer_->core(), "/f", options);
    const std::vector<uint8_t> bytes(1000, 7);
    if (file.ok()) {
      const absl::Status written = co_await (*file)->Pwrite(0, bytes);
      stage->finished = written.ok();
      co_await (*file)->Finish();
    }
    stage->files["/f"] = std::string(1000, 7);
  }
  void Check(Stage*) override {}
  void Repeat(Stage*) override {}

 private:
  SimClient* writer_ = nullptr;
};

TEST(CrashPoints, SuccessClaimedForWhatIsNotThereIsReported) {
  EnumerateOptions options =
      Options("boast", [] { return std::make_unique<BoastScenario>(); });
  options.violations_max = 1;
  const EnumerationReport report = Enumerate(options);
  ASSERT_EQ(report.violations.size(), 1u);
  EXPECT_THAT(report.violations.front(), HasSubstr("/f has other bytes"));
}

}  // namespace
}  // namespace cairn::sim
