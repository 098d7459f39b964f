// Writes a safetensors file with the shapes of a Llama-3 training checkpoint,
// scaled to a size, with seeded contents:
//
//   make_llama_safetensors --model 8b --bytes 64M --seed 1 out.safetensors
//
// Memory is bounded whatever the size: the header and one buffer.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/workload/llama_shapes.h"
#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/safetensors/safetensors.h"

namespace cairn {
namespace {

constexpr size_t kBufferBytes = format::kMiB;

absl::Status WriteTensor(const format::SafetensorsEntry& entry, uint64_t seed,
                         std::vector<uint8_t>* buffer, std::ofstream* file) {
  const uint64_t bytes = entry.end - entry.begin;
  for (uint64_t done = 0; done < bytes;) {
    const auto count =
        static_cast<size_t>(std::min<uint64_t>(buffer->size(), bytes - done));
    workload::FillContents(seed, entry.name, done,
                           format::MutableBytes(*buffer).first(count));
    file->write(reinterpret_cast<const char*>(buffer->data()),
                static_cast<std::streamsize>(count));
    done += count;
  }
  if (!file->good()) return absl::ResourceExhaustedError("write failed");
  return absl::OkStatus();
}

absl::Status WriteFile(const workload::LlamaOptions& options, uint64_t seed,
                       const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<workload::WorkloadTensor> tensors,
                         LlamaTensors(options));
  format::SafetensorsHeader header;
  header.metadata["format"] = "pt";
  for (const workload::WorkloadTensor& tensor : tensors) {
    header.entries.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes,
                         WriteSafetensorsHeader(&header, {}));
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::vector<uint8_t> buffer(kBufferBytes);
  for (const format::SafetensorsEntry& entry : header.entries) {
    CAIRN_RETURN_IF_ERROR(WriteTensor(entry, seed, &buffer, &file));
  }
  file.close();
  if (!file.good()) return absl::ResourceExhaustedError("write failed");
  std::printf(
      "%s: %zu tensors, %llu bytes\n", path.c_str(), header.entries.size(),
      static_cast<unsigned long long>(header.data_start + header.data_bytes));
  return absl::OkStatus();
}

}  // namespace

int Main(int argc, char** argv) {
  CLI::App app("Writes a safetensors file shaped like a Llama-3 checkpoint.");
  std::string model = "8b";
  workload::LlamaOptions options;
  uint64_t seed = 1;
  std::string path;
  bool weights_only = false;
  app.add_option("--model", model, "8b, 70b or 405b")
      ->check(CLI::IsMember({"8b", "70b", "405b"}));
  app.add_option("--bytes", options.bytes,
                 "About so many bytes, as 64M; 0: the real size")
      ->transform(CLI::AsSizeValue(false))
      ->required();
  app.add_option("--seed", seed, "Of the contents");
  app.add_flag("--weights-only", weights_only, "No optimizer state");
  app.add_option("out", path, "The file to write")->required();
  CLI11_PARSE(app, argc, argv);
  options.model = *workload::ParseLlamaModel(model);
  options.optimizer = !weights_only;
  const absl::Status written = WriteFile(options, seed, path);
  if (written.ok()) return 0;
  std::fprintf(stderr, "make_llama_safetensors: %s: %s\n", path.c_str(),
               std::string(written.message()).c_str());
  std::remove(path.c_str());
  return 1;
}

}  // namespace cairn

int main(int argc, char** argv) { return cairn::Main(argc, argv); }
