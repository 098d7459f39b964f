#include "bench/workload/llama_shapes.h"

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace cairn::workload {
namespace {

using cairn::testing::IsOk;
using cairn::testing::StatusIs;
using format::Dtype;

uint64_t Sum(const std::vector<WorkloadTensor>& tensors) {
  uint64_t bytes = 0;
  for (const WorkloadTensor& tensor : tensors) bytes += tensor.bytes;
  return bytes;
}

std::vector<WorkloadTensor> Tensors(LlamaModel model, uint64_t bytes,
                                    bool optimizer = true) {
  LlamaOptions options;
  options.model = model;
  options.bytes = bytes;
  options.optimizer = optimizer;
  return LlamaTensors(options).value();
}

TEST(LlamaTensors, RealSizesHaveThePublishedNumbersOfParameters) {
  const std::map<LlamaModel, uint64_t> parameters = {
      {LlamaModel::k8b, 8'030'261'248},
      {LlamaModel::k70b, 70'553'706'496},
      {LlamaModel::k405b, 405'853'388'800}};
  for (const auto& [model, count] : parameters) {
    EXPECT_EQ(Sum(Tensors(model, 0, false)), 2 * count);
    EXPECT_EQ(Sum(Tensors(model, 0)), 14 * count + 8);
  }
}

TEST(LlamaTensors, ScaledSetsAreNearTheBytesAskedForWithAllTensors) {
  for (const LlamaModel model :
       {LlamaModel::k8b, LlamaModel::k70b, LlamaModel::k405b}) {
    const size_t tensors = Tensors(model, 0).size();
    for (const uint64_t bytes : {uint64_t{1} << 20, uint64_t{64} << 20,
                                 uint64_t{4} << 30, uint64_t{1} << 45}) {
      const std::vector<WorkloadTensor> scaled = Tensors(model, bytes);
      EXPECT_EQ(scaled.size(), tensors);
      EXPECT_LE(Sum(scaled), bytes);
      EXPECT_GE(Sum(scaled), bytes - bytes / 50);
    }
  }
}

TEST(LlamaTensors, NamesAreUniqueAndEveryWeightHasItsMoments) {
  const std::vector<WorkloadTensor> tensors = Tensors(LlamaModel::k8b, 1 << 20);
  std::map<std::string, WorkloadTensor> by_name;
  for (const WorkloadTensor& tensor : tensors) by_name[tensor.name] = tensor;
  EXPECT_EQ(by_name.size(), tensors.size());
  EXPECT_EQ(tensors.size(), 4 * 291 + 1u);
  const WorkloadTensor& weight =
      by_name.at("model.layers.31.mlp.down_proj.weight");
  EXPECT_EQ(weight.dtype, Dtype::kBf16);
  for (const char* kind : {"master", "exp_avg", "exp_avg_sq"}) {
    const WorkloadTensor& state =
        by_name.at(absl::StrCat("optimizer.", kind, ".", weight.name));
    EXPECT_EQ(state.dtype, Dtype::kF32);
    EXPECT_EQ(state.shape, weight.shape);
  }
  EXPECT_TRUE(by_name.at("optimizer.step").shape.empty());
}

TEST(LlamaTensors, SizesOutOfReachAreRefused) {
  LlamaOptions options;
  for (const uint64_t bytes : {uint64_t{100}, ~uint64_t{0}}) {
    options.bytes = bytes;
    EXPECT_THAT(LlamaTensors(options),
                StatusIs(absl::StatusCode::kInvalidArgument, "cannot scale"));
  }
  EXPECT_EQ(ParseLlamaModel("7b"), std::nullopt);
}

TEST(FillContents, AnySliceHasTheBytesOfTheWhole) {
  std::vector<uint8_t> whole(1000);
  FillContents(1, "t", 0, whole);
  for (size_t offset = 0; offset < 40; ++offset) {
    for (const size_t length : {size_t{0}, size_t{1}, size_t{7}, size_t{960}}) {
      std::vector<uint8_t> slice(length);
      FillContents(1, "t", offset, slice);
      EXPECT_TRUE(
          std::equal(slice.begin(), slice.end(), whole.begin() + offset));
    }
  }
}

TEST(FillContents, SeedAndNameChangeTheContents) {
  std::set<std::vector<uint8_t>> seen;
  for (const uint64_t seed : {1, 2}) {
    for (const char* name : {"a", "b"}) {
      std::vector<uint8_t> bytes(64);
      FillContents(seed, name, 0, bytes);
      seen.insert(bytes);
    }
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST(FillContents, NumbersAreFinite) {
  std::vector<uint8_t> bytes(1 << 16);
  FillContents(3, "t", 0, bytes);
  for (size_t i = 0; i < bytes.size(); i += 4) {
    float f32 = 0;
    std::memcpy(&f32, &bytes[i], 4);
    EXPECT_TRUE(std::isfinite(f32) && std::abs(f32) < 1);
    uint32_t bf16 = uint32_t{bytes[i]} << 16 | uint32_t{bytes[i + 1]} << 24;
    std::memcpy(&f32, &bf16, 4);
    EXPECT_TRUE(std::isfinite(f32) && std::abs(f32) < 1);
  }
}

}  // namespace
}  // namespace cairn::workload
