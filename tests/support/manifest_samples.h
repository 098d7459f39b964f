// Manifests to test with: small ones by hand, and changed encodings.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "format/checkpoint/manifest.h"

namespace cairn::testing {

// A slice of an entry; its length follows from dtype and shape.
format::TensorPart SliceOf(const format::TensorEntry& entry, uint32_t rank,
                           std::vector<uint64_t> offset,
                           std::vector<uint64_t> shape, uint64_t xxh3 = 7);

// An entry without slices.
format::TensorEntry Tensor(std::string name, format::Dtype dtype,
                           std::vector<uint64_t> shape);
// Opaque bytes of one rank.
format::TensorEntry Opaque(std::string name, uint32_t rank, uint64_t bytes);

// One of everything: scalars, empty tensors, sub-byte types, several slices,
// opaque bytes, names that share beginnings. Part of rank 3 of 4.
format::ManifestPart SamplePart();
// A block of tensors with slices of several ranks.
std::vector<format::TensorEntry> SampleBlock();
format::ManifestHeader SampleHeader();

// `record` with its body changed and length and checksum made right again.
std::string WithBody(std::string record,
                     const std::function<void(std::string*)>& change);
// The same for the version.
std::string WithVersion(std::string record, uint16_t version);

}  // namespace cairn::testing
