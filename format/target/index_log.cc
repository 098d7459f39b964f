#include "format/target/index_log.h"

#include <cstddef>
#include <type_traits>

#include "format/base/status.h"
#include "format/checksum/block_checksum.h"

namespace cairn::format {
namespace {

constexpr uint64_t kMagic = 0x31474f4c544e5243;  // "CRNTLOG1".
constexpr uint32_t kVersion = 1;
constexpr uint64_t kOpHeaderBytes = 1 + 2 + 4;

// On disk, little-endian.
struct RawFrameHeader {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t body_bytes = 0;
  uint64_t sequence = 0;
  uint64_t body_xxh3 = 0;
  uint64_t header_xxh3 = 0;  // Of the bytes before.
};
static_assert(sizeof(RawFrameHeader) == kIndexFrameHeaderBytes);
static_assert(std::has_unique_object_representations_v<RawFrameHeader>);

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(
      absl::StrCat("frame of the index log: ", AbslText(what)));
}

void AppendOp(const IndexOp& op, std::string* body) {
  CAIRN_CHECK(!op.key.empty() && op.key.size() <= kIndexKeyBytesMax);
  CAIRN_CHECK(op.value.size() <= kIndexValueBytesMax);
  CAIRN_CHECK(op.kind == IndexOp::Kind::kPut || op.value.empty());
  char header[kOpHeaderBytes];
  StoreLe(header, static_cast<uint8_t>(op.kind));
  StoreLe(header + 1, static_cast<uint16_t>(op.key.size()));
  StoreLe(header + 3, static_cast<uint32_t>(op.value.size()));
  body->append(header, kOpHeaderBytes);
  body->append(op.key);
  body->append(op.value);
}

absl::StatusOr<std::vector<IndexOp>> DecodeOps(std::string_view body) {
  std::vector<IndexOp> ops;
  while (!body.empty()) {
    if (body.size() < kOpHeaderBytes) return Damaged("cut operation");
    IndexOp op;
    const auto kind = LoadLe<uint8_t>(body.data());
    const auto key_bytes = LoadLe<uint16_t>(body.data() + 1);
    const auto value_bytes = LoadLe<uint32_t>(body.data() + 3);
    body.remove_prefix(kOpHeaderBytes);
    if (kind != static_cast<uint8_t>(IndexOp::Kind::kPut) &&
        kind != static_cast<uint8_t>(IndexOp::Kind::kErase)) {
      return Damaged("unknown operation");
    }
    op.kind = static_cast<IndexOp::Kind>(kind);
    if (key_bytes == 0 || key_bytes > kIndexKeyBytesMax ||
        value_bytes > kIndexValueBytesMax ||
        uint64_t{key_bytes} + value_bytes > body.size() ||
        (op.kind == IndexOp::Kind::kErase && value_bytes != 0)) {
      return Damaged("wrong length of an operation");
    }
    op.key = body.substr(0, key_bytes);
    op.value = body.substr(key_bytes, value_bytes);
    body.remove_prefix(uint64_t{key_bytes} + value_bytes);
    ops.push_back(std::move(op));
  }
  return ops;
}

uint64_t FrameBytes(uint64_t body_bytes) {
  return (kIndexFrameHeaderBytes + body_bytes + kDiskAlignBytes - 1) /
         kDiskAlignBytes * kDiskAlignBytes;
}

}  // namespace

uint64_t IndexOpBytes(const IndexOp& op) {
  return kOpHeaderBytes + op.key.size() + op.value.size();
}

std::string EncodeIndexFrame(uint64_t sequence,
                             const std::vector<IndexOp>& ops) {
  CAIRN_CHECK(!ops.empty());
  std::string body;
  for (const IndexOp& op : ops) AppendOp(op, &body);
  CAIRN_CHECK(body.size() <= kIndexFrameBodyBytesMax);
  RawFrameHeader header;
  header.body_bytes = static_cast<uint32_t>(body.size());
  header.sequence = sequence;
  header.body_xxh3 = Xxh3(AsBytes(body));
  std::string frame(FrameBytes(body.size()), '\0');
  StoreLe(frame.data(), header);
  header.header_xxh3 =
      Xxh3(AsBytes(frame).first(offsetof(RawFrameHeader, header_xxh3)));
  StoreLe(frame.data(), header);
  std::memcpy(frame.data() + sizeof(header), body.data(), body.size());
  return frame;
}

absl::StatusOr<IndexFrame> DecodeIndexFrame(ConstBytes bytes) {
  if (bytes.size() < sizeof(RawFrameHeader)) return Damaged("cut header");
  const auto header = LoadLe<RawFrameHeader>(bytes.data());
  if (header.magic != kMagic) return Damaged("wrong magic");
  if (header.header_xxh3 !=
      Xxh3(bytes.first(offsetof(RawFrameHeader, header_xxh3)))) {
    return Damaged("header checksum differs");
  }
  if (header.version > kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("index log of version ", header.version,
                     ": newer than this program knows"));
  }
  if (header.version == 0) return Damaged("version 0");
  if (header.body_bytes == 0 || header.body_bytes > kIndexFrameBodyBytesMax ||
      FrameBytes(header.body_bytes) > bytes.size()) {
    return Damaged("wrong length");
  }
  const ConstBytes body = bytes.subspan(sizeof(header), header.body_bytes);
  if (header.body_xxh3 != Xxh3(body)) return Damaged("body checksum differs");
  IndexFrame frame;
  frame.sequence = header.sequence;
  frame.size_bytes = FrameBytes(header.body_bytes);
  CAIRN_ASSIGN_OR_RETURN(frame.ops, DecodeOps(AsText(body)));
  return frame;
}

}  // namespace cairn::format
