// Answers of targets that are damaged on their way.
#include "client/file/open.h"
#include "client/file/open_file.h"
#include "tests/support/co_assert.h"
#include "tests/unit/client/cluster_fixture.h"

namespace cairn::client {
namespace {

using io::Task;

Task<void> WriteAndOpen(Core* core, std::vector<uint8_t> bytes,
                        std::unique_ptr<OpenFile>* out) {
  OpenOptions options;
  options.write = true;
  options.create = true;
  auto file = co_await OpenOnLoop(core, "/f", options);
  CO_ASSERT_OK(file);
  const absl::Status written = co_await (*file)->Pwrite(0, bytes);
  CO_ASSERT_OK(written);
  const absl::Status synced = co_await (*file)->Fsync();
  CO_ASSERT_OK(synced);
  *out = *std::move(file);
}

Task<absl::Status> ReadBack(OpenFile* file, std::vector<uint8_t> expected) {
  std::vector<uint8_t> bytes(expected.size());
  const absl::StatusOr<uint64_t> got = co_await file->Pread(0, bytes);
  if (!got.ok()) co_return got.status();
  co_return bytes == expected ? absl::OkStatus()
                              : absl::InternalError("wrong bytes");
}

Task<bool> Close(OpenFile* file) {
  co_await file->Finish();
  co_return true;
}

// One copy only, so nothing else could answer: whatever byte it is, header,
// payload or trailer, the same target is asked again, and has lost nothing.
TEST_F(ClusterTest, FlippedBitAnywhereInAnAnswerIsMaskedByAskingAgain) {
  sim::ClusterOptions options;
  options.scheme = "replicate:1";
  options.targets = 1;
  MakeCluster(options);
  sim::SimClient* const client = cluster_->NewClient("reader");
  const std::vector<uint8_t> bytes(100, 0x5a);
  std::unique_ptr<OpenFile> file;
  cluster_->world()->Run(WriteAndOpen(client->core(), bytes, &file));
  ASSERT_NE(file, nullptr);
  ASSERT_OK(cluster_->Await(ReadBack(file.get(), bytes)));
  constexpr uint64_t kAnswerBytesMax = 300;  // And a little more.
  const auto flips = [this] {
    return cluster_->world()->faults().of(sim::FaultKind::kCorruptSegment);
  };
  for (uint64_t at = 0; at < kAnswerBytesMax; ++at) {
    SCOPED_TRACE(absl::StrCat("byte ", at));
    sim::StreamFault fault;
    fault.kind = sim::StreamFault::Kind::kFlip;
    fault.from = cluster_->TargetNode(1);
    fault.to = client->env()->node();
    fault.after_bytes = at;
    cluster_->world()->network()->Fail(fault);
    EXPECT_OK(cluster_->Await(ReadBack(file.get(), bytes)));
    cluster_->world()->network()->ClearFaults();
  }
  // Header, body, 100 bytes and two words of trailer at least.
  EXPECT_GT(flips(), 64 + 100 + 16);
  cluster_->Await(Close(file.get()));
}

}  // namespace
}  // namespace cairn::client
