#include "client/api/file.h"

#include "client/file/file_core.h"
#include "format/path/names.h"

namespace cairn::client {

using io::Task;

namespace {
Task<bool> FinishAndDestroy(std::unique_ptr<OpenFile>* file) {
  co_await (*file)->Finish();
  file->reset();
  co_return true;
}
Task<uint64_t> SizeOf(OpenFile* file) { co_return file->size_bytes(); }
}  // namespace

FileCore::~FileCore() {
  std::unique_ptr<OpenFile>* const file = &file_;
  cluster_->Run<bool>([file](Core*) { return FinishAndDestroy(file); });
}

File::File(std::unique_ptr<FileCore> core) : core_(std::move(core)) {}
File::~File() = default;

namespace {
absl::Status At(const FileCore& core, absl::Status status) {
  return Annotate(std::move(status), format::EscapeForDisplay(core.path()));
}
}  // namespace

absl::StatusOr<uint64_t> File::Pread(uint64_t offset, std::span<uint8_t> to) {
  auto read = core_->Run<absl::StatusOr<uint64_t>>(
      [=](OpenFile* file) { return file->Pread(offset, to); });
  if (!read.ok()) return At(*core_, read.status());
  return read;
}

absl::Status File::Pwrite(uint64_t offset, std::span<const uint8_t> from) {
  return At(*core_, core_->Run<absl::Status>([=](OpenFile* file) {
    return file->Pwrite(offset, from);
  }));
}

absl::StatusOr<uint64_t> File::Append(std::span<const uint8_t> from) {
  auto at = core_->Run<absl::StatusOr<uint64_t>>(
      [=](OpenFile* file) { return file->Append(from); });
  if (!at.ok()) return At(*core_, at.status());
  return at;
}

absl::Status File::Truncate(uint64_t size_bytes) {
  return At(*core_, core_->Run<absl::Status>([=](OpenFile* file) {
    return file->Truncate(size_bytes);
  }));
}

absl::Status File::Fsync() {
  return At(*core_, core_->Run<absl::Status>(
                        [](OpenFile* file) { return file->Fsync(); }));
}

absl::Status File::Close() { return Fsync(); }

uint64_t File::inode() const { return core_->file()->inode(); }

absl::StatusOr<uint64_t> File::SizeBytes() {
  return core_->Run<uint64_t>(SizeOf);
}

}  // namespace cairn::client
