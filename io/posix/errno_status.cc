#include "io/posix/errno_status.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "format/base/status.h"

namespace cairn::io {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EEXIST:
    case EADDRINUSE:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:  // Over the process's limit of file size.
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
      return absl::StatusCode::kResourceExhausted;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENOTCONN:
    case ESHUTDOWN:
    case ETIMEDOUT:  // TCP gave up on the peer.
    case ENETDOWN:
    case ENETUNREACH:
    case ENETRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
      return absl::StatusCode::kUnavailable;
    case EINVAL:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return absl::StatusCode::kInvalidArgument;
    case EIO:
    case EBADMSG:
    case EUCLEAN:  // The file system found itself damaged.
    case EREMOTEIO:
    case EILSEQ:  // The device's integrity check failed.
      return absl::StatusCode::kDataLoss;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

std::string ErrnoName(int error) {
  const char* const name = strerrorname_np(error);
  return name != nullptr ? name : absl::StrCat("errno ", error);
}

absl::Status ErrnoStatus(int error, std::string_view what) {
  CAIRN_CHECK(error > 0);
  const char* const text = strerrordesc_np(error);
  return absl::Status(CodeOf(error),
                      absl::StrCat(AbslText(what), ": ", ErrnoName(error), " (",
                                   text != nullptr ? text : "unknown", ")"));
}

bool IsTransient(int error) { return error == EINTR || error == EAGAIN; }

}  // namespace cairn::io
