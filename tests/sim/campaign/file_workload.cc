#include "tests/sim/campaign/file_workload.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/campaign/client_pool.h"
#include "tests/sim/campaign/file_writer.h"

namespace cairn::sim {

using io::Task;

namespace {

Task<void> RunOwner(FileOwner owner) {
  Context* const context = owner.context;
  while (owner.operations_left > 0 && !context->stopping) {
    SimClient* const client = co_await context->clients->Take("writer");
    if (client == nullptr) co_return;
    const uint64_t session = client->core()->session();
    FileWriter writer(&owner, client);
    co_await RunOn(context->world(), client, writer.Work());
    co_await context->clients->GiveBack(client);
    // Nothing of it may come late: then the next process can tell what is.
    co_await context->clients->AwaitFenced(session);
  }
}

}  // namespace

Task<void> FileWorkload::Run() {
  io::Gate gate(context_->world());
  const FileLoad& load = context_->tunables->files;
  for (uint32_t i = 0; i < load.writers; ++i) {
    FileOwner owner{context_,
                    context_->files->NewDirectory(absl::StrCat("/files/w", i)),
                    random_.Fork(), load.operations};
    gate.Spawn(RunOwner(owner));
  }
  co_await gate.Close();
}

}  // namespace cairn::sim
