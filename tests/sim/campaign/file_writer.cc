#include "tests/sim/campaign/file_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/file/open.h"
#include "client/names/operations.h"
#include "tests/sim/campaign/file_reading.h"

namespace cairn::sim {

using io::Task;

namespace {
constexpr io::TimeNs kResolvePause = 300 * io::kMillisecond;
}  // namespace

Task<void> FileWriter::Work() {
  const bool taken = co_await TakeOver();
  if (!taken) co_return;
  while (client_->alive() && !context_->stopping &&
         owner_->operations_left > 0) {
    --owner_->operations_left;
    bool known = false;
    if (Below(4) == 0) {
      known = co_await ChangeNames();
    } else {
      known = co_await EditFile();
    }
    if (known) continue;
    // Half of them end, as a program that meets an error does.
    if (!client_->alive() || Below(2) == 0) co_return;
    const bool fenced = co_await Fence();
    if (!fenced) co_return;
    const bool resolved = co_await Resolve();
    if (!resolved) co_return;
  }
}

// --- Finding out.

Task<bool> FileWriter::TakeOver() {
  while (client_->alive()) {
    const io::TimeNs started = now();
    client::Core* const core = client_->core();
    const absl::Status made = co_await client::MakeDirectories(
        core, owner_->directory->path, 0755, core->Deadline());
    if (made.ok()) {
      owner_->directory->made = true;
      co_return co_await Resolve();
    }
    if (!client_->alive()) co_return false;
    JudgeError(*context_, started, made, owner_->directory->path + ": mkdir");
    if (absl::IsAborted(made)) co_return false;
    co_await io::SleepFor(context_->world(), kResolvePause);
  }
  co_return false;
}

Task<bool> FileWriter::Resolve() {
  const bool named = co_await ResolveNames();
  if (!named) co_return false;
  co_return co_await ResolveContents();
}

// Every change of names changes which there are: listing them tells.
Task<bool> FileWriter::ResolveNames() {
  LedgerDirectory* const directory = owner_->directory;
  while (directory->names.pending()) {
    if (!client_->alive()) co_return false;
    client::Core* const core = client_->core();
    const io::TimeNs started = now();
    auto found = co_await client::FindPath(
        core, directory->path, client::FollowLast::kNo, core->Deadline());
    absl::Status status = found.status();
    if (found.ok() && found->has_value()) {
      const auto page = co_await client::ListPage(core, (*found)->inode(), "",
                                                  core->Deadline());
      status = page.status();
      if (page.ok()) {
        size_t number = directory->names.current_number();
        const auto is = [&](size_t i) {
          return std::ranges::equal(page->entries, directory->names[i], {},
                                    &client::DirectoryEntry::name,
                                    &Names::value_type::first);
        };
        while (number + 1 < directory->names.size() && !is(number)) ++number;
        if (!is(number)) {
          context_->judge->Violation(directory->path +
                                     ": names of no state that can be");
          co_return false;
        }
        directory->names.Settle(number, now());
        for (const auto& [name, file] : directory->names.current()) {
          file->unlinking_since = 0;
        }
        co_return true;
      }
    }
    if (!client_->alive()) co_return false;
    JudgeError(*context_, started, status, directory->path + ": listing");
    co_await io::SleepFor(context_->world(), kResolvePause);
  }
  co_return true;
}

Task<bool> FileWriter::ResolveContents() {
  const Names names = owner_->directory->names.current();
  for (const auto& [name, file] : names) {
    if (!file->content.pending()) continue;
    const bool resolved = co_await ResolveContent(name, file);
    if (!resolved) co_return false;
  }
  co_return true;
}

Task<bool> FileWriter::ResolveContent(std::string name, LedgerFile* file) {
  while (client_->alive()) {
    const io::TimeNs started = now();
    client::OpenOptions options;
    auto opened =
        co_await client::OpenOnLoop(client_->core(), PathOf(name), options);
    absl::Status status = opened.status();
    if (opened.ok()) {
      std::vector<uint8_t> bytes((*opened)->size_bytes());
      const auto got = co_await (*opened)->Pread(0, bytes);
      co_await (*opened)->Finish();
      status = got.status();
      if (got.ok()) {
        size_t number = file->content.current_number();
        const auto is = [&](size_t i) {
          const FileMatch match{file, i};
          return FileLedger::Agrees(match, 0, bytes, UINT64_MAX);
        };
        bytes.resize(*got);
        while (number + 1 < file->content.size() && !is(number)) ++number;
        if (is(number)) {
          file->content.Settle(number, now());
          co_return true;
        }
        const FileMatch match{file, file->content.current_number()};
        context_->judge->Violation(
            absl::StrCat(PathOf(name), " reads wrong after a takeover: ",
                         FileLedger::Difference(match, 0, bytes)));
        co_return false;
      }
    }
    if (!client_->alive()) co_return false;
    JudgeError(*context_, started, status, PathOf(name) + ": reading");
    co_await io::SleepFor(context_->world(), kResolvePause);
  }
  co_return false;
}

// Another mutation, acknowledged: earlier ones of the session that were given
// up are refused from then on.
Task<bool> FileWriter::Fence() {
  while (client_->alive() && !context_->stopping) {
    client::Core* const core = client_->core();
    const io::TimeNs started = now();
    wire::SetAttrRequest request;
    request.set_mode(0755);
    const absl::Status status = co_await client::SetAttributes(
        core, owner_->directory->path, std::move(request), core->Deadline());
    if (status.ok()) co_return true;
    if (!client_->alive()) co_return false;
    JudgeError(*context_, started, status, owner_->directory->path);
    if (absl::IsAborted(status)) co_return false;
    co_await io::SleepFor(context_->world(), kResolvePause);
  }
  co_return false;
}

// --- Names.

std::string FileWriter::DrawName() {
  return absl::StrCat("f", Below(context_->tunables->files.files));
}

// True: known to have happened, or to have been refused.
bool FileWriter::Finish(io::TimeNs started, const absl::Status& status,
                        const std::string& what) {
  if (status.ok()) {
    owner_->directory->names.ReachedLast(now());
    ++context_->operations;
    return true;
  }
  if (client_->alive()) JudgeError(*context_, started, status, what);
  return false;
}

Task<bool> FileWriter::ChangeNames() {
  const Names& names = owner_->directory->names.current();
  if (names.empty()) co_return true;
  auto drawn = names.begin();
  std::advance(drawn, static_cast<std::ptrdiff_t>(Below(names.size())));
  const std::string name = drawn->first;
  if (Below(2) == 0) co_return co_await RenameOne(name);
  co_return co_await UnlinkOne(name);
}

Task<bool> FileWriter::RenameOne(std::string from) {
  LedgerDirectory* const directory = owner_->directory;
  const std::string to = DrawName();
  if (to == from) co_return true;
  Names next = directory->names.current();
  const auto replaced = next.find(to);
  if (replaced != next.end()) replaced->second->unlinking_since = now();
  next[to] = next[from];
  next.erase(from);
  directory->names.Begin(std::move(next), now());
  client::Core* const core = client_->core();
  const io::TimeNs started = now();
  const absl::Status status = co_await client::RenamePath(
      core, PathOf(from), PathOf(to), false, core->Deadline());
  co_return Finish(started, status, PathOf(from) + ": rename to " + to);
}

Task<bool> FileWriter::UnlinkOne(std::string name) {
  LedgerDirectory* const directory = owner_->directory;
  Names next = directory->names.current();
  next[name]->unlinking_since = now();
  next.erase(name);
  directory->names.Begin(std::move(next), now());
  client::Core* const core = client_->core();
  const io::TimeNs started = now();
  const absl::Status status =
      co_await client::UnlinkPath(core, PathOf(name), core->Deadline());
  co_return Finish(started, status, PathOf(name) + ": unlink");
}

}  // namespace cairn::sim
