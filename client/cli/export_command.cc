// cairn ckpt export: a set as one safetensors file that other tools read.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/api/checkpoint.h"
#include "client/cli/context.h"
#include "client/cli/local_file.h"
#include "client/cli/paths.h"
#include "client/cli/progress.h"
#include "client/cli/text.h"
#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/path/names.h"
#include "format/safetensors/safetensors.h"

namespace cairn::client::cli {

namespace {

// Memory of an export, unless one row of a tensor is longer.
constexpr uint64_t kExportBytes = 256 * format::kMiB;
constexpr char kMetadataPrefix[] = "__metadata__/";

class Exporter {
 public:
  Exporter(CheckpointReader* reader, LocalFile* file)
      : reader_(reader), file_(file), progress_("export") {}

  absl::Status Run();
  uint64_t bytes() const { return header_.data_start + header_.data_bytes; }
  size_t tensors() const { return header_.entries.size(); }
  const std::vector<std::string>& skipped() const { return skipped_; }

 private:
  absl::Status MakeHeader();
  absl::Status CopyTensor(const format::SafetensorsEntry& entry);
  absl::Status CopyRows(const format::SafetensorsEntry& entry, uint64_t first,
                        uint64_t rows, uint64_t row_bytes);

  CheckpointReader* const reader_;
  LocalFile* const file_;
  Progress progress_;
  format::SafetensorsHeader header_;
  std::vector<std::string> skipped_;  // Opaque entries.
  std::unique_ptr<AlignedMemory> memory_;
  uint64_t done_ = 0;
};

absl::Status Exporter::MakeHeader() {
  std::vector<std::string> metadata;
  CAIRN_RETURN_IF_ERROR(reader_->ForEachTensor([&](const TensorInfo& tensor) {
    if (tensor.opaque) {
      (absl::StartsWith(tensor.name, kMetadataPrefix) ? metadata : skipped_)
          .push_back(tensor.name);
      return true;
    }
    format::SafetensorsEntry entry;
    entry.name = tensor.name;
    entry.dtype = tensor.dtype;
    entry.shape = tensor.shape;
    header_.entries.push_back(std::move(entry));
    return true;
  }));
  for (const std::string& name : metadata) {
    CAIRN_ASSIGN_OR_RETURN(
        header_.metadata[name.substr(sizeof(kMetadataPrefix) - 1)],
        reader_->LoadBytes(name));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes,
                         format::WriteSafetensorsHeader(&header_, {}));
  return file_->WriteAt(0, format::AsBytes(bytes));
}

absl::Status Exporter::CopyRows(const format::SafetensorsEntry& entry,
                                uint64_t first, uint64_t rows,
                                uint64_t row_bytes) {
  const uint64_t bytes = rows * row_bytes;
  if (memory_ == nullptr || memory_->bytes().size() < bytes) {
    memory_ = std::make_unique<AlignedMemory>(std::max(bytes, kExportBytes));
  }
  MutableTensorView view;
  view.name = entry.name;
  view.dtype = entry.dtype;
  view.global_shape = entry.shape;
  view.offset.assign(entry.shape.size(), 0);
  view.shape = entry.shape;
  if (!entry.shape.empty()) {
    view.offset[0] = first;
    view.shape[0] = rows;
  }
  view.data = memory_->bytes().data();
  CAIRN_RETURN_IF_ERROR(reader_->Load({&view, 1}));
  done_ += bytes;
  progress_.Update(done_, header_.data_bytes);
  return file_->WriteAt(header_.data_start + entry.begin + first * row_bytes,
                        memory_->bytes().first(bytes));
}

absl::Status Exporter::CopyTensor(const format::SafetensorsEntry& entry) {
  const uint64_t bytes = entry.end - entry.begin;
  if (bytes == 0) return absl::OkStatus();
  const uint64_t rows = entry.shape.empty() ? 1 : entry.shape[0];
  // Rows of sub-byte types may end inside a byte: those go in one piece.
  const bool in_rows = bytes > kExportBytes && bytes % rows == 0 &&
                       format::DtypeBits(entry.dtype) % 8 == 0;
  if (!in_rows) return CopyRows(entry, 0, rows, bytes / rows);
  const uint64_t row_bytes = bytes / rows;
  const uint64_t step = std::max<uint64_t>(1, kExportBytes / row_bytes);
  for (uint64_t first = 0; first < rows; first += step) {
    CAIRN_RETURN_IF_ERROR(
        CopyRows(entry, first, std::min(step, rows - first), row_bytes));
  }
  return absl::OkStatus();
}

absl::Status Exporter::Run() {
  CAIRN_RETURN_IF_ERROR(MakeHeader());
  for (const format::SafetensorsEntry& entry : header_.entries) {
    CAIRN_RETURN_IF_ERROR(CopyTensor(entry));
  }
  return file_->Commit();
}

absl::Status RunExport(const Context& context, const std::string& path,
                       const std::string& output) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  CheckpointReader::Options options;
  options.path = path;
  CAIRN_ASSIGN_OR_RETURN(auto reader,
                         CheckpointReader::Open(cluster.get(), options));
  CAIRN_ASSIGN_OR_RETURN(auto file, LocalFile::CreateBeside(output));
  Exporter exporter(reader.get(), file.get());
  CAIRN_RETURN_IF_ERROR(exporter.Run());
  for (const std::string& name : exporter.skipped()) {
    std::fprintf(stderr, "cairn: '%s' is no tensor and was left out\n",
                 format::EscapeForDisplay(name).c_str());
  }
  if (context.json) {
    PrintJson({{"path", path},
               {"output", output},
               {"tensors", exporter.tensors()},
               {"bytes", exporter.bytes()}});
    return absl::OkStatus();
  }
  std::printf("exported %s to %s: %zu tensors, %s\n",
              format::EscapeForDisplay(path).c_str(), output.c_str(),
              exporter.tensors(), HumanBytes(exporter.bytes()).c_str());
  return absl::OkStatus();
}

struct ExportArguments {
  std::string path;
  std::string output;
};

}  // namespace

void AddExportCommand(CLI::App* app, Context* context) {
  auto arguments = std::make_shared<ExportArguments>();
  auto* command = app->add_subcommand(
      "export", "Write a set as one safetensors file for other tools");
  command->add_option("path", arguments->path, "A published set")->required();
  command->add_option("output", arguments->output, "A local file")->required();
  command->footer(
      "Examples:\n"
      "  cairn ckpt export /ckpt/run1/step-100 out.safetensors\n");
  command->callback([context, arguments] {
    context->run = [context, arguments] {
      return RunExport(*context, StripPrefix(arguments->path),
                       arguments->output);
    };
  });
}

}  // namespace cairn::client::cli
