// A published set, on the loop: its manifest, block by block, and its files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/api/checkpoint.h"
#include "client/core/core.h"
#include "format/checkpoint/manifest.h"
#include "format/extent/extent_map.h"
#include "format/wire/checkpoint.pb.h"
#include "io/task.h"

namespace cairn::client {

class SetReader {
 public:
  // kNotFound: nothing published at `path`; the message tells an open attempt.
  static io::Task<absl::StatusOr<std::unique_ptr<SetReader>>> Open(
      Core* core, std::string path, io::TimeNs deadline);

  const SetSummary& summary() const { return summary_; }
  const format::ManifestHeader& header() const { return header_; }

  // Entries of one block of the manifest; the last few blocks are kept.
  io::Task<
      absl::StatusOr<std::shared_ptr<const std::vector<format::TensorEntry>>>>
  Block(uint32_t block, io::TimeNs deadline);
  // nullopt: no such name.
  io::Task<absl::StatusOr<std::optional<format::TensorEntry>>> FindEntry(
      std::string name, io::TimeNs deadline);

  // Where the bytes of a rank's file are; kept after the first time.
  io::Task<absl::StatusOr<const format::ExtentMap*>> FileExtents(
      uint32_t rank, io::TimeNs deadline);

 private:
  SetReader(Core* core, SetSummary summary, uint64_t inode,
            format::ManifestHeader header)
      : core_(core),
        summary_(std::move(summary)),
        inode_(inode),
        header_(std::move(header)) {}

  Core* const core_;
  const SetSummary summary_;
  const uint64_t inode_;
  const format::ManifestHeader header_;
  std::map<uint32_t, std::shared_ptr<const std::vector<format::TensorEntry>>>
      blocks_;
  std::map<uint32_t, std::unique_ptr<format::ExtentMap>> files_;
};

SetSummary ToSummary(const wire::SetInfo& info);

}  // namespace cairn::client
