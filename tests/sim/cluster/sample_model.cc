#include "tests/sim/cluster/sample_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/rank_save.h"
#include "client/checkpoint/set_load.h"
#include "tests/sim/random.h"

namespace cairn::sim {

using client::CheckpointWriter;
using client::Dtype;
using io::Task;

namespace {

constexpr size_t kTensors = 10;

uint64_t ElementBytes(Dtype dtype) {
  return format::TensorBytes(dtype, {1}).value();
}

SampleTensor MakeTensor(std::string name, Dtype dtype,
                        std::vector<uint64_t> shape, Random* random) {
  SampleTensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.bytes.resize(format::TensorBytes(dtype, tensor.shape).value());
  for (uint8_t& byte : tensor.bytes) {
    byte = static_cast<uint8_t>(random->Next());
  }
  return tensor;
}

// [first, first + count) of `total` for rank `rank` of `ranks`.
std::pair<uint64_t, uint64_t> Share(uint64_t total, uint32_t rank,
                                    uint32_t ranks) {
  const uint64_t first = total * rank / ranks;
  return {first, total * (rank + 1) / ranks - first};
}

std::string OpaqueName(uint32_t rank) {
  return absl::StrCat("state of rank ", rank);
}

std::vector<int64_t> DenseStrides(const std::vector<uint64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * static_cast<int64_t>(shape[d]);
  }
  return strides;
}

// The rank's items, straight out of the whole tensors' memory.
absl::StatusOr<std::vector<client::RankItem>> ItemsOf(const SampleModel& model,
                                                      uint32_t rank,
                                                      uint32_t ranks) {
  std::vector<client::RankItem> items;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const SampleTensor& tensor = model.tensors[i];
    const SampleCut cut = CutFor(model, i, rank, ranks);
    if (cut.empty) continue;
    client::TensorView view;
    view.name = tensor.name;
    view.dtype = tensor.dtype;
    view.global_shape = tensor.shape;
    view.offset = cut.offset;
    view.shape = cut.shape;
    view.strides = DenseStrides(tensor.shape);
    uint64_t first = 0;
    for (size_t d = 0; d < cut.offset.size(); ++d) {
      first += cut.offset[d] * static_cast<uint64_t>(view.strides[d]);
    }
    view.data = tensor.bytes.data() + first * ElementBytes(tensor.dtype);
    CAIRN_ASSIGN_OR_RETURN(client::RankItem item,
                           client::MakeTensorItem(std::move(view)));
    items.push_back(std::move(item));
  }
  CAIRN_ASSIGN_OR_RETURN(
      client::RankItem opaque,
      client::MakeBytesItem(OpaqueName(rank), absl::StrCat("rank ", rank)));
  items.push_back(std::move(opaque));
  return items;
}

// The cut's bytes, dense, out of the whole tensor. At most two dimensions.
std::vector<uint8_t> ExpectedBytes(const SampleTensor& tensor,
                                   const SampleCut& cut) {
  const uint64_t element = ElementBytes(tensor.dtype);
  if (cut.shape.size() < 2) {
    const uint64_t first = cut.offset.empty() ? 0 : cut.offset[0] * element;
    const uint64_t count = cut.shape.empty() ? 1 : cut.shape[0];
    const auto start =
        tensor.bytes.begin() + static_cast<std::ptrdiff_t>(first);
    return {start, start + static_cast<std::ptrdiff_t>(count * element)};
  }
  std::vector<uint8_t> bytes;
  for (uint64_t row = 0; row < cut.shape[0]; ++row) {
    const uint64_t first =
        ((cut.offset[0] + row) * tensor.shape[1] + cut.offset[1]) * element;
    const auto start =
        tensor.bytes.begin() + static_cast<std::ptrdiff_t>(first);
    bytes.insert(bytes.end(), start,
                 start + static_cast<std::ptrdiff_t>(cut.shape[1] * element));
  }
  return bytes;
}

}  // namespace

uint64_t SampleModel::bytes() const {
  uint64_t sum = 0;
  for (const SampleTensor& tensor : tensors) sum += tensor.bytes.size();
  return sum;
}

SampleModel MakeSampleModel(uint64_t seed, uint64_t bytes) {
  Random random(Random::Mix(seed));
  SampleModel model;
  const uint64_t each = bytes / kTensors;
  const Dtype dtypes[] = {Dtype::kF32, Dtype::kBf16, Dtype::kU8, Dtype::kF64};
  for (size_t i = 0; i < kTensors; ++i) {
    const Dtype dtype = dtypes[i % 4];
    // Odd numbers, so that slices start and end anywhere.
    const uint64_t columns = 37 + 2 * random.Below(200);
    const uint64_t rows =
        std::max<uint64_t>(1, each / (columns * ElementBytes(dtype)));
    model.tensors.push_back(MakeTensor(absl::StrCat("layer.", i, ".weight"),
                                       dtype, {rows, columns}, &random));
  }
  model.tensors.push_back(MakeTensor("empty", Dtype::kF32, {0, 5}, &random));
  model.tensors.push_back(MakeTensor("step", Dtype::kI64, {}, &random));
  return model;
}

SampleCut CutFor(const SampleModel& model, size_t tensor, uint32_t rank,
                 uint32_t ranks) {
  const std::vector<uint64_t>& shape = model.tensors[tensor].shape;
  SampleCut cut;
  cut.offset.assign(shape.size(), 0);
  cut.shape = shape;
  const size_t way = model.rows_only ? 0 : tensor % 3;
  const bool whole = way == 2 || shape.size() < 2 || shape[0] == 0;
  if (whole) {
    cut.empty = tensor % ranks != rank;
    return cut;
  }
  const auto [first, count] = Share(shape[way], rank, ranks);
  cut.offset[way] = first;
  cut.shape[way] = count;
  cut.empty = count == 0;
  return cut;
}

namespace {

Task<absl::StatusOr<client::OpenedSet>> OpenAndWrite(
    client::Core* core, const CheckpointWriter::Options* options,
    const SampleModel* model) {
  const absl::StatusOr<std::vector<client::RankItem>> items =
      ItemsOf(*model, options->rank, options->world_size);
  if (!items.ok()) co_return items.status();
  absl::StatusOr<client::OpenedSet> opened =
      co_await client::OpenSet(core, *options);
  if (!opened.ok()) co_return opened;
  client::RankSave save{core, options, *opened, &*items};
  absl::Status saved = co_await client::SaveRank(save);
  if (!saved.ok()) co_return saved;
  co_return opened;
}

}  // namespace

Task<absl::Status> WriteSample(client::Core* core,
                               CheckpointWriter::Options options,
                               const SampleModel* model) {
  const absl::StatusOr<client::OpenedSet> written =
      co_await OpenAndWrite(core, &options, model);
  co_return written.status();
}

Task<absl::Status> SaveSample(client::Core* core,
                              CheckpointWriter::Options options,
                              const SampleModel* model) {
  const absl::StatusOr<client::OpenedSet> written =
      co_await OpenAndWrite(core, &options, model);
  if (!written.ok()) co_return written.status();
  const io::TimeNs deadline = core->Deadline(options.timeout_ms);
  co_return co_await client::WaitSet(core, written->set, options.attempt,
                                     deadline);
}

namespace {

// Views into dense memory of their own, and what must arrive there.
struct SampleLoad {
  std::vector<client::MutableTensorView> views;
  std::vector<std::vector<uint8_t>> memory;
  std::vector<std::vector<uint8_t>> expected;
};

void AddView(std::string name, Dtype dtype, std::vector<uint64_t> shape,
             SampleCut cut, std::vector<uint8_t> expected, SampleLoad* load) {
  load->memory.emplace_back(expected.size(), uint8_t{0xa5});
  client::MutableTensorView view;
  view.name = std::move(name);
  view.dtype = dtype;
  view.global_shape = std::move(shape);
  view.offset = std::move(cut.offset);
  view.shape = std::move(cut.shape);
  view.data = load->memory.back().data();
  load->views.push_back(std::move(view));
  load->expected.push_back(std::move(expected));
}

SampleLoad MakeLoad(const SampleModel& model, uint32_t rank, uint32_t ranks) {
  SampleLoad load;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const SampleTensor& tensor = model.tensors[i];
    SampleCut cut = CutFor(model, i, rank, ranks);
    if (cut.empty) continue;
    std::vector<uint8_t> expected = ExpectedBytes(tensor, cut);
    AddView(tensor.name, tensor.dtype, tensor.shape, std::move(cut),
            std::move(expected), &load);
  }
  return load;
}

absl::Status Compare(const SampleLoad& load) {
  for (size_t i = 0; i < load.views.size(); ++i) {
    const auto [got, want] =
        std::ranges::mismatch(load.memory[i], load.expected[i]);
    if (want == load.expected[i].end()) continue;
    return absl::InternalError(absl::StrCat(
        "WRONG BYTES: ", load.views[i].name, " at byte ",
        want - load.expected[i].begin(), " of ", load.expected[i].size()));
  }
  return absl::OkStatus();
}

}  // namespace

Task<absl::StatusOr<uint64_t>> LoadSample(client::Core* core, std::string path,
                                          const SampleModel* model,
                                          uint32_t rank, uint32_t ranks) {
  client::LoadOptions options;
  options.deadline = core->Deadline();
  absl::StatusOr<std::unique_ptr<client::SetReader>> set =
      co_await client::SetReader::Open(core, std::move(path), options.deadline);
  if (!set.ok()) co_return set.status();
  const SampleLoad load = MakeLoad(*model, rank, ranks);
  absl::Status loaded = co_await client::LoadViews(core, set->get(), load.views,
                                                   std::move(options));
  if (!loaded.ok()) co_return loaded;
  CAIRN_CO_RETURN_IF_ERROR(Compare(load));
  co_return client::ViewBytes(load.views);
}

}  // namespace cairn::sim
