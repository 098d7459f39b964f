// MetadataCopy: an old copy of the metadata store, as somebody might put back
// after a loss. A service that starts on it must notice and refuse: otherwise
// files that were acknowledged are silently gone, and chunks are deleted that
// only the newer state refers to.
//
// Lifetime: the context outlives it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/meta/kv/model_kv.h"
#include "tests/sim/campaign/context.h"

namespace cairn::sim {

class MetadataCopy {
 public:
  // Of now.
  explicit MetadataCopy(Context* context);

  // Starts the service on the copy, once with its own mark as it is while no
  // target runs, and once with the copy of that, too: then only the targets,
  // which were started anew, know how far it was. Last of all: the metadata
  // node stays down.
  io::Task<void> CheckRefused();

 private:
  using Files = std::map<std::string, std::vector<uint8_t>>;  // By path.

  Files ReadMarks() const;
  void PutMarksBack() const;
  void KillTargets();
  io::Task<bool> StartTargets();
  io::Task<bool> CheckStart(std::string with);

  Context* const context_;
  const server::ModelKvDisk store_;
  const Files marks_;
};

}  // namespace cairn::sim
