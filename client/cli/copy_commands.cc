// cairn cp, cairn cat.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/api/file.h"
#include "client/cli/context.h"
#include "client/cli/local_file.h"
#include "client/cli/paths.h"
#include "client/cli/progress.h"
#include "client/cli/text.h"
#include "format/base/limits.h"
#include "format/base/status.h"
#include "format/path/names.h"

namespace cairn::client::cli {

namespace {

// A few stripes of any pool in flight at once.
constexpr uint64_t kCopyBytes = 64 * format::kMiB;

struct CopyArguments {
  std::vector<std::string> paths;  // Sources, then the destination.
  bool recursive = false;
};

class Copier {
 public:
  Copier(Cluster* cluster, bool recursive)
      : cluster_(cluster), recursive_(recursive), progress_("cp") {}

  absl::Status Copy(const std::string& from, const std::string& to);

 private:
  absl::Status Upload(const std::string& from, const std::string& to);
  absl::Status UploadTree(const std::string& from, const std::string& to);
  absl::Status Download(const std::string& from, const std::string& to);
  absl::Status DownloadTree(const std::string& from, const std::string& to);
  absl::Status Transfer(File* from, File* to, uint64_t size);
  absl::Status CopyInside(const std::string& from, const std::string& to);
  absl::Status UploadBytes(LocalFile* from, const std::string& to,
                           uint64_t size);
  std::span<uint8_t> Buffer(uint64_t size) {
    if (buffer_ == nullptr)
      buffer_ = std::make_unique<AlignedMemory>(kCopyBytes);
    return buffer_->bytes().first(std::min(size, kCopyBytes));
  }
  void Count(uint64_t bytes) { progress_.Update(done_ += bytes, 0); }

  Cluster* const cluster_;
  const bool recursive_;
  Progress progress_;
  uint64_t done_ = 0;
  std::unique_ptr<AlignedMemory> buffer_;
};

// New content appears under its name at once and whole, or not at all.
std::string TemporaryBeside(const std::string& path) {
  const size_t slash = path.rfind('/');
  return absl::StrCat(path.substr(0, slash + 1), ".cairn-cp-", getpid(), "-",
                      path.substr(slash + 1).substr(0, 200));
}

absl::Status Copier::UploadBytes(LocalFile* from, const std::string& to,
                                 uint64_t size) {
  OpenOptions options;
  options.write = options.create = options.truncate = true;
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                         cluster_->Open(to, options));
  for (uint64_t at = 0; at < size;) {
    const std::span<uint8_t> part = Buffer(size - at);
    CAIRN_RETURN_IF_ERROR(from->ReadAt(at, part));
    CAIRN_RETURN_IF_ERROR(file->Pwrite(at, part));
    at += part.size();
    Count(part.size());
  }
  return file->Close();
}

absl::Status Copier::Upload(const std::string& from, const std::string& to) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<LocalFile> local,
                         LocalFile::OpenForRead(from));
  CAIRN_ASSIGN_OR_RETURN(const std::string path,
                         IntoDirectory(cluster_, to, from));
  const std::string temporary = TemporaryBeside(path);
  absl::Status status =
      UploadBytes(local.get(), temporary, local->size_bytes());
  if (status.ok()) status = cluster_->Rename(temporary, path);
  if (!status.ok()) (void)cluster_->Unlink(temporary);
  return status;
}

absl::Status Copier::UploadTree(const std::string& from,
                                const std::string& to) {
  CAIRN_ASSIGN_OR_RETURN(const std::string top,
                         IntoDirectory(cluster_, to, from));
  CAIRN_RETURN_IF_ERROR(cluster_->MakeDirectory(top, true));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(from, error)) {
    const std::string below =
        absl::StrCat(top, "/", entry.path().filename().string());
    if (entry.is_directory(error)) {
      CAIRN_RETURN_IF_ERROR(cluster_->MakeDirectory(below, true));
      CAIRN_RETURN_IF_ERROR(UploadTree(entry.path().string(), top));
    } else if (entry.is_regular_file(error)) {
      CAIRN_RETURN_IF_ERROR(Upload(entry.path().string(), below));
    }
  }
  if (error) {
    return absl::InternalError(absl::StrCat(from, ": ", error.message()));
  }
  return absl::OkStatus();
}

absl::Status Copier::Download(const std::string& from, const std::string& to) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file, cluster_->Open(from, {}));
  CAIRN_ASSIGN_OR_RETURN(const uint64_t size, file->SizeBytes());
  std::error_code error;
  const std::string path = std::filesystem::is_directory(to, error)
                               ? absl::StrCat(to, "/", BaseName(from))
                               : to;
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<LocalFile> local,
                         LocalFile::CreateBeside(path));
  for (uint64_t at = 0; at < size;) {
    const std::span<uint8_t> part = Buffer(size - at);
    CAIRN_ASSIGN_OR_RETURN(const uint64_t got, file->Pread(at, part));
    if (got == 0) break;  // Truncated meanwhile.
    CAIRN_RETURN_IF_ERROR(local->WriteAt(at, part.first(got)));
    at += got;
    Count(got);
  }
  return local->Commit();
}

absl::Status Copier::DownloadTree(const std::string& from,
                                  const std::string& to) {
  std::error_code error;
  const std::string top = std::filesystem::is_directory(to, error)
                              ? absl::StrCat(to, "/", BaseName(from))
                              : to;
  std::filesystem::create_directories(top, error);
  if (error) {
    return absl::InternalError(absl::StrCat(top, ": ", error.message()));
  }
  std::vector<DirectoryEntry> entries;
  CAIRN_RETURN_IF_ERROR(cluster_->List(from, [&](const DirectoryEntry& e) {
    entries.push_back(e);
    return true;
  }));
  for (const DirectoryEntry& entry : entries) {
    const std::string below = absl::StrCat(from, "/", entry.name);
    if (entry.stat.type == EntryType::kDirectory) {
      CAIRN_RETURN_IF_ERROR(DownloadTree(below, top));
    } else if (entry.stat.type == EntryType::kFile) {
      CAIRN_RETURN_IF_ERROR(Download(below, top));
    }
  }
  return absl::OkStatus();
}

absl::Status Copier::Transfer(File* from, File* to, uint64_t size) {
  for (uint64_t at = 0; at < size;) {
    const std::span<uint8_t> part = Buffer(size - at);
    CAIRN_ASSIGN_OR_RETURN(const uint64_t got, from->Pread(at, part));
    if (got == 0) break;
    CAIRN_RETURN_IF_ERROR(to->Pwrite(at, part.first(got)));
    at += got;
    Count(got);
  }
  return to->Close();
}

absl::Status Copier::CopyInside(const std::string& from,
                                const std::string& to) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> source,
                         cluster_->Open(from, {}));
  CAIRN_ASSIGN_OR_RETURN(const uint64_t size, source->SizeBytes());
  CAIRN_ASSIGN_OR_RETURN(const std::string path,
                         IntoDirectory(cluster_, to, from));
  const std::string temporary = TemporaryBeside(path);
  OpenOptions options;
  options.write = options.create = options.truncate = true;
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> target,
                         cluster_->Open(temporary, options));
  absl::Status status = Transfer(source.get(), target.get(), size);
  if (status.ok()) status = cluster_->Rename(temporary, path);
  if (!status.ok()) (void)cluster_->Unlink(temporary);
  return status;
}

absl::Status Copier::Copy(const std::string& from, const std::string& to) {
  const std::string source = StripPrefix(from);
  const std::string target = StripPrefix(to);
  if (IsClusterPath(from) && IsClusterPath(to)) {
    return CopyInside(source, target);
  }
  if (IsClusterPath(from)) {
    CAIRN_ASSIGN_OR_RETURN(const Stat stat, cluster_->GetStat(source));
    if (stat.type != EntryType::kDirectory) return Download(source, target);
    if (recursive_) return DownloadTree(source, target);
  } else if (IsClusterPath(to)) {
    std::error_code error;
    if (!std::filesystem::is_directory(source, error)) {
      return Upload(source, target);
    }
    if (recursive_) return UploadTree(source, target);
  } else {
    return absl::InvalidArgumentError(
        "both paths are local; write cluster paths as cairn:/PATH");
  }
  return absl::FailedPreconditionError(
      absl::StrCat(from, " is a directory; copy it with cp -r"));
}

absl::Status RunCopy(const Context& context, const CopyArguments& arguments) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  Copier copier(cluster.get(), arguments.recursive);
  for (size_t i = 0; i + 1 < arguments.paths.size(); ++i) {
    CAIRN_RETURN_IF_ERROR(
        copier.Copy(arguments.paths[i], arguments.paths.back()));
  }
  return absl::OkStatus();
}

absl::Status RunCat(const Context& context, const CopyArguments& arguments) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  AlignedMemory buffer(16 * format::kMiB);
  for (const std::string& path : arguments.paths) {
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                           cluster->Open(StripPrefix(path), {}));
    for (uint64_t at = 0;;) {
      CAIRN_ASSIGN_OR_RETURN(const uint64_t got,
                             file->Pread(at, buffer.bytes()));
      if (got == 0) break;
      if (std::fwrite(buffer.bytes().data(), 1, got, stdout) != got) {
        return absl::InternalError(
            absl::StrCat("standard output: ", std::strerror(errno)));
      }
      at += got;
    }
  }
  if (std::fflush(stdout) != 0) {
    return absl::InternalError(
        absl::StrCat("standard output: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace

void AddCopyCommands(CLI::App* app, Context* context) {
  auto arguments = std::make_shared<CopyArguments>();
  auto* cp = app->add_subcommand(
      "cp", "Copy files to, from and inside the cluster (cairn:/PATH)");
  cp->add_option("paths", arguments->paths, "FROM... TO")
      ->required()
      ->expected(2, 100000);
  cp->add_flag("-r,--recursive", arguments->recursive, "Directories too");
  cp->footer(
      "Examples:\n  cairn cp big.bin cairn:/data/\n"
      "  cairn cp cairn:/data/big.bin .\n"
      "  cairn cp -r ./dataset cairn:/data/\n");
  cp->callback([context, arguments] {
    context->run = [context, arguments] {
      return RunCopy(*context, *arguments);
    };
  });
  auto* cat = app->add_subcommand("cat", "Write files to standard output");
  cat->add_option("path", arguments->paths)->required();
  cat->callback([context, arguments] {
    context->run = [context, arguments] {
      return RunCat(*context, *arguments);
    };
  });
}

}  // namespace cairn::client::cli
