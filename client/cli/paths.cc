#include "client/cli/paths.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "format/base/status.h"

namespace cairn::client::cli {

namespace {
constexpr char kPrefix[] = "cairn:";
}

bool IsClusterPath(const std::string& path) {
  return absl::StartsWith(path, kPrefix);
}

std::string StripPrefix(const std::string& path) {
  return IsClusterPath(path) ? path.substr(sizeof(kPrefix) - 1) : path;
}

std::string BaseName(const std::string& path) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  return trimmed.substr(trimmed.rfind('/') + 1);
}

absl::StatusOr<std::string> IntoDirectory(Cluster* cluster,
                                          const std::string& to,
                                          const std::string& from) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<Stat> stat, cluster->Find(to));
  const bool slash = !to.empty() && to.back() == '/';
  if (!stat.has_value() || stat->type != EntryType::kDirectory) {
    if (slash && !stat.has_value()) {
      return absl::NotFoundError(absl::StrCat(
          to, ": no such directory; make it with: cairn mkdir -p ", to));
    }
    return to;
  }
  return absl::StrCat(to, slash ? "" : "/", BaseName(from));
}

}  // namespace cairn::client::cli
