// A local safetensors file: its header, and slices of its tensors.
#pragma once

#include <memory>
#include <string>

#include "client/cli/local_file.h"
#include "format/checkpoint/slice.h"
#include "format/safetensors/safetensors.h"

namespace cairn::client::cli {

class ModelFile {
 public:
  // kInvalidArgument: not a safetensors file; the message has the reason.
  static absl::StatusOr<std::unique_ptr<ModelFile>> Open(
      const std::string& path);

  const format::SafetensorsHeader& header() const { return header_; }
  const std::string& path() const { return path_; }

  // The dense bytes of a slice of an entry.
  absl::Status ReadSlice(const format::SafetensorsEntry& entry,
                         const format::Slice& slice, std::span<uint8_t> to);

 private:
  ModelFile(std::string path, std::unique_ptr<LocalFile> file,
            format::SafetensorsHeader header)
      : path_(std::move(path)),
        file_(std::move(file)),
        header_(std::move(header)) {}
  const std::string path_;
  const std::unique_ptr<LocalFile> file_;
  const format::SafetensorsHeader header_;
};

}  // namespace cairn::client::cli
