// cairn verify.
#include <cstdio>
#include <memory>

#include "client/api/checkpoint.h"
#include "client/cli/context.h"
#include "client/cli/paths.h"
#include "client/cli/progress.h"
#include "client/cli/text.h"
#include "format/base/status.h"
#include "format/path/names.h"

namespace cairn::client::cli {

namespace {

absl::Status RunVerify(Context* context, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context->Connect());
  absl::StatusOr<VerifyReport> report = absl::UnknownError("");
  double seconds = 0;
  {
    Progress progress("verify");
    report = Verify(cluster.get(), path,
                    [&](uint64_t bytes) { progress.Update(bytes, 0); });
    seconds = progress.seconds();
  }
  if (!report.ok()) return report.status();
  if (report->bad_chunks > 0) context->exit_code = kExitDamaged;
  if (context->json) {
    PrintJson({{"files", report->files},
               {"sets", report->sets},
               {"bytes", report->bytes},
               {"chunks", report->chunks},
               {"bad_chunks", report->bad_chunks},
               {"problems", report->problems},
               {"lost", report->lost}});
    return absl::OkStatus();
  }
  for (const std::string& problem : report->problems) {
    std::printf("BAD   %s\n", problem.c_str());
  }
  for (const std::string& lost : report->lost) {
    std::printf("LOST  %s: more shards are bad than the scheme rebuilds\n",
                lost.c_str());
  }
  std::printf(
      "%s: %llu sets, %llu files, %llu chunks, %s read in %.1f s: "
      "%llu bad chunks\n",
      format::EscapeForDisplay(path).c_str(),
      static_cast<unsigned long long>(report->sets),
      static_cast<unsigned long long>(report->files),
      static_cast<unsigned long long>(report->chunks),
      HumanBytes(report->bytes).c_str(), seconds,
      static_cast<unsigned long long>(report->bad_chunks));
  return absl::OkStatus();
}

}  // namespace

void AddVerifyCommand(CLI::App* app, Context* context) {
  auto path = std::make_shared<std::string>("/");
  auto* verify = app->add_subcommand(
      "verify",
      "Read every shard below a path and check every checksum; exit code 3 "
      "if anything is bad");
  verify->add_option("path", *path)->capture_default_str();
  verify->footer("Examples:\n  cairn verify /ckpt/run1\n");
  verify->callback([context, path] {
    context->run = [context, path] {
      return RunVerify(context, StripPrefix(*path));
    };
  });
}

}  // namespace cairn::client::cli
