#include "tests/sim/campaign/file_reading.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/file/open.h"
#include "client/names/operations.h"

namespace cairn::sim {

using io::Task;

namespace {

struct Looking {
  Context* context;
  SimClient* client;
  FileLook look;
  Random random;
  io::TimeNs since = 0;
  std::vector<LedgerFile*> files;  // What the open may have found.
  std::vector<FileMatch> matches;  // What all reads so far agree with.
  bool matched = false;            // There has been one.

  std::string Name() const {
    return absl::StrCat(look.directory->path, "/", look.name);
  }
};

// Nothing else may be open than what the name led to.
bool CheckFound(Looking* l, const absl::Status& opened) {
  Context* const context = l->context;
  l->files =
      context->files->FilesAt(*l->look.directory, l->look.name, l->since);
  if (opened.ok()) {
    std::erase(l->files, nullptr);
    if (!l->files.empty()) return true;
    context->judge->Violation(l->Name() + " is there, but must not be");
    return false;
  }
  if (!l->client->alive()) return false;
  if (absl::IsNotFound(opened)) {
    const bool absent = std::ranges::find(l->files, nullptr) != l->files.end();
    if (!absent) {
      context->judge->Violation(l->Name() + " must be there, but is not: " +
                                std::string(opened.message()));
    }
    return absent;
  }
  JudgeError(*context, l->since, opened, "opening " + l->Name());
  return false;
}

bool MayBeFreed(const Looking& l) {
  return std::ranges::any_of(l.files, [&l](const LedgerFile* file) {
    return l.context->files->MayBeFreed(*file, l.since);
  });
}

// Holds one range against every state that is still possible.
bool CheckBytes(Looking* l, uint64_t offset, std::span<const uint8_t> bytes,
                uint64_t asked) {
  std::vector<FileMatch> before = l->matches;
  if (!l->matched) {
    l->matches =
        l->context->files->Match(l->files, l->since, offset, bytes, asked);
  } else {
    std::erase_if(l->matches, [&](const FileMatch& match) {
      return !FileLedger::Agrees(match, offset, bytes, asked);
    });
  }
  l->matched = true;
  ++l->context->loads;
  if (!l->matches.empty()) return true;
  if (before.empty()) {
    for (LedgerFile* const file : l->files) {
      before.push_back({file, file->content.current_number()});
    }
  }
  std::string why;
  for (const FileMatch& match : before) {
    absl::StrAppend(&why, "; ", FileLedger::Difference(match, offset, bytes));
  }
  l->context->judge->Violation(
      absl::StrCat(l->Name(), " reads wrong: ", bytes.size(), " of ", asked,
                   " bytes at ", offset, why));
  return false;
}

uint64_t LongestContent(const Looking& l) {
  uint64_t longest = 0;
  for (const LedgerFile* const file : l.files) {
    for (const size_t number :
         file->content.Between(l.since, l.context->now())) {
      longest = std::max<uint64_t>(longest, file->content[number]->size());
    }
  }
  return longest;
}

Task<bool> ReadRange(Looking* l, client::OpenFile* file, bool whole) {
  const uint64_t longest = LongestContent(*l);
  uint64_t offset = 0;
  uint64_t asked = longest + 100;
  if (!whole) {
    offset = l->random.Below(longest + 10);
    asked = l->random.Between(1, longest + 10);
  }
  std::vector<uint8_t> bytes(asked, 0xa5);
  const absl::StatusOr<uint64_t> got = co_await file->Pread(offset, bytes);
  if (!got.ok()) {
    if (!l->client->alive() || MayBeFreed(*l)) co_return false;
    JudgeError(*l->context, l->since, got.status(), "reading " + l->Name());
    co_return false;
  }
  bytes.resize(*got);
  co_return CheckBytes(l, offset, bytes, asked);
}

}  // namespace

Task<bool> ReadAndCheck(Context* context, SimClient* client, FileLook look) {
  Looking l{context, client, look, Random(look.random), context->now(), {}, {}};
  client::OpenOptions options;
  auto file = co_await client::OpenOnLoop(client->core(), l.Name(), options);
  if (!CheckFound(&l, file.status())) co_return false;
  if (!file.ok()) co_return true;  // Absent, and it may be.
  bool read = true;
  for (uint32_t i = 0; i < look.reads && read; ++i) {
    read = co_await ReadRange(&l, file->get(), i == 0 && look.whole);
  }
  co_await (*file)->Finish();
  if (read) context->files->Saw(l.matches);
  co_return read;
}

namespace {

bool SizePossible(const Context& context, const LedgerFile& file,
                  io::TimeNs since, uint64_t size) {
  return std::ranges::any_of(
      file.content.Between(since, context.now()),
      [&](size_t number) { return file.content[number]->size() == size; });
}

bool IsState(const Context& context, const Names& names, io::TimeNs since,
             const std::vector<client::DirectoryEntry>& entries) {
  if (names.size() != entries.size()) return false;
  return std::ranges::all_of(entries, [&](const client::DirectoryEntry& entry) {
    const auto found = names.find(entry.name);
    return found != names.end() &&
           SizePossible(context, *found->second, since, entry.stat.size_bytes);
  });
}

std::string ToText(const std::vector<client::DirectoryEntry>& entries) {
  std::string text;
  for (const client::DirectoryEntry& entry : entries) {
    absl::StrAppend(&text, " ", entry.name, ":", entry.stat.size_bytes);
  }
  return text;
}

void CheckNames(Context* context, LedgerDirectory* directory, io::TimeNs since,
                const std::vector<client::DirectoryEntry>& entries) {
  std::vector<size_t> states;
  for (const size_t number : directory->names.Between(since, context->now())) {
    if (IsState(*context, directory->names[number], since, entries)) {
      states.push_back(number);
    }
  }
  ++context->loads;
  if (states.size() == 1) {
    directory->names.Reached(states.front(), context->now());
  }
  if (!states.empty()) return;
  std::string expected;
  for (const auto& [name, file] : directory->names.current()) {
    absl::StrAppend(&expected, " ", name, ":", file->content.current()->size());
  }
  context->judge->Violation(absl::StrCat(
      directory->path, " lists wrong:", ToText(entries), "; known:", expected));
}

}  // namespace

Task<bool> ListAndCheck(Context* context, SimClient* client,
                        LedgerDirectory* directory) {
  const io::TimeNs since = context->now();
  const bool made = directory->made;
  client::Core* const core = client->core();
  auto found = co_await client::FindPath(
      core, directory->path, client::FollowLast::kNo, core->Deadline());
  if (found.ok() && !found->has_value()) {
    if (made && client->alive()) {
      context->judge->Violation(directory->path + " is gone");
    }
    co_return true;
  }
  absl::Status status = found.status();
  if (found.ok()) {
    const auto page = co_await client::ListPage(core, (*found)->inode(), "",
                                                core->Deadline());
    if (page.ok()) {
      CheckNames(context, directory, since, page->entries);
      co_return true;
    }
    status = page.status();
  }
  if (client->alive()) {
    JudgeError(*context, since, status, "listing " + directory->path);
  }
  co_return false;
}

}  // namespace cairn::sim
