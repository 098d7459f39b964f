#include "bench/workload/llama_shapes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "format/base/ids.h"
#include "format/base/status.h"
#include "format/checksum/block_checksum.h"

namespace cairn::workload {
namespace {

using format::Dtype;

constexpr uint64_t kBytesMax = uint64_t{1} << 60;

struct Dimensions {
  uint64_t layers = 0;
  uint64_t hidden = 0;
  uint64_t kv = 0;  // Heads for keys and values, times their width.
  uint64_t ffn = 0;
  uint64_t vocabulary = 0;
};

Dimensions RealDimensions(LlamaModel model) {
  constexpr uint64_t kVocabulary = 128256;
  constexpr uint64_t kKv = 1024;
  switch (model) {
    case LlamaModel::k8b:
      return {32, 4096, kKv, 14336, kVocabulary};
    case LlamaModel::k70b:
      return {80, 8192, kKv, 28672, kVocabulary};
    case LlamaModel::k405b:
      return {126, 16384, kKv, 53248, kVocabulary};
  }
  CAIRN_CHECK(false);
}

// The model whose residual stream is `hidden` wide, in the same proportions.
Dimensions Scaled(const Dimensions& real, uint64_t hidden) {
  const auto scale = [&](uint64_t width) {
    return std::max<uint64_t>(1, width * hidden / real.hidden);
  };
  return {real.layers, hidden, scale(real.kv), scale(real.ffn),
          scale(real.vocabulary)};
}

struct NamedShape {
  std::string name;
  std::vector<uint64_t> shape;
};

std::vector<NamedShape> WeightShapes(const Dimensions& d) {
  std::vector<NamedShape> shapes;
  shapes.push_back({"model.embed_tokens.weight", {d.vocabulary, d.hidden}});
  for (uint64_t i = 0; i < d.layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    const auto add = [&](const char* name, std::vector<uint64_t> shape) {
      shapes.push_back({layer + name + ".weight", std::move(shape)});
    };
    add("input_layernorm", {d.hidden});
    add("self_attn.q_proj", {d.hidden, d.hidden});
    add("self_attn.k_proj", {d.kv, d.hidden});
    add("self_attn.v_proj", {d.kv, d.hidden});
    add("self_attn.o_proj", {d.hidden, d.hidden});
    add("post_attention_layernorm", {d.hidden});
    add("mlp.gate_proj", {d.ffn, d.hidden});
    add("mlp.up_proj", {d.ffn, d.hidden});
    add("mlp.down_proj", {d.hidden, d.ffn});
  }
  shapes.push_back({"model.norm.weight", {d.hidden}});
  shapes.push_back({"lm_head.weight", {d.vocabulary, d.hidden}});
  return shapes;
}

// Weights of the model; their number follows WeightShapes().
uint64_t WeightCount(const Dimensions& d) {
  const uint64_t attention = 2 * d.hidden * (d.hidden + d.kv);
  const uint64_t layer = attention + 3 * d.hidden * d.ffn + 2 * d.hidden;
  return d.layers * layer + 2 * d.vocabulary * d.hidden + d.hidden;
}

constexpr uint64_t kStepBytes = 8;

// Of one weight, in BF16, and with three more in F32.
uint64_t BytesPerWeight(bool optimizer) { return optimizer ? 2 + 3 * 4 : 2; }

uint64_t TotalBytes(const Dimensions& d, bool optimizer) {
  return WeightCount(d) * BytesPerWeight(optimizer) +
         (optimizer ? kStepBytes : 0);
}

// The widest model of at most options.bytes; the vocabulary, which has the
// finest steps, takes up what is left.
absl::StatusOr<Dimensions> FitDimensions(const LlamaOptions& options) {
  const Dimensions real = RealDimensions(options.model);
  if (options.bytes == 0) return real;
  const uint64_t least = TotalBytes(Scaled(real, 1), options.optimizer);
  if (options.bytes < least || options.bytes > kBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot scale the model to ", options.bytes,
                     " bytes: from ", least, " to ", kBytesMax, " it can be"));
  }
  uint64_t hidden = 1;
  uint64_t over = uint64_t{1} << 24;  // Over kBytesMax; no overflow yet.
  while (over - hidden > 1) {
    const uint64_t middle = hidden + (over - hidden) / 2;
    const bool fits =
        TotalBytes(Scaled(real, middle), options.optimizer) <= options.bytes;
    (fits ? hidden : over) = middle;
  }
  Dimensions fit = Scaled(real, hidden);
  const uint64_t left = options.bytes - TotalBytes(fit, options.optimizer);
  fit.vocabulary += left / (2 * hidden * BytesPerWeight(options.optimizer));
  return fit;
}

void AddTensor(std::string name, Dtype dtype, std::vector<uint64_t> shape,
               std::vector<WorkloadTensor>* tensors) {
  const uint64_t bytes = format::TensorBytes(dtype, shape).value();
  tensors->push_back({std::move(name), dtype, std::move(shape), bytes});
}

// Keeps sign, mantissa and the low three bits of the exponent of both BF16
// numbers (or of the one F32 number) in each half; the rest says 2^-15 to 2^-8.
constexpr uint64_t kRandomBits = 0x83ff'83ff'83ff'83ffULL;
constexpr uint64_t kFixedBits = 0x3800'3800'3800'3800ULL;

uint64_t ContentWord(uint64_t key, uint64_t index) {
  const uint64_t random = format::Mix64(key + index * 0x9e3779b97f4a7c15ULL);
  return (random & kRandomBits) | kFixedBits;
}

}  // namespace

std::optional<LlamaModel> ParseLlamaModel(std::string_view name) {
  if (name == "8b") return LlamaModel::k8b;
  if (name == "70b") return LlamaModel::k70b;
  if (name == "405b") return LlamaModel::k405b;
  return std::nullopt;
}

absl::StatusOr<std::vector<WorkloadTensor>> LlamaTensors(
    const LlamaOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(const Dimensions dimensions, FitDimensions(options));
  const std::vector<NamedShape> weights = WeightShapes(dimensions);
  std::vector<WorkloadTensor> tensors;
  for (const NamedShape& weight : weights) {
    AddTensor(weight.name, Dtype::kBf16, weight.shape, &tensors);
  }
  if (!options.optimizer) return tensors;
  for (const char* kind : {"master", "exp_avg", "exp_avg_sq"}) {
    for (const NamedShape& weight : weights) {
      AddTensor(absl::StrCat("optimizer.", kind, ".", weight.name), Dtype::kF32,
                weight.shape, &tensors);
    }
  }
  AddTensor("optimizer.step", Dtype::kI64, {}, &tensors);
  return tensors;
}

void FillContents(uint64_t seed, std::string_view name, uint64_t offset,
                  format::MutableBytes out) {
  const uint64_t key =
      format::Mix64(seed ^ format::Xxh3(format::AsBytes(name)));
  constexpr size_t kWord = sizeof(uint64_t);
  size_t done = 0;
  while (done < out.size()) {
    const uint64_t at = offset + done;
    const uint64_t word = ContentWord(key, at / kWord);
    const size_t skip = static_cast<size_t>(at % kWord);
    const size_t count = std::min(kWord - skip, out.size() - done);
    std::memcpy(out.data() + done,
                reinterpret_cast<const uint8_t*>(&word) + skip, count);
    done += count;
  }
}

}  // namespace cairn::workload
