#include "tests/sim/campaign/reader_workload.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/campaign/client_pool.h"
#include "tests/sim/campaign/file_reading.h"
#include "tests/sim/campaign/set_ledger.h"
#include "tests/sim/campaign/set_reading.h"

namespace cairn::sim {

using io::Task;

namespace {

struct Reader {
  Context* context;
  Random random;
};

Task<void> LookAtSets(Reader* reader, SimClient* client) {
  Context* const context = reader->context;
  const std::vector<std::string> paths = context->sets->Paths();
  if (paths.empty() || reader->random.OneIn(4)) {
    co_await ListAndCheck(context, client);
    co_return;
  }
  const std::string path = paths[reader->random.Below(paths.size())];
  const uint32_t ranks = static_cast<uint32_t>(reader->random.Between(1, 6));
  const uint32_t rank = static_cast<uint32_t>(reader->random.Below(ranks));
  (void)co_await LoadAndCheck(context, client, path, rank, ranks);
}

Task<void> LookAtFiles(Reader* reader, SimClient* client) {
  Context* const context = reader->context;
  const auto& directories = context->files->directories();
  if (directories.empty()) co_return;
  FileLook look;
  look.directory = directories[reader->random.Below(directories.size())].get();
  if (reader->random.OneIn(4)) {
    (void)co_await ListAndCheck(context, client, look.directory);
    co_return;
  }
  look.name =
      absl::StrCat("f", reader->random.Below(context->tunables->files.files));
  look.reads = static_cast<uint32_t>(reader->random.Between(1, 3));
  look.whole = reader->random.OneIn(2);
  look.random = reader->random.Next();
  (void)co_await ReadAndCheck(context, client, look);
}

Task<void> ReadAllTheTime(Reader* reader, SimClient* client) {
  Context* const context = reader->context;
  while (client->alive() && !context->stopping) {
    const bool sets =
        context->tunables->files.writers == 0 ||
        (context->tunables->checkpoints.runs > 0 && reader->random.OneIn(2));
    if (sets) {
      co_await LookAtSets(reader, client);
    } else {
      co_await LookAtFiles(reader, client);
    }
    const io::TimeNs pause =
        1 + reader->random.Below(context->tunables->readers.pause_max);
    co_await io::SleepFor(context->world(), pause);
  }
}

Task<void> RunReader(Reader reader) {
  Context* const context = reader.context;
  while (!context->stopping) {
    SimClient* const client = co_await context->clients->Take("reader");
    if (client == nullptr) co_return;
    co_await RunOn(context->world(), client, ReadAllTheTime(&reader, client));
    co_await context->clients->GiveBack(client);
  }
}

}  // namespace

Task<void> ReaderWorkload::Run() {
  io::Gate gate(context_->world());
  for (uint32_t i = 0; i < context_->tunables->readers.readers; ++i) {
    Reader reader{context_, random_.Fork()};
    gate.Spawn(RunReader(reader));
  }
  co_await gate.Close();
}

}  // namespace cairn::sim
