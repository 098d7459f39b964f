// cairn: the command-line client. `cairn --help`.
#include <csignal>
#include <cstdio>
#include <string>

#include "client/cli/context.h"

namespace cairn::client::cli {
namespace {

void AddGlobals(CLI::App* app, Context* context) {
  app->require_subcommand(1);
  app->set_version_flag("--version", "cairn 0.1.0");
  app->fallthrough();
  app->add_option("--cluster", context->cluster,
                  "HOST:PORT of the metadata service (default: CAIRN_CLUSTER)");
  app->add_option("--timeout", context->timeout_s,
                  "Seconds a call waits, retries included; 0: for ever")
      ->capture_default_str();
  app->add_flag("--json", context->json, "JSON, one object a line");
  app->footer(
      "Examples:\n"
      "  export CAIRN_CLUSTER=127.0.0.1:7400\n"
      "  cairn status\n"
      "  cairn cp model.bin cairn:/data/\n"
      "  cairn ckpt save model.safetensors /ckpt/run1/step-100 --ranks 8\n"
      "Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 damaged data, "
      "4 no answer in time.\n");
}

int Main(int argc, char** argv) {
  (void)std::signal(SIGPIPE, SIG_IGN);
  Context context;
  CLI::App app("cairn: client of the Cairn storage system");
  AddGlobals(&app, &context);
  AddStatusCommands(&app, &context);
  AddTargetCommands(&app, &context);
  AddPoolCommands(&app, &context);
  AddNameCommands(&app, &context);
  AddCopyCommands(&app, &context);
  AddVerifyCommand(&app, &context);
  AddCheckpointCommands(&app, &context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  if (!context.run) return kExitUsage;
  const absl::Status status = context.run();
  if (!status.ok()) {
    std::fprintf(stderr, "cairn: %s\n", std::string(status.message()).c_str());
    return ExitCodeOf(status);
  }
  return context.exit_code;
}

}  // namespace
}  // namespace cairn::client::cli

int main(int argc, char** argv) { return cairn::client::cli::Main(argc, argv); }
