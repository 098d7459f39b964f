#include "client/checkpoint/set_reader.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/file/extents.h"
#include "format/base/fault_points.h"
#include "format/checkpoint/set_state.h"
#include "format/path/names.h"
#include "format/wire/meta.pb.h"

namespace cairn::client {

using format::Method;
using format::TensorEntry;
using io::Task;
using io::TimeNs;
using Entries = std::shared_ptr<const std::vector<TensorEntry>>;

SetSummary ToSummary(const wire::SetInfo& info) {
  SetSummary summary;
  summary.path = info.path();
  summary.set_id = info.set_id();
  summary.attempt = info.attempt();
  summary.world_size = info.world_size();
  summary.published =
      info.state() == static_cast<uint32_t>(format::SetState::kPublished);
  summary.committed_ranks = info.committed_ranks();
  summary.missing_ranks.assign(info.missing_ranks().begin(),
                               info.missing_ranks().end());
  summary.bytes = info.bytes();
  summary.tensors = info.tensors();
  summary.published_ns = info.published_wall_ns();
  return summary;
}

Task<absl::StatusOr<std::unique_ptr<SetReader>>> SetReader::Open(
    Core* core, std::string path, TimeNs deadline) {
  wire::GetSetRequest request;
  request.set_path(path);
  auto response = co_await core->Query<wire::GetSetResponse>(Method::kGetSet,
                                                             request, deadline);
  if (!response.ok()) co_return response.status();
  SetSummary summary = ToSummary(response->set());
  if (!summary.published) {
    co_return absl::NotFoundError(
        absl::StrCat("not published: ", summary.committed_ranks, " of ",
                     summary.world_size, " ranks have committed; missing: ",
                     absl::StrJoin(summary.missing_ranks, ", ")));
  }
  absl::StatusOr<format::ManifestHeader> header =
      format::DecodeManifestHeader(response->manifest_header());
  if (!header.ok()) co_return header.status();
  co_return std::unique_ptr<SetReader>(new SetReader(
      core, std::move(summary), response->set().inode(), *std::move(header)));
}

Task<absl::StatusOr<Entries>> SetReader::Block(uint32_t block,
                                               TimeNs deadline) {
  const auto kept = blocks_.find(block);
  if (kept != blocks_.end() &&
      !CAIRN_FAULT_POINT("client.load.block_forgotten")) {
    co_return kept->second;
  }
  wire::GetManifestRequest request;
  request.set_inode(inode_);
  request.set_first_block(block);
  request.set_count(1);
  auto response = co_await core_->Query<wire::GetManifestResponse>(
      Method::kGetManifest, request, deadline);
  if (!response.ok()) co_return response.status();
  if (response->blocks_size() != 1) {
    co_return absl::DataLossError(
        absl::StrCat("manifest block ", block, " is missing"));
  }
  absl::StatusOr<std::vector<TensorEntry>> entries =
      format::DecodeManifestBlock(response->blocks(0));
  if (!entries.ok()) co_return entries.status();
  if (blocks_.size() >= kManifestBlocksKept) blocks_.erase(blocks_.begin());
  auto shared =
      std::make_shared<const std::vector<TensorEntry>>(*std::move(entries));
  blocks_[block] = shared;
  co_return Entries(shared);
}

Task<absl::StatusOr<std::optional<TensorEntry>>> SetReader::FindEntry(
    std::string name, TimeNs deadline) {
  const std::optional<uint32_t> block = format::FindBlock(header_, name);
  if (!block.has_value()) co_return std::nullopt;
  absl::StatusOr<Entries> entries = co_await Block(*block, deadline);
  if (!entries.ok()) co_return entries.status();
  const auto found = std::lower_bound(
      (*entries)->begin(), (*entries)->end(), name,
      [](const TensorEntry& e, const std::string& n) { return e.name < n; });
  if (found == (*entries)->end() || found->name != name) {
    co_return std::nullopt;
  }
  co_return std::optional<TensorEntry>(*found);
}

Task<absl::StatusOr<const format::ExtentMap*>> SetReader::FileExtents(
    uint32_t rank, TimeNs deadline) {
  const auto kept = files_.find(rank);
  if (kept != files_.end()) co_return kept->second.get();
  wire::LookupRequest request;
  request.set_parent(inode_);
  request.set_name(absl::StrFormat("rank-%05u.safetensors", rank));
  auto file = co_await core_->Query<wire::LookupResponse>(Method::kLookup,
                                                          request, deadline);
  if (!file.ok()) co_return Annotate(file.status(), request.name());
  absl::StatusOr<format::ExtentMap> extents =
      co_await FetchExtents(core_, file->attributes().inode(), deadline);
  if (!extents.ok()) co_return Annotate(extents.status(), request.name());
  auto& place = files_[rank];
  place = std::make_unique<format::ExtentMap>(*std::move(extents));
  co_return place.get();
}

}  // namespace cairn::client
