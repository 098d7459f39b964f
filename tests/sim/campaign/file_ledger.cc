#include "tests/sim/campaign/file_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cairn::sim {

namespace {

// Words of eight bytes: a mark that is never zero, file, step, place.
constexpr uint64_t kMark = 0xCA;
constexpr uint64_t kWordBytes = 8;

uint64_t WordAt(uint64_t id, uint64_t step, uint64_t word) {
  return kMark << 56 | (id & 0xffff) << 40 | (step & 0xffff) << 24 |
         (word & 0xffffff);
}

// Bytes of the state in [offset, offset + asked): short at its end.
std::string_view Expected(const FileMatch& match, uint64_t offset,
                          uint64_t asked) {
  const std::string& content = *match.file->content[match.number];
  if (offset >= content.size()) return {};
  return std::string_view(content).substr(offset, asked);
}

}  // namespace

uint8_t ByteAt(uint64_t id, uint64_t step, uint64_t offset) {
  const uint64_t word = WordAt(id, step, offset / kWordBytes);
  return static_cast<uint8_t>(word >> (offset % kWordBytes * 8));
}

std::vector<uint8_t> BytesAt(uint64_t id, uint64_t step, uint64_t offset,
                             uint64_t size) {
  std::vector<uint8_t> bytes(size);
  for (uint64_t i = 0; i < size; ++i) bytes[i] = ByteAt(id, step, offset + i);
  return bytes;
}

LedgerDirectory* FileLedger::NewDirectory(std::string path) {
  directories_.push_back(std::make_unique<LedgerDirectory>(std::move(path)));
  return directories_.back().get();
}

LedgerFile* FileLedger::NewFile() {
  files_.push_back(std::make_unique<LedgerFile>(files_.size() + 1));
  return files_.back().get();
}

std::vector<LedgerFile*> FileLedger::FilesAt(const LedgerDirectory& directory,
                                             const std::string& name,
                                             io::TimeNs since) const {
  std::vector<LedgerFile*> files;
  for (const size_t number : directory.names.Between(since, context_->now())) {
    const Names& names = directory.names[number];
    const auto found = names.find(name);
    LedgerFile* const file = found == names.end() ? nullptr : found->second;
    if (std::ranges::find(files, file) == files.end()) files.push_back(file);
  }
  return files;
}

bool FileLedger::Agrees(const FileMatch& match, uint64_t offset,
                        std::span<const uint8_t> bytes, uint64_t asked) {
  return std::ranges::equal(Expected(match, offset, asked), bytes, {},
                            [](char c) { return static_cast<uint8_t>(c); });
}

std::vector<FileMatch> FileLedger::Match(const std::vector<LedgerFile*>& files,
                                         io::TimeNs since, uint64_t offset,
                                         std::span<const uint8_t> bytes,
                                         uint64_t asked) const {
  std::vector<FileMatch> matches;
  for (LedgerFile* const file : files) {
    if (file == nullptr) continue;
    for (const size_t number : file->content.Between(since, context_->now())) {
      const FileMatch match{file, number};
      if (Agrees(match, offset, bytes, asked)) matches.push_back(match);
    }
  }
  return matches;
}

void FileLedger::Saw(const std::vector<FileMatch>& matches) {
  if (matches.size() != 1) return;
  const FileMatch& only = matches.front();
  only.file->content.Reached(only.number, context_->now());
}

bool FileLedger::MayBeFreed(const LedgerFile& file, io::TimeNs since) const {
  const server::MetaOptions& meta = context_->tunables->cluster.meta;
  const io::TimeNs now = context_->now();
  const io::TimeNs trash = Grace(meta.trash_grace_ms);
  if (file.unlinking_since != 0 && now >= file.unlinking_since + trash) {
    return true;
  }
  const io::TimeNs grace = Grace(meta.orphan_grace_ms);
  return now >= since + grace && file.content.MayHaveLeft(since, now - grace);
}

std::string FileLedger::Describe(std::span<const uint8_t> bytes,
                                 uint64_t offset) {
  // The first whole word.
  const uint64_t skip = (kWordBytes - offset % kWordBytes) % kWordBytes;
  if (bytes.size() < skip + kWordBytes) return "too few bytes to tell";
  uint64_t word = 0;
  for (uint64_t i = 0; i < kWordBytes; ++i) {
    word |= uint64_t{bytes[skip + i]} << (8 * i);
  }
  if (word == 0) return "zeros";
  if (word >> 56 != kMark) return absl::StrCat("garbage ", absl::Hex(word));
  return absl::StrCat("file ", word >> 40 & 0xffff, " step ",
                      word >> 24 & 0xffff, " at ",
                      (word & 0xffffff) * kWordBytes);
}

std::string FileLedger::Difference(const FileMatch& match, uint64_t offset,
                                   std::span<const uint8_t> bytes) {
  const std::string_view expected =
      Expected(match, offset, UINT64_MAX - offset);
  uint64_t at = 0;
  while (at < bytes.size() && at < expected.size() &&
         static_cast<uint8_t>(expected[at]) == bytes[at]) {
    ++at;
  }
  const auto* const text = reinterpret_cast<const uint8_t*>(expected.data());
  return absl::StrCat("state ", match.number, " of file ", match.file->id, " (",
                      match.file->content[match.number]->size(),
                      " bytes) differs at ", offset + at, ": is ",
                      Describe(bytes.subspan(at), offset + at), ", would be ",
                      Describe({text + at, expected.size() - at}, offset + at));
}

}  // namespace cairn::sim
