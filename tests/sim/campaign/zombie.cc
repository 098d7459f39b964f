#include "tests/sim/campaign/zombie.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/file/open.h"
#include "client/names/operations.h"
#include "tests/sim/campaign/client_pool.h"

namespace cairn::sim {

using io::Task;

namespace {

constexpr char kPath[] = "/zombie";
constexpr char kOtherPath[] = "/zombie-2";
constexpr uint8_t kZombieByte = 0xaa;
constexpr uint8_t kHeirByte = 0xbb;
constexpr uint64_t kBytes = 10'000;

struct Writer {
  SimClient* client;
  std::unique_ptr<client::OpenFile> file;
};

bool Must(Context* context, const absl::Status& status, std::string what) {
  if (status.ok()) return true;
  context->judge->Violation(absl::StrCat("before a zombie wakes, ", what,
                                         " fails: ", status.ToString()));
  return false;
}

Task<bool> OpenAndWrite(Context* context, Writer* writer, uint8_t byte) {
  const absl::Status started = co_await writer->client->Start();
  if (!Must(context, started, "a connect")) co_return false;
  client::OpenOptions options;
  options.write = true;
  options.create = true;
  auto opened =
      co_await client::OpenOnLoop(writer->client->core(), kPath, options);
  if (!Must(context, opened.status(), "an open")) co_return false;
  writer->file = *std::move(opened);
  const std::vector<uint8_t> bytes(kBytes, byte);
  const absl::Status written = co_await writer->file->Pwrite(0, bytes);
  if (!Must(context, written, "a write")) co_return false;
  const absl::Status published = co_await writer->file->Fsync();
  co_return Must(context, published, "an fsync");
}

void MustBeRefused(Context* context, const absl::Status& status,
                   const std::string& what) {
  if (absl::IsAborted(status)) return;
  context->judge->Violation(absl::StrCat("a process whose session was fenced ",
                                         what,
                                         ", and is told: ", status.ToString()));
}

// All that was under way, and something new.
Task<void> GoOn(Context* context, Writer* zombie) {
  client::Core* const core = zombie->client->core();
  const absl::Status published = co_await zombie->file->Fsync();
  MustBeRefused(context, published, "publishes what it wrote");
  const absl::Status renamed = co_await client::RenamePath(
      core, kPath, kOtherPath, false, core->Deadline());
  MustBeRefused(context, renamed, "renames a file");
}

Task<void> ExpectHeirsBytes(Context* context, Writer* heir) {
  std::vector<uint8_t> bytes(2 * kBytes);
  const auto got = co_await heir->file->Pread(0, bytes);
  if (!Must(context, got.status(), "a read")) co_return;
  bytes.resize(*got);
  if (bytes == std::vector<uint8_t>(kBytes, kHeirByte)) co_return;
  context->judge->Violation(absl::StrCat(
      "a file was changed by a process whose session was fenced: ", *got,
      " bytes"));
}

Task<void> End(Context* context, Writer* writer) {
  if (writer->file != nullptr) co_await writer->file->Finish();
  writer->file.reset();
  co_await context->cluster->StopClient(writer->client);
}

Task<void> Play(Context* context, Writer* zombie, Writer* heir) {
  const bool begun = co_await OpenAndWrite(context, zombie, kZombieByte);
  if (!begun) co_return;
  const std::vector<uint8_t> more(2 * kBytes, kZombieByte);
  const absl::Status written = co_await zombie->file->Pwrite(0, more);
  if (!Must(context, written, "a second write")) co_return;
  World* const world = context->world();
  const uint64_t session = zombie->client->core()->session();
  world->Pause(zombie->client->env());
  co_await context->clients->AwaitFenced(session);
  const bool inherited = co_await OpenAndWrite(context, heir, kHeirByte);
  world->Resume(zombie->client->env());
  if (!inherited) co_return;
  // Its renewals come first, as they do after a pause.
  co_await io::SleepFor(world, context->tunables->cluster.meta.lease_ns);
  co_await GoOn(context, zombie);
  co_await ExpectHeirsBytes(context, heir);
}

}  // namespace

Task<void> CheckZombie(Context* context) {
  SimCluster* const cluster = context->cluster;
  Writer zombie{cluster->AddClient("zombie"), nullptr};
  Writer heir{cluster->AddClient("heir"), nullptr};
  co_await Play(context, &zombie, &heir);
  if (context->judge->violated()) co_return;
  co_await End(context, &zombie);
  co_await End(context, &heir);
}

}  // namespace cairn::sim
