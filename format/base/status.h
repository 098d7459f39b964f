// Status macros and the checks that stay on in release.
//
// Expected failures (bad bytes, lost peers, full disks) travel as absl::Status;
// a broken invariant of our own code is CAIRN_CHECK, which ends the process.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cairn {

// Debian's Abseil has a string_view of its own. Interfaces here use the
// standard one; these cross over where Abseil is called or answers.
inline absl::string_view AbslText(std::string_view text) {
  return {text.data(), text.size()};
}
inline std::string_view StdText(absl::string_view text) {
  return {text.data(), text.size()};
}

// The same code, with `context` in front of the message: add it once, where
// the key, path or offset is known.
absl::Status Annotate(absl::Status status, std::string_view context);

[[noreturn]] void CheckFailed(const char* file, int line, const char* what);

inline absl::Status ToStatus(absl::Status status) { return status; }
template <typename T>
absl::Status ToStatus(absl::StatusOr<T>&& status_or) {
  return std::move(status_or).status();
}
template <typename T>
absl::Status ToStatus(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

}  // namespace cairn

#define CAIRN_CHECK(condition)                              \
  do {                                                      \
    if (!(condition)) [[unlikely]]                          \
      ::cairn::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)

#ifdef NDEBUG
#define CAIRN_DCHECK(condition) \
  do {                          \
  } while (false && (condition))
#else
#define CAIRN_DCHECK(condition) CAIRN_CHECK(condition)
#endif

#define CAIRN_CONCAT_INNER(a, b) a##b
#define CAIRN_CONCAT(a, b) CAIRN_CONCAT_INNER(a, b)

#define CAIRN_RETURN_IF_ERROR(expression)                           \
  do {                                                              \
    absl::Status cairn_status = ::cairn::ToStatus((expression));    \
    if (!cairn_status.ok()) [[unlikely]] return cairn_status;       \
  } while (false)

#define CAIRN_ASSIGN_OR_RETURN(lhs, expression)                          \
  auto CAIRN_CONCAT(cairn_or_, __LINE__) = (expression);                 \
  if (!CAIRN_CONCAT(cairn_or_, __LINE__).ok()) [[unlikely]]              \
    return std::move(CAIRN_CONCAT(cairn_or_, __LINE__)).status();        \
  lhs = *std::move(CAIRN_CONCAT(cairn_or_, __LINE__))

// The same for coroutines. `expression` may hold one co_await.
#define CAIRN_CO_RETURN_IF_ERROR(expression)                        \
  do {                                                              \
    absl::Status cairn_status = ::cairn::ToStatus((expression));    \
    if (!cairn_status.ok()) [[unlikely]] co_return cairn_status;    \
  } while (false)

#define CAIRN_CO_ASSIGN_OR_RETURN(lhs, expression)                       \
  auto CAIRN_CONCAT(cairn_or_, __LINE__) = (expression);                 \
  if (!CAIRN_CONCAT(cairn_or_, __LINE__).ok()) [[unlikely]]              \
    co_return std::move(CAIRN_CONCAT(cairn_or_, __LINE__)).status();     \
  lhs = *std::move(CAIRN_CONCAT(cairn_or_, __LINE__))
