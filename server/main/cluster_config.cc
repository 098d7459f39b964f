#include "server/main/cluster_config.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "format/base/status.h"
#include "nlohmann/json.hpp"

namespace cairn::server {

using nlohmann::json;

namespace {
constexpr int kConfigVersion = 1;

absl::Status Damaged(const std::string& what) {
  return absl::DataLossError(absl::StrCat("cluster.json: ", what));
}
}  // namespace

std::string ConfigPath(const std::string& directory) {
  return absl::StrCat(directory, "/cluster.json");
}
std::string MetaPath(const std::string& directory) {
  return absl::StrCat(directory, "/meta");
}

std::string EncodeConfig(const ClusterConfig& config) {
  json root;
  root["version"] = kConfigVersion;
  root["cluster_id"] = ToString(config.cluster_id);
  root["targets"] = json::array();
  for (const TargetPlace& target : config.targets) {
    root["targets"].push_back({{"id", target.id.value},
                               {"directory", target.directory},
                               {"disk_generation", target.disk_generation}});
  }
  return root.dump(2) + "\n";
}

absl::StatusOr<ClusterConfig> DecodeConfig(const std::string& text) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object() || !root.contains("version") ||
      !root["version"].is_number_unsigned()) {
    return Damaged("not a JSON object with a version");
  }
  if (root["version"] > kConfigVersion) {
    return absl::FailedPreconditionError(
        "cluster.json is of a newer version: use the cairnd that made it");
  }
  if (!root.contains("cluster_id") || !root["cluster_id"].is_string() ||
      !root.contains("targets") || !root["targets"].is_array()) {
    return Damaged("cluster_id or targets missing");
  }
  ClusterConfig config;
  CAIRN_ASSIGN_OR_RETURN(
      config.cluster_id,
      format::ParseClusterId(root["cluster_id"].get<std::string>()));
  for (const json& entry : root["targets"]) {
    if (!entry.is_object() || !entry.contains("id") ||
        !entry["id"].is_number_unsigned() || !entry.contains("directory") ||
        !entry["directory"].is_string()) {
      return Damaged("a target without id or directory");
    }
    TargetPlace place;
    place.id = format::TargetId(entry["id"].get<uint32_t>());
    place.directory = entry["directory"].get<std::string>();
    place.disk_generation = entry.value("disk_generation", uint64_t{1});
    config.targets.push_back(std::move(place));
  }
  return config;
}

absl::StatusOr<ClusterConfig> LoadConfig(const std::string& directory) {
  std::ifstream file(ConfigPath(directory), std::ios::binary);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat(directory,
                     " holds no cluster (no cluster.json); make one with: "
                     "cairnd init --dir ",
                     directory));
  }
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  absl::StatusOr<ClusterConfig> config = DecodeConfig(text);
  if (!config.ok()) return Annotate(config.status(), directory);
  return config;
}

namespace {
absl::Status Failed(const std::string& path, const char* what) {
  return absl::InternalError(
      absl::StrCat(path, ": ", what, ": ", std::strerror(errno)));
}
}  // namespace

absl::Status SaveConfig(const std::string& directory,
                        const ClusterConfig& config) {
  const std::string path = ConfigPath(directory);
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0 && errno == EEXIST) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists"));
  }
  if (fd < 0) return Failed(path, "create");
  const std::string text = EncodeConfig(config);
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool synced = written && fsync(fd) == 0;
  close(fd);
  const int dir = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool dir_synced = dir >= 0 && fsync(dir) == 0;
  if (dir >= 0) close(dir);
  if (!synced || !dir_synced) return Failed(path, "write");
  return absl::OkStatus();
}

}  // namespace cairn::server
