// The superblock's file in a target's directory. docs/format/target.md.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "format/target/superblock.h"
#include "io/env.h"

namespace cairn::server {

inline constexpr char kSuperblockFileName[] = "superblock";

// kNotFound: no superblock: `dir` is not a target. Otherwise as
// format::DecodeSuperblock; a copy that cannot be read counts as damaged.
io::Task<absl::StatusOr<format::DecodedSuperblock>> ReadSuperblock(
    io::Env* env, std::string dir);

// Replaces it as one step; OK means on stable storage.
io::Task<absl::Status> WriteSuperblock(io::Env* env, std::string dir,
                                       format::Superblock superblock);

}  // namespace cairn::server
