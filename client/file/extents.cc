#include "client/file/extents.h"

namespace cairn::client {

void FillExtent(const format::Extent& extent, wire::Extent* out) {
  out->set_file_offset(extent.file_offset);
  out->set_length(extent.length);
  out->set_blob(extent.blob.value);
  out->set_blob_offset(extent.blob_offset);
}

namespace {
absl::Status AddPage(const wire::GetExtentsResponse& page, uint64_t* from,
                     format::ExtentMap* extents) {
  for (const wire::Extent& extent : page.extents()) {
    const uint64_t end = extent.file_offset() + extent.length();
    if (extent.length() == 0 || extent.file_offset() < *from ||
        end < extent.file_offset()) {
      return absl::DataLossError("the server sent an impossible extent");
    }
    extents->Write({extent.file_offset(), extent.length(),
                    format::BlobId(extent.blob()), extent.blob_offset()});
    *from = end;
  }
  return absl::OkStatus();
}
}  // namespace

io::Task<absl::StatusOr<format::ExtentMap>> FetchExtents(
    Core* core, uint64_t inode, io::TimeNs deadline,
    wire::Attributes* attributes) {
  format::ExtentMap extents;
  uint64_t from = 0;
  while (true) {
    wire::GetExtentsRequest request;
    request.set_inode(inode);
    request.set_offset(from);
    request.set_length(UINT64_MAX - from);
    request.set_limit(kExtentsPerPage);
    auto page = co_await core->Query<wire::GetExtentsResponse>(
        format::Method::kGetExtents, request, deadline);
    if (!page.ok()) co_return page.status();
    if (attributes != nullptr) *attributes = page->attributes();
    CAIRN_CO_RETURN_IF_ERROR(AddPage(*page, &from, &extents));
    if (!page->more() || page->extents().empty()) co_return extents;
  }
}

}  // namespace cairn::client
