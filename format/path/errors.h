// Phrases in messages of namespace errors, for what a status code alone does
// not say. Servers put exactly one of them in; clients look for them to choose
// an errno. Part of the wire contract: add, never change.
//
//   kFailedPrecondition  kErrNotEmpty, kErrIsDirectory, kErrNotDirectory,
//                        kErrNotSymlink, kErrSetImmutable
//   kInvalidArgument     kErrIntoItself
//   kResourceExhausted   kErrTooManyLinks
//   kAborted             kErrMapChanged
#pragma once

#include <string_view>

namespace cairn::format {

inline constexpr std::string_view kErrNotEmpty = "directory not empty";
inline constexpr std::string_view kErrIsDirectory = "is a directory";
inline constexpr std::string_view kErrNotDirectory = "not a directory";
inline constexpr std::string_view kErrNotSymlink = "not a symbolic link";
// EINVAL of rename(2): a directory into itself or below itself.
inline constexpr std::string_view kErrIntoItself = "into itself";
inline constexpr std::string_view kErrTooManyLinks = "too many links";
// A commit of chunks that were put under an older row of their PG table.
inline constexpr std::string_view kErrMapChanged = "map changed";
// Published checkpoint sets never change; remove them as a whole.
inline constexpr std::string_view kErrSetImmutable =
    "belongs to a checkpoint set, which cannot change";

}  // namespace cairn::format
