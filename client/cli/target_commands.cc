// cairn target ls, add, drain, remove, forget.
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/context.h"
#include "client/cli/text.h"
#include "client/core/admin.h"
#include "client/core/cluster_core.h"
#include "format/base/status.h"
#include "format/cluster/cluster_map.h"

namespace cairn::client::cli {

using format::TargetChange;
using nlohmann::json;

namespace {

// Not in the map: "formatted" until its process was let in, then "joined".
std::string StateText(const wire::Member& member) {
  if (member.state() == 0) {
    return member.admission() == 0 ? "formatted" : "joined";
  }
  return std::string(
      ToString(static_cast<format::TargetState>(member.state())));
}

json ToJson(const wire::Member& member) {
  return {{"id", member.id()},
          {"state", StateText(member)},
          {"in_service", member.state() != 0},
          {"rows", member.rows()},
          {"address", member.address()},
          {"host", member.host()},
          {"rack", member.rack()},
          {"directory", member.directory()},
          {"capacity_bytes", member.capacity_bytes()},
          {"disk_generation", member.disk_generation()},
          {"admission", member.admission()}};
}

json ToJson(const wire::Quarantine& record) {
  return {{"target", record.target()},
          {"cause", std::string(format::ToString(
                        static_cast<format::QuarantineCause>(record.cause())))},
          {"reason", record.reason()},
          {"host", record.host()},
          {"directory", record.directory()},
          {"address", record.address()}};
}

void PrintTargets(const wire::ListTargetsResponse& list) {
  std::vector<std::vector<std::string>> rows = {{">TARGET", "STATE", ">ROWS",
                                                 ">CAPACITY", "HOST", "RACK",
                                                 "ADDRESS", "DIRECTORY"}};
  for (const wire::Member& member : list.targets()) {
    rows.push_back({absl::StrCat(member.id()), StateText(member),
                    absl::StrCat(member.rows()),
                    HumanBytes(member.capacity_bytes()), member.host(),
                    member.rack(), member.address(), member.directory()});
  }
  PrintTable(rows);
  for (const wire::Quarantine& record : list.quarantined()) {
    std::printf("QUARANTINED  %s\n", record.reason().c_str());
  }
}

absl::Status ShowTargets(const Context& context) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  const auto list =
      cluster->core()->Run<absl::StatusOr<wire::ListTargetsResponse>>(
          [](Core* core) { return ListTargets(core, core->Deadline()); });
  if (!list.ok()) return list.status();
  if (!context.json) {
    PrintTargets(*list);
    return absl::OkStatus();
  }
  json root = {{"epoch", list->epoch()},
               {"targets", json::array()},
               {"quarantined", json::array()}};
  for (const wire::Member& member : list->targets()) {
    root["targets"].push_back(ToJson(member));
  }
  for (const wire::Quarantine& record : list->quarantined()) {
    root["quarantined"].push_back(ToJson(record));
  }
  PrintJson(root);
  return absl::OkStatus();
}

std::string DoneText(TargetChange change, bool changed,
                     const wire::Member& member) {
  const std::string target = absl::StrCat("target ", member.id());
  const char* const already = changed ? "" : " already";
  switch (change) {
    case TargetChange::kAdd:
      return absl::StrCat(target, " is", already, " in service");
    case TargetChange::kDrain:
      return absl::StrCat(target, " is", already, " draining: ", member.rows(),
                          " rows are still on it");
    case TargetChange::kUndrain:
      return absl::StrCat(target, " is", already, " not draining");
    case TargetChange::kRemove:
      return absl::StrCat(target, " is", already, " removed");
    case TargetChange::kForget:
      return absl::StrCat(
          changed ? "forgot the quarantine of " : "no quarantine is known of ",
          target);
  }
  return target;
}

absl::Status ChangeTargets(const Context& context,
                           const std::vector<uint32_t>& targets,
                           TargetChange change) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  for (const uint32_t target : targets) {
    const auto done =
        cluster->core()->Run<absl::StatusOr<wire::ChangeTargetResponse>>(
            [target, change](Core* core) {
              return ChangeTarget(core, target, change, core->Deadline());
            });
    if (!done.ok()) return done.status();
    if (context.json) {
      json root = ToJson(done->target());
      root["changed"] = done->changed();
      root["epoch"] = done->epoch();
      PrintJson(root);
      continue;
    }
    std::printf("%s\n",
                DoneText(change, done->changed(), done->target()).c_str());
  }
  return absl::OkStatus();
}

// What the options of one command are parsed into.
struct ChangeArguments {
  std::vector<uint32_t> targets;
  bool undo = false;
};

CLI::App* AddChange(CLI::App* target, Context* context, const char* name,
                    const char* text, TargetChange change) {
  auto* const command = target->add_subcommand(name, text);
  const auto arguments = std::make_shared<ChangeArguments>();
  command->add_option("ID", arguments->targets, "Target ids")->required();
  if (change == TargetChange::kDrain) {
    command->add_flag("--undo", arguments->undo,
                      "Take new data again, and keep what there is");
  }
  command->callback([context, arguments, change] {
    context->run = [context, arguments, change] {
      return ChangeTargets(*context, arguments->targets,
                           arguments->undo ? TargetChange::kUndrain : change);
    };
  });
  return command;
}

}  // namespace

void AddTargetCommands(CLI::App* app, Context* context) {
  auto* const target =
      app->add_subcommand("target", "Targets (disks) of the cluster");
  target->require_subcommand(1);
  auto* const list = target->add_subcommand(
      "ls", "All targets, also those not in service, and the quarantine");
  list->callback([context] {
    context->run = [context] { return ShowTargets(*context); };
  });
  AddChange(target, context, "add",
            "Put targets that have joined into service: pools may use them",
            TargetChange::kAdd)
      ->footer("Examples:\n  cairn target add 7 8\n");
  AddChange(target, context, "drain",
            "Give targets no new data; what they have is to go elsewhere",
            TargetChange::kDrain)
      ->footer(
          "Examples:\n  cairn target drain 7\n  cairn target drain 7 --undo\n");
  AddChange(target, context, "remove",
            "Take targets that are empty out of the cluster, for good",
            TargetChange::kRemove)
      ->footer("Examples:\n  cairn target remove 7\n");
  AddChange(target, context, "forget",
            "Forget the quarantine of disks that were put away",
            TargetChange::kForget)
      ->footer("Examples:\n  cairn target forget 7\n");
  target->footer(
      "Examples:\n"
      "  cairnd format --meta 10.0.0.1:7400 /disk1/cairn   # on its server\n"
      "  cairnd target --meta 10.0.0.1:7400 /disk1/cairn   # likewise\n"
      "  cairn target ls\n"
      "  cairn target add 7\n");
}

}  // namespace cairn::client::cli
