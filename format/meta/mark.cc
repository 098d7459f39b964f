#include "format/meta/mark.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "format/checksum/block_checksum.h"

namespace cairn::format {
namespace {

constexpr uint32_t kMarkMagic = 0x4b52'4d43;  // "CMRK"

// On disk, little-endian; zeros up to the checksum.
struct MarkPage {
  uint32_t magic;
  uint16_t version;
  uint16_t zero;
  std::array<uint8_t, 16> cluster;
  uint64_t sequence;
  uint64_t generation;
  uint64_t losses;
  uint64_t lost_after;
  uint64_t lost_until;
  std::array<uint8_t, kMarkBytes - 72> padding;
  uint64_t xxh3;  // Of everything before.
};
static_assert(sizeof(MarkPage) == kMarkBytes);
static_assert(std::has_unique_object_representations_v<MarkPage>);
constexpr uint64_t kCheckedBytes = kMarkBytes - sizeof(uint64_t);

bool Plausible(const MarkPage& page) {
  return page.zero == 0 && page.lost_after <= page.lost_until &&
         std::ranges::all_of(page.padding, [](uint8_t b) { return b == 0; });
}

}  // namespace

std::string EncodeMark(const Mark& mark) {
  CAIRN_CHECK(mark.lost_after <= mark.lost_until);
  MarkPage page{};
  page.magic = kMarkMagic;
  page.version = kMarkVersion;
  page.cluster = mark.cluster.bytes;
  page.sequence = mark.sequence;
  page.generation = mark.generation;
  page.losses = mark.losses;
  page.lost_after = mark.lost_after;
  page.lost_until = mark.lost_until;
  std::string bytes(kMarkBytes, '\0');
  StoreLe(bytes.data(), page);
  StoreLe(bytes.data() + kCheckedBytes,
          Xxh3(AsBytes(bytes).first(kCheckedBytes)));
  return bytes;
}

absl::StatusOr<Mark> DecodeMark(ConstBytes bytes) {
  if (bytes.size() != kMarkBytes) {
    return absl::DataLossError(absl::StrCat("high-water mark of ", bytes.size(),
                                            " bytes, not ", kMarkBytes));
  }
  const auto page = LoadLe<MarkPage>(bytes.data());
  if (page.magic != kMarkMagic) {
    return absl::DataLossError("not a high-water mark");
  }
  // Before the version: a damaged one must not pass for a newer one.
  if (page.xxh3 != Xxh3(bytes.first(kCheckedBytes))) {
    return absl::DataLossError("high-water mark fails its checksum");
  }
  if (page.version > kMarkVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("high-water mark of version ", page.version,
                     ", newer than this program's ", kMarkVersion));
  }
  if (page.version == 0 || !Plausible(page)) {
    return absl::DataLossError("high-water mark with impossible fields");
  }
  Mark mark;
  mark.cluster.bytes = page.cluster;
  mark.sequence = page.sequence;
  mark.generation = page.generation;
  mark.losses = page.losses;
  mark.lost_after = page.lost_after;
  mark.lost_until = page.lost_until;
  return mark;
}

}  // namespace cairn::format
