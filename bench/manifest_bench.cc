// How long a manifest takes to merge, and a tensor to be found in it.
//   build/release/bench/manifest_bench
// A set is `ranks` parts of 300 tensors, each cut evenly along its first
// dimension, and the last tenth replicated on every eighth rank.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "format/base/status.h"
#include "format/checkpoint/manifest.h"

namespace cairn::format {
namespace {

constexpr uint32_t kTensors = 300;
constexpr uint32_t kReplicatedFrom = 270;
constexpr uint64_t kRowsPerRank = 4;
constexpr uint64_t kColumns = 1024;

std::string TensorName(uint32_t tensor) {
  return absl::StrCat("model.layers.", tensor / 9, ".self_attn.proj_",
                      tensor % 9, ".weight");
}

TensorEntry EntryOf(uint32_t tensor, uint32_t rank, uint32_t ranks) {
  TensorEntry entry;
  entry.name = TensorName(tensor);
  entry.dtype = Dtype::kBf16;
  entry.shape = {kRowsPerRank * ranks, kColumns};
  TensorPart part;
  part.rank = rank;
  part.xxh3 = 0x9e3779b97f4a7c15 * (tensor + 1);
  const bool replicated = tensor >= kReplicatedFrom;
  if (replicated) {
    part.offset = {0, 0};
    part.shape = entry.shape;
  } else {
    part.offset = {kRowsPerRank * rank, 0};
    part.shape = {kRowsPerRank, kColumns};
  }
  part.length = TensorBytes(entry.dtype, part.shape).value();
  entry.parts = {std::move(part)};
  return entry;
}

std::vector<std::string> MakeParts(uint32_t ranks) {
  std::vector<std::string> parts;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    ManifestPart part;
    part.rank = rank;
    for (uint32_t tensor = 0; tensor < kTensors; ++tensor) {
      if (tensor >= kReplicatedFrom && rank % 8 != 0) continue;
      part.entries.push_back(EntryOf(tensor, rank, ranks));
      part.file_bytes =
          std::max(part.file_bytes, part.entries.back().parts[0].length);
    }
    parts.push_back(EncodeManifestPart(std::move(part)));
  }
  return parts;
}

void BM_Merge(benchmark::State& state) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  const std::vector<std::string> parts = MakeParts(ranks);
  uint64_t bytes = 0;
  for (auto _ : state) {
    absl::StatusOr<Manifest> manifest = MergeManifest(ranks, parts);
    CAIRN_CHECK(manifest.ok());
    bytes = 0;
    for (const std::string& block : manifest->blocks) bytes += block.size();
  }
  state.counters["manifest_bytes"] = static_cast<double>(bytes);
}

// From an encoded header and encoded blocks, as a loader does it.
void BM_Lookup(benchmark::State& state) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  const Manifest manifest = MergeManifest(ranks, MakeParts(ranks)).value();
  uint32_t tensor = 0;
  for (auto _ : state) {
    const std::string name = TensorName(tensor);
    tensor = (tensor + 7) % kTensors;
    const std::optional<uint32_t> block = FindBlock(manifest.header, name);
    CAIRN_CHECK(block);
    const auto entries = DecodeManifestBlock(manifest.blocks[*block]);
    CAIRN_CHECK(entries.ok());
    CAIRN_CHECK(std::any_of(
        entries->begin(), entries->end(),
        [&](const TensorEntry& entry) { return entry.name == name; }));
  }
}

BENCHMARK(BM_Merge)->Arg(1024)->Arg(4096)->Arg(16384)->Unit(
    benchmark::kMillisecond);
BENCHMARK(BM_Lookup)->Arg(1024)->Arg(4096)->Arg(16384)->Unit(
    benchmark::kMillisecond);

}  // namespace
}  // namespace cairn::format

BENCHMARK_MAIN();
