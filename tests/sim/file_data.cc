#include "tests/sim/file_data.h"

#include <algorithm>
#include <array>

namespace cairn::sim {
namespace {

constexpr uint64_t kWholeWrite = UINT64_MAX;

bool Overlap(std::pair<uint64_t, uint64_t> a, std::pair<uint64_t, uint64_t> b) {
  return a.first < b.second && b.first < a.second;
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
  KeepReplaced(offset, from.size());
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
    Apply(unflushed_[count++], &durable_, kWholeWrite);
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
      Apply(unflushed_[i], &durable_, kWholeWrite);
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

FileData::Fate FileData::Survive(const Change& change,
                                 const CrashOptions& options, Random* random) {
  if (change.doomed || options.unflushed == Unflushed::kDropAll) {
    return Fate::kGone;
  }
  const uint64_t draw = options.unflushed == Unflushed::kKeepAll
                            ? 1
                            : random->Below(options.tear ? 3 : 2);
  if (draw == 0) return Fate::kGone;
  if (draw == 1) {
    Apply(change, &durable_, kWholeWrite);
    return Fate::kWhole;
  }
  const uint64_t kept = ApplyTorn(change, options.scatter, random);
  if (kept == 0) return Fate::kGone;
  return kept < change.bytes.size() ? Fate::kTorn : Fate::kWhole;
}

// Returns how many bytes survive: whole sectors. None of a resize.
uint64_t FileData::ApplyTorn(const Change& change, bool scatter,
                             Random* random) {
  const uint64_t sectors = change.bytes.size() / kSectorBytes;
  if (!scatter) {
    const uint64_t kept = random->Between(0, sectors) * kSectorBytes;
    if (kept > 0) Apply(change, &durable_, kept);
    return kept;
  }
  const format::ConstBytes bytes(change.bytes);
  uint64_t kept = 0;
  for (uint64_t i = 0; i < sectors; ++i) {
    if (random->OneIn(2)) continue;
    const uint64_t at = i * kSectorBytes;
    durable_.Write(change.offset + at, bytes.subspan(at, kSectorBytes));
    kept += kSectorBytes;
  }
  return kept;
}

FileData::Fate FileData::SurviveChosen(const Change& change, bool chosen) {
  if (change.doomed || !chosen) return Fate::kGone;
  Apply(change, &durable_, kWholeWrite);
  return Fate::kWhole;
}

FileData::Losses FileData::Crash(const CrashOptions& options, Random* random) {
  Losses losses;
  uint64_t survivors = options.survivors;
  for (const Change& change : unflushed_) {
    const Fate fate = options.unflushed == Unflushed::kChosen
                          ? SurviveChosen(change, survivors % 2 == 1)
                          : Survive(change, options, random);
    survivors /= 2;
    losses.whole += fate == Fate::kGone ? 1 : 0;
    losses.torn += fate == Fate::kTorn ? 1 : 0;
  }
  unflushed_.clear();
  cached_ = durable_;
  reserved_bytes_ = std::min(reserved_bytes_, cached_.size_bytes());
  Charge();
  return losses;
}

void FileData::ForgetUpTo(uint64_t change) {
  std::erase_if(unflushed_,
                [change](const Change& c) { return c.number <= change; });
}

bool FileData::DoomUpTo(uint64_t change) {
  bool any = false;
  for (Change& waiting : unflushed_) {
    if (waiting.number > change) break;
    any = waiting.doomed = true;
  }
  return any;
}

bool FileData::DoomOne(uint64_t change) {
  for (Change& waiting : unflushed_) {
    if (waiting.number == change) return waiting.doomed = true;
  }
  return false;
}

void FileData::DropCache() {
  cached_ = durable_;
  for (const Change& change : unflushed_) Apply(change, &cached_, kWholeWrite);
  Charge();
}

void FileData::KeepReplaced(uint64_t offset, uint64_t size_bytes) {
  const uint64_t size = cached_.size_bytes();
  const uint64_t count = std::min(size_bytes, size - std::min(offset, size));
  // Nothing was there before, and nothing is remembered: zeros.
  const uint64_t pages = SparseBytes().MissingBytes(offset, count);
  if (cached_.MissingBytes(offset, count) == pages &&
      replaced_.MissingBytes(offset, count) == pages) {
    return;
  }
  std::vector<uint8_t> old(count);
  cached_.Read(offset, old);
  replaced_.Write(offset, old);
}

void FileData::ReadReplaced(uint64_t offset, format::MutableBytes to) const {
  std::fill(to.begin(), to.end(), uint8_t{0});
  const uint64_t size = replaced_.size_bytes();
  if (offset >= size) return;
  replaced_.Read(offset,
                 to.first(std::min<uint64_t>(to.size(), size - offset)));
}

uint64_t FileData::StoredByte(uint64_t page, Random* random) const {
  return cached_.StoredPage(page) * SparseBytes::kPageBytes +
         random->Below(SparseBytes::kPageBytes);
}

bool FileData::IsSettled(uint64_t offset) const {
  if (offset >= std::min(durable_.size_bytes(), cached_.size_bytes())) {
    return false;
  }
  return std::none_of(
      unflushed_.begin(), unflushed_.end(), [offset](const Change& change) {
        return change.is_resize
                   ? change.offset <= offset
                   : change.offset <= offset &&
                         offset < change.offset + change.bytes.size();
      });
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

void FileData::Apply(const Change& change, SparseBytes* to,
                     uint64_t bytes_max) {
  if (change.is_resize) {
    to->Resize(change.offset);
    return;
  }
  const format::ConstBytes bytes(change.bytes);
  to->Write(change.offset,
            bytes.first(std::min<uint64_t>(bytes.size(), bytes_max)));
}

void FileData::Charge() {
  const uint64_t charge = std::max(reserved_bytes_, cached_.stored_bytes());
  *used_bytes_ += charge - charged_bytes_;  // Wraps to a decrease.
  charged_bytes_ = charge;
}

}  // namespace cairn::sim
