// The file a rank writes: a safetensors header, then each tensor's dense bytes.
//
// The data area starts at a multiple of 4096, so that tools that map the file
// find page-aligned data. Names are the tensors'; a rank's second slice of one
// tensor gets a "#2" behind its name in the file (the manifest keeps the true
// name). docs/format/manifest.md#rank-files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/tensor_layout.h"
#include "format/checkpoint/manifest.h"

namespace cairn::client {

// Something that goes into the file.
struct RankItem {
  std::string name;
  format::EntryKind kind = format::EntryKind::kTensor;
  TensorLayout layout;
  const uint8_t* data = nullptr;  // First element of a tensor.
  std::string opaque;             // Bytes of an opaque entry.
};

// A run of the file's bytes: the header, or one item.
struct RankSegment {
  uint64_t file_offset = 0;
  uint64_t length = 0;
  int item = -1;  // -1: the header.
};

struct RankFile {
  std::string header;
  std::vector<RankSegment> segments;  // In file order, no gaps.
  uint64_t size_bytes = 0;
};

// kInvalidArgument: an opaque entry shares its name with another entry, a
// header too long...
absl::StatusOr<RankFile> PlanRankFile(const std::vector<RankItem>& items);

// `xxh3[i]` is the checksum of items[i].
format::ManifestPart MakeManifestPart(uint32_t rank, const RankFile& file,
                                      const std::vector<RankItem>& items,
                                      const std::vector<uint64_t>& xxh3);

}  // namespace cairn::client
