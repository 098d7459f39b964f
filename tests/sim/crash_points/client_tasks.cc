#include "tests/sim/crash_points/client_tasks.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/file/open.h"
#include "client/names/operations.h"
#include "tests/sim/cluster/cleanup.h"
#include "tests/sim/crash_points/stage.h"

namespace cairn::sim {

using io::Task;

std::string PatternBytes(uint64_t seed, uint64_t size_bytes) {
  Random random(seed);
  std::string bytes(size_bytes, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Next() >> 32);
  return bytes;
}

Task<absl::Status> WriteWhole(client::Core* core, std::string path,
                              std::string bytes) {
  client::OpenOptions options;
  options.write = true;
  options.create = true;
  options.truncate = true;
  CAIRN_CO_ASSIGN_OR_RETURN(
      const std::unique_ptr<client::OpenFile> file,
      co_await client::OpenOnLoop(core, std::move(path), options));
  absl::Status status = co_await file->Pwrite(0, format::AsBytes(bytes));
  if (status.ok()) status = co_await file->Fsync();
  co_await file->Finish();
  co_return status;
}

namespace {

Task<absl::StatusOr<std::string>> ReadOpened(client::OpenFile* file,
                                             uint64_t size_known) {
  const uint64_t size = file->size_bytes();
  std::vector<uint8_t> bytes(size + 1);  // One more: there is nothing there.
  CAIRN_CO_ASSIGN_OR_RETURN(const uint64_t got, co_await file->Pread(0, bytes));
  if (got != size || size != size_known) {
    co_return absl::InternalError(absl::StrCat("its size is ", size_known,
                                               " to stat, ", size, " to open, ",
                                               got, " to read"));
  }
  co_return std::string(bytes.begin(),
                        bytes.begin() + static_cast<ptrdiff_t>(got));
}

}  // namespace

Task<absl::StatusOr<std::optional<std::string>>> ReadWhole(client::Core* core,
                                                           std::string path) {
  std::optional<std::string> bytes;
  auto found = co_await client::FindPath(core, path, client::FollowLast::kNo,
                                         core->Deadline());
  if (!found.ok()) co_return found.status();
  if (!found->has_value()) co_return bytes;
  const client::OpenOptions options;
  CAIRN_CO_ASSIGN_OR_RETURN(const std::unique_ptr<client::OpenFile> file,
                            co_await client::OpenOnLoop(core, path, options));
  absl::StatusOr<std::string> read =
      co_await ReadOpened(file.get(), (*found)->size());
  co_await file->Finish();
  if (!read.ok()) co_return read.status();
  bytes = *std::move(read);
  co_return bytes;
}

client::CheckpointWriter::Options RankOptions(const SetSave& save,
                                              uint32_t rank) {
  client::CheckpointWriter::Options options;
  options.path = save.path;
  options.set_id = "set";
  options.attempt = save.attempt;
  options.world_size = save.ranks;
  options.rank = rank;
  return options;
}

namespace {

Task<void> SaveRank(Stage* stage, const SetSave* save, uint32_t rank,
                    absl::Status* first) {
  SimClient* const client = stage->AddClient(absl::StrCat("rank-", rank));
  absl::Status status = co_await client->Start();
  if (status.ok()) {
    status = co_await SaveSample(client->core(), RankOptions(*save, rank),
                                 save->model);
  }
  first->Update(status);
}

}  // namespace

Task<absl::Status> SaveWithNewClients(Stage* stage, SetSave save) {
  absl::Status first;
  io::Gate ranks(stage->world());
  for (uint32_t rank = 0; rank < save.ranks; ++rank) {
    ranks.Spawn(SaveRank(stage, &save, rank, &first));
  }
  co_await ranks.Close();
  co_return first;
}

}  // namespace cairn::sim
