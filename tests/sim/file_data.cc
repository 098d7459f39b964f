#include "tests/sim/file_data.h"

#include <algorithm>
#include <array>

namespace cairn::sim {
namespace {

constexpr uint64_t kWholeWrite = UINT64_MAX;

bool Overlap(std::pair<uint64_t, uint64_t> a, std::pair<uint64_t, uint64_t> b) {
  return a.first < b.second && b.first < a.second;
}

// How many bytes of an unflushed write a loss of power leaves.
uint64_t SurvivingBytes(uint64_t size_bytes, const CrashOptions& options,
                        Random* random) {
  if (options.unflushed == Unflushed::kKeepAll) return kWholeWrite;
  if (options.unflushed == Unflushed::kDropAll) return 0;
  const uint64_t fate = random->Below(options.tear ? 3 : 2);
  if (fate == 0) return 0;
  if (fate == 1) return kWholeWrite;
  return random->Between(0, size_bytes / kSectorBytes) * kSectorBytes;
}

}  // namespace

uint64_t FileData::GrowthOfWrite(uint64_t offset, uint64_t size_bytes) const {
  const uint64_t stored =
      cached_.stored_bytes() + cached_.MissingBytes(offset, size_bytes);
  return std::max(stored, charged_bytes_) - charged_bytes_;
}

uint64_t FileData::GrowthOfReserve(uint64_t size_bytes) const {
  return std::max(size_bytes, charged_bytes_) - charged_bytes_;
}

uint64_t FileData::Write(uint64_t offset, format::ConstBytes from) {
  cached_.Write(offset, from);
  std::vector<uint8_t> copy(from.begin(), from.end());
  unflushed_.push_back({++last_change_, false, offset, std::move(copy)});
  Charge();
  return last_change_;
}

uint64_t FileData::Resize(uint64_t size_bytes) {
  cached_.Resize(size_bytes);
  reserved_bytes_ = std::min(reserved_bytes_, size_bytes);
  unflushed_.push_back({++last_change_, true, size_bytes, {}});
  Charge();
  return last_change_;
}

uint64_t FileData::Reserve(uint64_t size_bytes) {
  reserved_bytes_ = std::max(reserved_bytes_, size_bytes);
  Charge();
  if (size_bytes <= cached_.size_bytes()) return last_change_;
  cached_.Resize(size_bytes);
  unflushed_.push_back({++last_change_, true, size_bytes, {}});
  return last_change_;
}

void FileData::FlushUpTo(uint64_t change) {
  size_t count = 0;
  while (count < unflushed_.size() && unflushed_[count].number <= change) {
    Apply(unflushed_[count++], kWholeWrite);
  }
  unflushed_.erase(unflushed_.begin(),
                   unflushed_.begin() + static_cast<ptrdiff_t>(count));
}

void FileData::FlushOne(uint64_t change) {
  const auto found =
      std::find_if(unflushed_.begin(), unflushed_.end(),
                   [change](const Change& c) { return c.number == change; });
  if (found == unflushed_.end()) return;  // A Sync() was faster.
  const std::vector<bool> covered =
      CoveredBy(static_cast<size_t>(found - unflushed_.begin()));
  std::vector<Change> left;
  for (size_t i = 0; i < unflushed_.size(); ++i) {
    if (i < covered.size() && covered[i]) {
      Apply(unflushed_[i], kWholeWrite);
    } else {
      left.push_back(std::move(unflushed_[i]));
    }
  }
  unflushed_ = std::move(left);
}

// Which of the changes up to `index` must be flushed before or with it.
std::vector<bool> FileData::CoveredBy(size_t index) const {
  std::vector<bool> covered(index + 1, false);
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  bool everything_before = false;
  for (size_t i = index + 1; i-- > 0;) {
    const Change& change = unflushed_[i];
    const std::pair<uint64_t, uint64_t> range = {
        change.offset, change.offset + change.bytes.size()};
    const bool overlaps =
        std::any_of(ranges.begin(), ranges.end(),
                    [range](auto other) { return Overlap(range, other); });
    if (i != index && !everything_before && !change.is_resize && !overlaps) {
      continue;
    }
    covered[i] = true;
    ranges.push_back(range);
    everything_before = everything_before || change.is_resize;
  }
  return covered;
}

void FileData::Crash(const CrashOptions& options, Random* random) {
  for (const Change& change : unflushed_) {
    const uint64_t bytes = SurvivingBytes(change.bytes.size(), options, random);
    if (bytes > 0) Apply(change, bytes);
  }
  unflushed_.clear();
  cached_ = durable_;
  reserved_bytes_ = std::min(reserved_bytes_, cached_.size_bytes());
  Charge();
}

void FileData::Flip(uint64_t offset, uint8_t mask) {
  CAIRN_CHECK(offset < cached_.size_bytes());
  for (SparseBytes* bytes : {&cached_, &durable_}) {
    if (offset >= bytes->size_bytes()) continue;
    std::array<uint8_t, 1> value{};
    bytes->Read(offset, value);
    value[0] = static_cast<uint8_t>(value[0] ^ mask);
    bytes->Write(offset, value);
  }
}

void FileData::Apply(const Change& change, uint64_t bytes_max) {
  if (change.is_resize) {
    durable_.Resize(change.offset);
    return;
  }
  const format::ConstBytes bytes(change.bytes);
  durable_.Write(change.offset,
                 bytes.first(std::min<uint64_t>(bytes.size(), bytes_max)));
}

void FileData::Charge() {
  const uint64_t charge = std::max(reserved_bytes_, cached_.stored_bytes());
  *used_bytes_ += charge - charged_bytes_;  // Wraps to a decrease.
  charged_bytes_ = charge;
}

}  // namespace cairn::sim
