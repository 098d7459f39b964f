// FileCore: the loop's OpenFile, reached from any thread.
#pragma once

#include <memory>
#include <string>

#include "client/core/cluster_core.h"
#include "client/file/open_file.h"

namespace cairn::client {

class FileCore {
 public:
  FileCore(ClusterCore* cluster, std::string path,
           std::unique_ptr<OpenFile> file)
      : cluster_(cluster), path_(std::move(path)), file_(std::move(file)) {}
  ~FileCore();

  template <typename T>
  T Run(std::function<io::Task<T>(OpenFile*)> make) {
    OpenFile* const file = file_.get();
    return cluster_->Run<T>(
        [file, make = std::move(make)](Core*) { return make(file); });
  }
  const std::string& path() const { return path_; }
  OpenFile* file() { return file_.get(); }

 private:
  ClusterCore* const cluster_;
  const std::string path_;
  std::unique_ptr<OpenFile> file_;  // Destroyed on the loop.
};

}  // namespace cairn::client
