#include "tests/support/manifest_samples.h"

#include "format/base/status.h"
#include "format/checkpoint/manifest_envelope.h"
#include "format/checksum/block_checksum.h"

namespace cairn::testing {
namespace {

using format::Dtype;
using format::TensorEntry;

std::string Reseal(std::string record_without_checksum) {
  format::FinishEnvelope(&record_without_checksum);
  return record_without_checksum;
}

}  // namespace

format::TensorPart SliceOf(const TensorEntry& entry, uint32_t rank,
                           std::vector<uint64_t> offset,
                           std::vector<uint64_t> shape, uint64_t xxh3) {
  format::TensorPart part;
  part.rank = rank;
  part.file_offset = 4096;
  part.length = format::TensorBytes(entry.dtype, shape).value();
  part.xxh3 = xxh3;
  part.offset = std::move(offset);
  part.shape = std::move(shape);
  return part;
}

TensorEntry Tensor(std::string name, Dtype dtype, std::vector<uint64_t> shape) {
  TensorEntry entry;
  entry.name = std::move(name);
  entry.dtype = dtype;
  entry.shape = std::move(shape);
  return entry;
}

TensorEntry Opaque(std::string name, uint32_t rank, uint64_t bytes) {
  TensorEntry entry = Tensor(std::move(name), Dtype::kU8, {bytes});
  entry.kind = format::EntryKind::kOpaque;
  entry.parts.push_back(SliceOf(entry, rank, {0}, {bytes}));
  return entry;
}

format::ManifestPart SamplePart() {
  constexpr uint32_t kRank = 3;
  format::ManifestPart part;
  part.rank = kRank;
  part.file_bytes = 1 << 20;
  TensorEntry unnamed = Tensor("", Dtype::kF64, {});
  unnamed.parts = {SliceOf(unnamed, kRank, {}, {}, ~uint64_t{0})};
  TensorEntry weight = Tensor("layers.0.weight", Dtype::kBf16, {300, 40, 5});
  weight.parts = {SliceOf(weight, kRank, {0, 8, 0}, {300, 8, 5}),
                  SliceOf(weight, kRank, {7, 0, 0}, {2, 2, 5})};
  TensorEntry empty = Tensor("layers.0.zero", Dtype::kF32, {0, 4});
  empty.parts = {SliceOf(empty, kRank, {0, 0}, {0, 4})};
  TensorEntry nibbles = Tensor("layers.1", Dtype::kF4, {6, 2});
  nibbles.parts = {SliceOf(nibbles, kRank, {2, 0}, {3, 2})};
  TensorEntry state = Opaque("layers.1\xc3\xa9", kRank, 129);
  part.entries = {unnamed, weight, empty, nibbles, state};
  return part;
}

std::vector<TensorEntry> SampleBlock() {
  TensorEntry cut = Tensor("a.cut", Dtype::kF32, {1000, 3});
  cut.parts = {SliceOf(cut, 200, {0, 0}, {500, 3}),
               SliceOf(cut, 1, {500, 0}, {500, 3}),
               SliceOf(cut, 70000, {500, 0}, {500, 3})};
  TensorEntry scalar = Tensor("a.scalar", Dtype::kI64, {});
  scalar.parts = {SliceOf(scalar, 0, {}, {}), SliceOf(scalar, 9, {}, {})};
  return {cut, scalar, Opaque("b", 5, 0)};
}

format::ManifestHeader SampleHeader() {
  format::ManifestHeader header;
  header.world_size = 4096;
  header.tensors = 300;
  header.tensor_bytes = uint64_t{1} << 42;
  header.file_bytes = (uint64_t{1} << 42) + 12345;
  header.block_first_names = {"", "layers.0.weight", "layers.10", "norm"};
  return header;
}

std::string WithBody(std::string record,
                     const std::function<void(std::string*)>& change) {
  constexpr size_t kStart = sizeof(format::ManifestEnvelope);
  std::string body = record.substr(kStart, record.size() - kStart - 8);
  change(&body);
  return Reseal(record.substr(0, kStart) + body);
}

std::string WithVersion(std::string record, uint16_t version) {
  format::StoreLe(record.data() + offsetof(format::ManifestEnvelope, version),
                  version);
  return Reseal(record.substr(0, record.size() - 8));
}

}  // namespace cairn::testing
