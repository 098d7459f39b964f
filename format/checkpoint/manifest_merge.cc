#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "absl/strings/str_join.h"
#include "format/base/status.h"
#include "format/checkpoint/exact_cover.h"
#include "format/checkpoint/manifest.h"
#include "format/checkpoint/manifest_entry.h"
#include "format/checkpoint/manifest_envelope.h"
#include "format/checkpoint/part_cursor.h"
#include "format/path/names.h"

namespace cairn::format {
namespace {

constexpr size_t kRanksNamedMax = 8;  // In one message.

// Closes blocks and makes the index.
class BlockWriter {
 public:
  // kInvalidArgument: more than a block, or the index, can hold.
  absl::Status Add(const std::string& name, const EntryHead& head,
                   const FlatParts& parts, std::span<const uint32_t> order) {
    if (block_.empty()) {
      block_ = BeginEnvelope(kManifestBlockMagic);
      first_names_.push_back(name);
      previous_.clear();
      index_bytes_ += name.size() + 2 * kVarintBytesMax;
    }
    AppendName(previous_, name, &block_);
    AppendBody(head, parts, order, /*with_rank=*/true, &block_);
    previous_ = name;
    if (block_.size() >= kManifestBlockBytesAim) Close();
    if (index_bytes_ > kManifestHeaderBytesMax / 2 ||
        (!blocks_.empty() && blocks_.back().size() > kManifestBlockBytesMax)) {
      return absl::InvalidArgumentError("the manifest is over its limits");
    }
    return absl::OkStatus();
  }

  void FinishInto(Manifest* manifest) {
    if (!block_.empty()) Close();
    manifest->blocks = std::move(blocks_);
    manifest->header.block_first_names = std::move(first_names_);
  }

 private:
  void Close() {
    FinishEnvelope(&block_);
    blocks_.push_back(std::move(block_));
    block_.clear();
  }

  std::string block_;  // The open one; empty: none is.
  std::string previous_;
  uint64_t index_bytes_ = 0;  // At most, of the names in the header.
  std::vector<std::string> blocks_;
  std::vector<std::string> first_names_;
};

class Merger {
 public:
  explicit Merger(uint32_t world_size) : world_size_(world_size) {}

  absl::StatusOr<Manifest> Run(std::span<const std::string> parts);

 private:
  // Opens all cursors; checks that each rank is there once.
  absl::Status OpenAll(std::span<const std::string> parts);
  // Files a cursor under the name it stands on.
  void Wait(uint32_t cursor);
  // One entry, of all the cursors that stand on it.
  absl::Status MergeEntry(const std::string& name,
                          std::span<const uint32_t> cursors);
  // Reads the entry's slices into slices_; checks that the heads agree.
  absl::StatusOr<EntryHead> ReadEntry(std::span<const uint32_t> cursors);
  // Fills order_ with the slices to keep, in the order of the format.
  void Sort(const EntryHead& head);
  // The first of each run of equal slices, whose checksums must agree.
  absl::StatusOr<std::vector<uint32_t>> Distinct() const;
  absl::Status CheckCover(const EntryHead& head) const;
  absl::Status ProblemStatus(const CoverProblem& problem) const;
  absl::Status CountEntry(const EntryHead& head);

  const uint32_t world_size_;
  std::vector<PartCursor> cursors_;
  std::map<std::string, std::vector<uint32_t>, std::less<>> waiting_;
  std::map<std::string, std::vector<uint32_t>, std::less<>>::iterator hint_;
  FlatParts slices_;
  std::vector<uint32_t> order_;
  BlockWriter blocks_;
  Manifest manifest_;
};

absl::Status CheckRanks(const std::vector<PartCursor>& cursors,
                        uint32_t world_size) {
  std::vector<bool> seen(world_size);
  for (const PartCursor& cursor : cursors) {
    if (cursor.rank() >= world_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", cursor.rank(), " in a set of ", world_size, " ranks"));
    }
    if (seen[cursor.rank()]) {
      return absl::InvalidArgumentError(
          absl::StrCat("two manifest parts of rank ", cursor.rank()));
    }
    seen[cursor.rank()] = true;
  }
  std::vector<size_t> missing;
  for (size_t rank = 0; rank < world_size; ++rank) {
    if (!seen[rank] && missing.size() < kRanksNamedMax) missing.push_back(rank);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      world_size - cursors.size(), " ranks are missing, first of all ",
      absl::StrJoin(missing, ", ")));
}

absl::Status Merger::OpenAll(std::span<const std::string> parts) {
  cursors_.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    absl::Status opened = cursors_[i].Open(parts[i]);
    if (!opened.ok()) {
      return Annotate(std::move(opened), absl::StrCat("manifest part ", i));
    }
    uint64_t& sum = manifest_.header.file_bytes;
    if (__builtin_add_overflow(sum, cursors_[i].file_bytes(), &sum)) {
      return absl::InvalidArgumentError("the files are over 2^64 bytes");
    }
  }
  return CheckRanks(cursors_, world_size_);
}

void Merger::Wait(uint32_t cursor) {
  if (cursors_[cursor].AtEnd()) return;
  const std::string& name = cursors_[cursor].name();
  // Ranks mostly hold the same tensors, so mostly the last place is right.
  if (hint_ == waiting_.end() || hint_->first != name) {
    hint_ = waiting_.try_emplace(name).first;
  }
  hint_->second.push_back(cursor);
}

absl::StatusOr<EntryHead> Merger::ReadEntry(std::span<const uint32_t> cursors) {
  CAIRN_CHECK(!cursors.empty());
  EntryHead first;
  for (const uint32_t i : cursors) {
    PartCursor& cursor = cursors_[i];
    absl::StatusOr<EntryHead> head = cursor.ReadEntryHead();
    const bool is_first = i == cursors.front();
    if (head.ok() && is_first) {
      first = *head;
      slices_.Clear(first.dims);
    }
    if (head.ok() && !(*head == first)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", cursors_[cursors.front()].rank(), " has ", ToString(first),
          ", rank ", cursor.rank(), " has ", ToString(*head)));
    }
    if (head.ok() && !is_first && first.kind == EntryKind::kOpaque) {
      return absl::InvalidArgumentError(absl::StrCat(
          "opaque bytes of two ranks, ", cursors_[cursors.front()].rank(),
          " and ", cursor.rank()));
    }
    absl::Status read =
        head.ok() ? cursor.ReadSlices(first, &slices_) : head.status();
    if (read.ok()) read = cursor.NextName();
    if (read.ok() && slices_.size() > kSlicesPerTensorMax) {
      read = absl::InvalidArgumentError(
          absl::StrCat("over ", kSlicesPerTensorMax, " slices"));
    }
    if (!read.ok()) {
      return Annotate(std::move(read), absl::StrCat("rank ", cursor.rank()));
    }
  }
  return first;
}

void Merger::Sort(const EntryHead& head) {
  order_.clear();
  for (size_t i = 0; i < slices_.size(); ++i) {
    const std::span<const uint64_t> shape = slices_.Shape(i);
    const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    if (!empty || head.bytes == 0) order_.push_back(static_cast<uint32_t>(i));
  }
  const auto less = [this](uint32_t a, uint32_t b) {
    return slices_.Less(a, b);
  };
  if (!std::is_sorted(order_.begin(), order_.end(), less)) {
    std::sort(order_.begin(), order_.end(), less);
  }
}

absl::StatusOr<std::vector<uint32_t>> Merger::Distinct() const {
  std::vector<uint32_t> distinct;
  for (const uint32_t i : order_) {
    if (distinct.empty() ||
        !std::ranges::equal(slices_.Box(distinct.back()), slices_.Box(i))) {
      distinct.push_back(i);
      continue;
    }
    const FlatParts::Place& first = slices_.places[distinct.back()];
    const FlatParts::Place& copy = slices_.places[i];
    if (first.xxh3 != copy.xxh3) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ranks ", first.rank, " and ", copy.rank,
          " hold the same slice, at [", absl::StrJoin(slices_.Offset(i), ","),
          "], but other bytes"));
    }
  }
  return distinct;
}

absl::Status Merger::ProblemStatus(const CoverProblem& problem) const {
  const std::string at = absl::StrCat("[", absl::StrJoin(problem.at, ","), "]");
  if (problem.boxes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no rank holds the element at ", at));
  }
  std::vector<uint32_t> ranks;
  for (const uint32_t box : problem.boxes) {
    if (ranks.size() < kRanksNamedMax) {
      ranks.push_back(slices_.places[box].rank);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "slices of ranks ", absl::StrJoin(ranks, ", "), " overlap at ", at));
}

absl::Status Merger::CheckCover(const EntryHead& head) const {
  if (head.bytes == 0) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const std::vector<uint32_t> distinct, Distinct());
  const std::optional<CoverProblem> problem =
      FindCoverProblem(head.Shape(), slices_.boxes, distinct);
  return problem ? ProblemStatus(*problem) : absl::OkStatus();
}

absl::Status Merger::CountEntry(const EntryHead& head) {
  ++manifest_.header.tensors;
  uint64_t& sum = manifest_.header.tensor_bytes;
  if (__builtin_add_overflow(sum, head.bytes, &sum)) {
    return absl::InvalidArgumentError("the tensors are over 2^64 bytes");
  }
  return absl::OkStatus();
}

absl::Status Merger::MergeEntry(const std::string& name,
                                std::span<const uint32_t> cursors) {
  CAIRN_ASSIGN_OR_RETURN(const EntryHead head, ReadEntry(cursors));
  Sort(head);
  CAIRN_RETURN_IF_ERROR(CheckCover(head));
  CAIRN_RETURN_IF_ERROR(CountEntry(head));
  return blocks_.Add(name, head, slices_, order_);
}

absl::StatusOr<Manifest> Merger::Run(std::span<const std::string> parts) {
  CAIRN_RETURN_IF_ERROR(OpenAll(parts));
  hint_ = waiting_.end();
  for (uint32_t i = 0; i < cursors_.size(); ++i) Wait(i);
  while (!waiting_.empty()) {
    const auto entry = waiting_.extract(waiting_.begin());
    absl::Status merged = MergeEntry(entry.key(), entry.mapped());
    if (!merged.ok()) {
      return Annotate(
          std::move(merged),
          absl::StrCat("tensor \"", EscapeForDisplay(entry.key()), "\""));
    }
    hint_ = waiting_.end();
    for (const uint32_t i : entry.mapped()) Wait(i);
  }
  manifest_.header.world_size = world_size_;
  blocks_.FinishInto(&manifest_);
  return std::move(manifest_);
}

}  // namespace

absl::StatusOr<Manifest> MergeManifest(uint32_t world_size,
                                       std::span<const std::string> parts) {
  if (world_size == 0 || world_size > kRanksMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a set of ", world_size, " ranks"));
  }
  if (parts.size() > world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        parts.size(), " manifest parts for ", world_size, " ranks"));
  }
  return Merger(world_size).Run(parts);
}

}  // namespace cairn::format
