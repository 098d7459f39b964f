// cairn ckpt load: N rank processes, each loading its slice of every tensor,
// whatever the number of ranks that saved them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/api/checkpoint.h"
#include "client/cli/context.h"
#include "client/cli/model_file.h"
#include "client/cli/paths.h"
#include "client/cli/rank_processes.h"
#include "client/cli/text.h"
#include "format/base/status.h"
#include "format/checkpoint/slice.h"
#include "format/path/names.h"

namespace cairn::client::cli {

namespace {

struct LoadArguments {
  std::string path;
  std::string check;  // A safetensors file to compare with.
  uint32_t ranks = 1;
  uint32_t rank = 0;
};

// What one rank loads, and where.
struct RankLoad {
  std::unique_ptr<AlignedMemory> memory;
  std::vector<MutableTensorView> views;
  std::vector<std::string> without_share;  // Other ranks hold all of these.
};

absl::StatusOr<RankLoad> PlanLoad(CheckpointReader* reader,
                                  const LoadArguments& arguments) {
  RankLoad load;
  uint64_t total = 0;
  std::vector<uint64_t> sizes;
  CAIRN_RETURN_IF_ERROR(reader->ForEachTensor([&](const TensorInfo& tensor) {
    if (tensor.opaque) return true;
    const std::optional<format::Slice> slice = format::EvenSlice(
        tensor.dtype, tensor.shape, arguments.rank, arguments.ranks);
    if (!slice.has_value()) {
      load.without_share.push_back(tensor.name);
      return true;
    }
    MutableTensorView view;
    view.name = tensor.name;
    view.dtype = tensor.dtype;
    view.global_shape = tensor.shape;
    view.offset = slice->offset;
    view.shape = slice->shape;
    sizes.push_back(
        format::TensorBytes(tensor.dtype, slice->shape).value_or(0));
    total += sizes.back();
    load.views.push_back(std::move(view));
    return true;
  }));
  load.memory = std::make_unique<AlignedMemory>(total);
  uint64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    load.views[i].data = load.memory->bytes().data() + at;
    at += sizes[i];
  }
  return load;
}

// Compares the loaded slices with the same slices of a local file, and the
// names of both.
absl::Status CheckAgainst(const std::string& path, const RankLoad& load) {
  CAIRN_ASSIGN_OR_RETURN(auto model, ModelFile::Open(path));
  std::map<std::string, const format::SafetensorsEntry*> entries;
  for (const auto& entry : model->header().entries) {
    entries[entry.name] = &entry;
  }
  std::vector<uint8_t> expected;
  for (const MutableTensorView& view : load.views) {
    const auto found = entries.find(view.name);
    const std::string name = format::EscapeForDisplay(view.name);
    if (found == entries.end()) {
      return absl::DataLossError(
          absl::StrCat("tensor '", name, "' is in the set, not in ", path));
    }
    const format::SafetensorsEntry& entry = *found->second;
    entries.erase(found);
    if (entry.dtype != view.dtype || entry.shape != view.global_shape) {
      return absl::DataLossError(absl::StrCat(
          "tensor '", name, "' has another dtype or shape in ", path));
    }
    const uint64_t bytes =
        format::TensorBytes(view.dtype, view.shape).value_or(0);
    expected.resize(bytes);
    const format::Slice slice{view.offset, view.shape};
    CAIRN_RETURN_IF_ERROR(model->ReadSlice(entry, slice, expected));
    if (bytes > 0 && std::memcmp(expected.data(), view.data, bytes) != 0) {
      return absl::DataLossError(
          absl::StrCat("tensor '", name, "' differs from ", path));
    }
  }
  for (const std::string& name : load.without_share) entries.erase(name);
  if (entries.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "tensor '", format::EscapeForDisplay(entries.begin()->first), "' of ",
      path, " is not in the set (", entries.size(), " such)"));
}

absl::Status LoadOneRank(const Context& context,
                         const LoadArguments& arguments) {
  CAIRN_ASSIGN_OR_RETURN(
      auto cluster,
      context.Connect(absl::StrCat("cairn ckpt load rank ", arguments.rank)));
  CheckpointReader::Options options;
  options.path = arguments.path;
  options.progress = ReportProgress;
  CAIRN_ASSIGN_OR_RETURN(auto reader,
                         CheckpointReader::Open(cluster.get(), options));
  CAIRN_ASSIGN_OR_RETURN(const RankLoad load,
                         PlanLoad(reader.get(), arguments));
  CAIRN_RETURN_IF_ERROR(reader->Load(load.views));
  const RepairReport repairs = cluster->repairs();
  for (const std::string& example : repairs.examples) {
    std::fprintf(stderr, "cairn: rank %u read around %s\n", arguments.rank,
                 example.c_str());
  }
  if (arguments.check.empty()) return absl::OkStatus();
  return CheckAgainst(arguments.check, load);
}

absl::Status RunLoad(const Context& context, const LoadArguments& arguments) {
  CAIRN_ASSIGN_OR_RETURN(const std::string address,
                         Cluster::ResolveAddress(context.cluster));
  SetSummary set;
  {
    CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
    CheckpointReader::Options options;
    options.path = arguments.path;
    CAIRN_ASSIGN_OR_RETURN(auto reader,
                           CheckpointReader::Open(cluster.get(), options));
    set = reader->summary();
  }
  RankRun run;
  run.label = "load";
  run.ranks = arguments.ranks;
  run.arguments = {"--cluster",
                   address,
                   "--timeout",
                   absl::StrCat(context.timeout_s),
                   "ckpt",
                   "load-rank",
                   arguments.path,
                   "--ranks",
                   absl::StrCat(arguments.ranks)};
  if (!arguments.check.empty()) {
    run.arguments.push_back("--check");
    run.arguments.push_back(arguments.check);
  }
  CAIRN_ASSIGN_OR_RETURN(const RankOutcome outcome, RunRanks(run));
  const double rate = static_cast<double>(outcome.bytes) / outcome.seconds;
  if (context.json) {
    PrintJson({{"path", arguments.path},
               {"ranks", arguments.ranks},
               {"saved_by", set.world_size},
               {"bytes", outcome.bytes},
               {"seconds", outcome.seconds},
               {"checked", !arguments.check.empty()}});
    return absl::OkStatus();
  }
  std::printf("loaded %s: %s by %u ranks (saved by %u) in %.2f s (%s)%s\n",
              format::EscapeForDisplay(arguments.path).c_str(),
              HumanBytes(outcome.bytes).c_str(), arguments.ranks,
              set.world_size, outcome.seconds, HumanRate(rate).c_str(),
              arguments.check.empty() ? "" : "; every byte equals the file's");
  return absl::OkStatus();
}

void AddArguments(CLI::App* sub, LoadArguments* arguments) {
  sub->add_option("path", arguments->path, "A published set")->required();
  sub->add_option("--ranks", arguments->ranks, "Processes that load together")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  sub->add_option("--check", arguments->check,
                  "Compare every byte with this safetensors file");
}

}  // namespace

void AddLoadCommand(CLI::App* app, Context* context) {
  auto arguments = std::make_shared<LoadArguments>();
  auto* load = app->add_subcommand(
      "load", "Load a set by any number of processes, each its slice");
  AddArguments(load, arguments.get());
  load->footer(
      "Examples:\n"
      "  cairn ckpt load /ckpt/run1/step-100 --ranks 3 --check "
      "model.safetensors\n");
  load->callback([context, arguments] {
    context->run = [context, arguments] {
      arguments->path = StripPrefix(arguments->path);
      return RunLoad(*context, *arguments);
    };
  });
  auto* rank = app->add_subcommand("load-rank", "One rank of a load");
  rank->group("");  // Hidden: started by `load`.
  AddArguments(rank, arguments.get());
  rank->add_option("--rank", arguments->rank);
  rank->callback([context, arguments] {
    context->run = [context, arguments] {
      absl::Status status = LoadOneRank(*context, *arguments);
      if (!status.ok()) {
        ReportFailure(status);
        context->exit_code = ExitCodeOf(status);
      }
      return absl::OkStatus();
    };
  });
}

}  // namespace cairn::client::cli
