// What a training job of a Llama-3 model checkpoints: names, dtypes and shapes,
// at the real size or scaled to a number of bytes, and made-up contents.
//
// Scaling keeps the number of layers and so of tensors, and the proportions of
// each layer; widths and the vocabulary shrink or grow.
//
// Threads: pure functions; safe from anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "format/base/bytes.h"
#include "format/checkpoint/dtype.h"

namespace cairn::workload {

enum class LlamaModel { k8b, k70b, k405b };

// "8b", "70b" or "405b".
std::optional<LlamaModel> ParseLlamaModel(std::string_view name);

struct LlamaOptions {
  LlamaModel model = LlamaModel::k8b;
  uint64_t bytes = 0;     // About so many in all; 0: the real size.
  bool optimizer = true;  // Also what Adam keeps, and the step.
};

struct WorkloadTensor {
  std::string name;
  format::Dtype dtype = format::Dtype::kBf16;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
};

// BF16 weights under the names of the published checkpoints; then, for each,
// "optimizer.master.", "optimizer.exp_avg." and "optimizer.exp_avg_sq." in F32,
// and the scalar "optimizer.step". At most `bytes` in all, and less by no more
// than one row of the vocabulary.
// kInvalidArgument: `bytes` is too few for the narrowest model, or over 2^60.
absl::StatusOr<std::vector<WorkloadTensor>> LlamaTensors(
    const LlamaOptions& options);

// Fills `out` with bytes [offset, offset + out.size()) of the dense tensor
// `name`. They depend on seed, name and place only, so that any process can
// make or check any slice. Read as F32 or BF16 they are small finite numbers.
void FillContents(uint64_t seed, std::string_view name, uint64_t offset,
                  format::MutableBytes out);

}  // namespace cairn::workload
