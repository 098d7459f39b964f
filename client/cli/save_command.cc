// cairn ckpt save: N rank processes, each saving its slice of every tensor of
// a safetensors file.
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

struct SaveArguments {
  std::string model;
  std::string path;
  std::string set_id;
  uint32_t ranks = 1;
  uint32_t rank = 0;
  uint64_t attempt = 0;  // 0: the next one.
};

// --- A rank.

uint64_t SliceBytes(const format::SafetensorsEntry& entry,
                    const format::Slice& slice) {
  return format::TensorBytes(entry.dtype, slice.shape).value_or(0);
}

// The rank's slices in one piece of memory, as a trainer would have them.
struct RankTensors {
  std::unique_ptr<AlignedMemory> memory;
  std::vector<TensorView> views;
};

absl::StatusOr<RankTensors> ReadTensors(ModelFile* model,
                                        const SaveArguments& arguments) {
  RankTensors tensors;
  std::vector<format::Slice> slices;
  uint64_t total = 0;
  for (const auto& entry : model->header().entries) {
    slices.push_back(format::EvenSlice(entry.dtype, entry.shape, arguments.rank,
                                       arguments.ranks));
    total += SliceBytes(entry, slices.back());
  }
  tensors.memory = std::make_unique<AlignedMemory>(total);
  uint64_t at = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    const auto& entry = model->header().entries[i];
    const uint64_t bytes = SliceBytes(entry, slices[i]);
    const std::span<uint8_t> place = tensors.memory->bytes().subspan(at, bytes);
    at += bytes;
    CAIRN_RETURN_IF_ERROR(model->ReadSlice(entry, slices[i], place));
    // A rank without a share of a tensor stays silent about it, unless nobody
    // has one: empty and scalar tensors belong to rank 0.
    if (bytes == 0 && arguments.rank != 0) continue;
    TensorView view;
    view.name = entry.name;
    view.dtype = entry.dtype;
    view.global_shape = entry.shape;
    view.offset = slices[i].offset;
    view.shape = slices[i].shape;
    view.data = place.data();
    tensors.views.push_back(std::move(view));
  }
  return tensors;
}

absl::Status SaveOneRank(const Context& context,
                         const SaveArguments& arguments) {
  CAIRN_ASSIGN_OR_RETURN(auto model, ModelFile::Open(arguments.model));
  CAIRN_ASSIGN_OR_RETURN(const RankTensors tensors,
                         ReadTensors(model.get(), arguments));
  CAIRN_ASSIGN_OR_RETURN(
      auto cluster,
      context.Connect(absl::StrCat("cairn ckpt save rank ", arguments.rank)));
  CheckpointWriter::Options options;
  options.path = arguments.path;
  options.set_id = arguments.set_id;
  options.attempt = arguments.attempt;
  options.world_size = arguments.ranks;
  options.rank = arguments.rank;
  options.progress = ReportProgress;
  CAIRN_ASSIGN_OR_RETURN(auto writer,
                         CheckpointWriter::Open(cluster.get(), options));
  for (const TensorView& view : tensors.views) {
    // Empty shares of non-empty tensors would be gaps of nothing.
    const bool empty_share =
        format::TensorBytes(view.dtype, view.shape).value_or(0) == 0 &&
        format::TensorBytes(view.dtype, view.global_shape).value_or(0) != 0;
    if (empty_share) continue;
    CAIRN_RETURN_IF_ERROR(writer->AddTensor(view));
  }
  if (arguments.rank == 0) {
    for (const auto& [key, value] : model->header().metadata) {
      CAIRN_RETURN_IF_ERROR(
          writer->AddBytes(absl::StrCat("__metadata__/", key), value));
    }
  }
  return writer->Commit();
}

// --- The command.

absl::StatusOr<uint64_t> NextAttempt(Cluster* cluster,
                                     const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
  absl::StatusOr<std::vector<SetSummary>> sets =
      ListSets(cluster, parent, true);
  if (absl::IsNotFound(sets.status())) return 1;
  if (!sets.ok()) return sets.status();
  uint64_t attempt = 1;
  for (const SetSummary& set : *sets) {
    if (set.path == path && !set.published) {
      attempt = std::max(attempt, set.attempt + 1);
    }
  }
  return attempt;
}

absl::Status RunSave(const Context& context, SaveArguments arguments) {
  CAIRN_ASSIGN_OR_RETURN(const auto parts, format::SplitPath(arguments.path));
  if (parts.empty()) {
    return absl::InvalidArgumentError("a set needs a path below /");
  }
  if (arguments.set_id.empty()) arguments.set_id = parts.back();
  // Before any process starts: a broken file is one message, not N.
  CAIRN_ASSIGN_OR_RETURN(auto model, ModelFile::Open(arguments.model));
  CAIRN_ASSIGN_OR_RETURN(const std::string address,
                         Cluster::ResolveAddress(context.cluster));
  {
    CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
    CAIRN_ASSIGN_OR_RETURN(const std::optional<Stat> there,
                           cluster->Find(arguments.path));
    if (there.has_value()) {
      return absl::AlreadyExistsError(absl::StrCat(
          format::EscapeForDisplay(arguments.path),
          ": exists already; published sets are never overwritten: save under "
          "another name, or remove it first with: cairn ckpt rm"));
    }
    if (arguments.attempt == 0) {
      CAIRN_ASSIGN_OR_RETURN(arguments.attempt,
                             NextAttempt(cluster.get(), arguments.path));
    }
  }
  RankRun run;
  run.label = "save";
  run.ranks = arguments.ranks;
  run.arguments = {"--cluster",     address,
                   "--timeout",     absl::StrCat(context.timeout_s),
                   "ckpt",          "save-rank",
                   arguments.model, arguments.path,
                   "--set-id",      arguments.set_id,
                   "--ranks",       absl::StrCat(arguments.ranks),
                   "--attempt",     absl::StrCat(arguments.attempt)};
  CAIRN_ASSIGN_OR_RETURN(const RankOutcome outcome, RunRanks(run));
  const double rate = static_cast<double>(outcome.bytes) / outcome.seconds;
  if (context.json) {
    PrintJson({{"path", arguments.path},
               {"ranks", arguments.ranks},
               {"attempt", arguments.attempt},
               {"tensors", model->header().entries.size()},
               {"bytes", outcome.bytes},
               {"seconds", outcome.seconds}});
    return absl::OkStatus();
  }
  std::printf("published %s: %zu tensors, %s by %u ranks in %.2f s (%s)\n",
              format::EscapeForDisplay(arguments.path).c_str(),
              model->header().entries.size(), HumanBytes(outcome.bytes).c_str(),
              arguments.ranks, outcome.seconds, HumanRate(rate).c_str());
  return absl::OkStatus();
}

void AddArguments(CLI::App* sub, SaveArguments* arguments) {
  sub->add_option("model", arguments->model, "A safetensors file")->required();
  sub->add_option("path", arguments->path, "Where the set will be")->required();
  sub->add_option("--ranks", arguments->ranks, "Processes that save together")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  sub->add_option("--set-id", arguments->set_id,
                  "Name of the save (default: the path's last component)");
  sub->add_option("--attempt", arguments->attempt,
                  "A greater one takes over from an unfinished smaller one "
                  "(default: the next)");
}

}  // namespace

void AddSaveCommand(CLI::App* app, Context* context) {
  auto arguments = std::make_shared<SaveArguments>();
  auto* save = app->add_subcommand(
      "save", "Save a safetensors file as a checkpoint set, by N processes");
  AddArguments(save, arguments.get());
  save->footer(
      "Examples:\n"
      "  cairn ckpt save model.safetensors /ckpt/run1/step-100 --ranks 8\n");
  save->callback([context, arguments] {
    context->run = [context, arguments] {
      arguments->path = StripPrefix(arguments->path);
      return RunSave(*context, *arguments);
    };
  });
  auto* rank = app->add_subcommand("save-rank", "One rank of a save");
  rank->group("");  // Hidden: started by `save`.
  AddArguments(rank, arguments.get());
  rank->add_option("--rank", arguments->rank);
  rank->callback([context, arguments] {
    context->run = [context, arguments] {
      absl::Status status = SaveOneRank(*context, *arguments);
      if (!status.ok()) {
        ReportFailure(status);
        context->exit_code = ExitCodeOf(status);
      }
      return absl::OkStatus();
    };
  });
}

}  // namespace cairn::client::cli
