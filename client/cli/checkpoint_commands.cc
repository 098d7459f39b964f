// cairn ckpt ls, show, rm; and the rest of `ckpt` from its own files.
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/api/checkpoint.h"
#include "client/cli/context.h"
#include "client/cli/paths.h"
#include "client/cli/text.h"
#include "format/base/status.h"
#include "format/path/names.h"

namespace cairn::client::cli {

using nlohmann::json;

namespace {

json ToJson(const SetSummary& set) {
  return {{"path", set.path},
          {"set_id", set.set_id},
          {"attempt", set.attempt},
          {"world_size", set.world_size},
          {"published", set.published},
          {"committed_ranks", set.committed_ranks},
          {"bytes", set.bytes},
          {"tensors", set.tensors},
          {"missing_ranks", set.missing_ranks},
          {"published_ns", set.published_ns}};
}

json ToJson(const TensorInfo& tensor) {
  json parts = json::array();
  for (const TensorPartInfo& part : tensor.parts) {
    parts.push_back({{"rank", part.rank},
                     {"offset", part.offset},
                     {"shape", part.shape},
                     {"bytes", part.bytes},
                     {"xxh3", absl::StrFormat("%016x", part.xxh3)}});
  }
  return {{"name", tensor.name},
          {"kind", tensor.opaque ? "bytes" : "tensor"},
          {"dtype", std::string(format::DtypeName(tensor.dtype))},
          {"shape", tensor.shape},
          {"bytes", tensor.bytes},
          {"parts", parts}};
}

std::string StateText(const SetSummary& set) {
  if (set.published) return "published";
  return absl::StrCat("open, ", set.committed_ranks, " of ", set.world_size,
                      " ranks");
}

absl::Status ListCommand(const Context& context, const std::string& path,
                         bool all) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  CAIRN_ASSIGN_OR_RETURN(const std::vector<SetSummary> sets,
                         ListSets(cluster.get(), path, all));
  std::vector<std::vector<std::string>> rows = {
      {"SET", "STATE", ">RANKS", ">TENSORS", ">SIZE", "PUBLISHED"}};
  for (const SetSummary& set : sets) {
    if (context.json) {
      PrintJson(ToJson(set));
      continue;
    }
    rows.push_back({format::EscapeForDisplay(set.path), StateText(set),
                    absl::StrCat(set.world_size), absl::StrCat(set.tensors),
                    HumanBytes(set.bytes),
                    set.published ? HumanTime(set.published_ns) : "-"});
  }
  if (!context.json) PrintTable(rows);
  return absl::OkStatus();
}

void PrintTensor(const TensorInfo& tensor, bool parts) {
  const std::string kind =
      tensor.opaque ? "bytes" : std::string(format::DtypeName(tensor.dtype));
  // One part: its checksum is the tensor's.
  const std::string sum = tensor.parts.size() == 1
                              ? absl::StrFormat("%016x", tensor.parts[0].xxh3)
                              : absl::StrCat(tensor.parts.size(), " parts");
  std::printf("%-12s %-24s %14llu  %-16s  %s\n", kind.c_str(),
              ShapeText(tensor.shape).c_str(),
              static_cast<unsigned long long>(tensor.bytes), sum.c_str(),
              format::EscapeForDisplay(tensor.name).c_str());
  if (!parts) return;
  for (const TensorPartInfo& part : tensor.parts) {
    std::printf("    rank %-6u at %-20s %-20s %14llu  %016llx\n", part.rank,
                ShapeText(part.offset).c_str(), ShapeText(part.shape).c_str(),
                static_cast<unsigned long long>(part.bytes),
                static_cast<unsigned long long>(part.xxh3));
  }
}

absl::Status ShowCommand(const Context& context, const std::string& path,
                         bool parts) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  CheckpointReader::Options options;
  options.path = path;
  CAIRN_ASSIGN_OR_RETURN(auto reader,
                         CheckpointReader::Open(cluster.get(), options));
  const SetSummary& set = reader->summary();
  if (context.json) {
    PrintJson(ToJson(set));
  } else {
    std::printf(
        "%s: set %s, attempt %llu, %u ranks, %llu entries, %s, "
        "published %s\n",
        format::EscapeForDisplay(set.path).c_str(),
        format::EscapeForDisplay(set.set_id).c_str(),
        static_cast<unsigned long long>(set.attempt), set.world_size,
        static_cast<unsigned long long>(set.tensors),
        HumanBytes(set.bytes).c_str(), HumanTime(set.published_ns).c_str());
    std::printf("%-12s %-24s %14s  %-16s  %s\n", "DTYPE", "SHAPE", "BYTES",
                "XXH3-64", "NAME");
  }
  return reader->ForEachTensor([&](const TensorInfo& tensor) {
    if (context.json) {
      PrintJson(ToJson(tensor));
    } else {
      PrintTensor(tensor, parts);
    }
    return true;
  });
}

struct ListArguments {
  std::string path = "/";
  bool all = false;
  bool parts = false;
};

}  // namespace

void AddCheckpointCommands(CLI::App* app, Context* context) {
  auto* ckpt = app->add_subcommand("ckpt", "Checkpoint sets");
  ckpt->require_subcommand(1);
  auto arguments = std::make_shared<ListArguments>();
  auto* ls = ckpt->add_subcommand("ls", "List sets in and below a directory");
  ls->add_option("path", arguments->path)->capture_default_str();
  ls->add_flag("-a,--all", arguments->all, "Unpublished attempts too");
  ls->footer("Examples:\n  cairn ckpt ls /ckpt/run1\n");
  ls->callback([context, arguments] {
    context->run = [context, arguments] {
      return ListCommand(*context, StripPrefix(arguments->path),
                         arguments->all);
    };
  });
  auto* show = ckpt->add_subcommand(
      "show", "Tensors of a set: dtype, shape, size, checksum");
  show->add_option("path", arguments->path)->required();
  show->add_flag("-p,--parts", arguments->parts, "What each rank wrote");
  show->footer("Examples:\n  cairn ckpt show /ckpt/run1/step-100\n");
  show->callback([context, arguments] {
    context->run = [context, arguments] {
      return ShowCommand(*context, StripPrefix(arguments->path),
                         arguments->parts);
    };
  });
  auto* rm = ckpt->add_subcommand(
      "rm", "Remove a set, published or not, in one transaction");
  rm->add_option("path", arguments->path)->required();
  rm->callback([context, arguments] {
    context->run = [context, arguments]() -> absl::Status {
      CAIRN_ASSIGN_OR_RETURN(auto cluster, context->Connect());
      return RemoveSet(cluster.get(), StripPrefix(arguments->path));
    };
  });
  AddSaveCommand(ckpt, context);
  AddLoadCommand(ckpt, context);
  AddExportCommand(ckpt, context);
}

}  // namespace cairn::client::cli
