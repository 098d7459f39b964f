// FileLedger: what is known of every file of a campaign and of its name, and so
// what a reader may find. The oracle for files.
//
// Each writer owns one directory and everything in it, and does one thing at a
// time. A file's content, and the directory's names, are each a History.
// Content: every byte tells file, step and place (ByteAt), so that wrong bytes
//          can be named. Holes are zeros.
// Rules:   - a reader finds one state of the names, and of the file one state
//            of its whole content: nothing mixed, nothing older than what was
//            acknowledged or seen before it began to look;
//          - nothing is seen of what no fsync, close or other publishing call
//            was asked for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/campaign/context.h"
#include "tests/sim/campaign/history.h"

namespace cairn::sim {

using Content = std::shared_ptr<const std::string>;

struct LedgerFile {
  explicit LedgerFile(uint64_t id)
      : id(id), content(std::make_shared<const std::string>()) {}

  const uint64_t id;
  History<Content> content;
  uint64_t steps = 0;              // Writes so far, for ByteAt().
  io::TimeNs unlinking_since = 0;  // 0: nobody asked for it.
};

using Names = std::map<std::string, LedgerFile*>;

struct LedgerDirectory {
  explicit LedgerDirectory(std::string path)
      : path(std::move(path)), names(Names()) {}

  const std::string path;  // "/files/w0".
  History<Names> names;
  bool made = false;  // Known to be there.
};

// A state of a file that what was read agrees with.
struct FileMatch {
  LedgerFile* file;
  size_t number;
};

class FileLedger {
 public:
  explicit FileLedger(Context* context) : context_(context) {}

  // Both live as long as this.
  LedgerDirectory* NewDirectory(std::string path);
  LedgerFile* NewFile();
  const std::vector<std::unique_ptr<LedgerDirectory>>& directories() const {
    return directories_;
  }

  // --- What readers see; they began to look at `since`.
  // All files that the name may lead to; null stands for none.
  std::vector<LedgerFile*> FilesAt(const LedgerDirectory& directory,
                                   const std::string& name,
                                   io::TimeNs since) const;
  // States of which the bytes at `offset` are `bytes`, where `asked` were asked
  // for.
  std::vector<FileMatch> Match(const std::vector<LedgerFile*>& files,
                               io::TimeNs since, uint64_t offset,
                               std::span<const uint8_t> bytes,
                               uint64_t asked) const;
  static bool Agrees(const FileMatch& match, uint64_t offset,
                     std::span<const uint8_t> bytes, uint64_t asked);
  // If only one state agrees, it has been reached.
  void Saw(const std::vector<FileMatch>& matches);
  // Whether chunks that a reader since `since` needs may be freed by now.
  bool MayBeFreed(const LedgerFile& file, io::TimeNs since) const;

  // Names the bytes: "file 3 step 7 at 4096".
  static std::string Describe(std::span<const uint8_t> bytes, uint64_t offset);
  // First byte at which `bytes` differ from the state.
  static std::string Difference(const FileMatch& match, uint64_t offset,
                                std::span<const uint8_t> bytes);

 private:
  Context* const context_;
  std::vector<std::unique_ptr<LedgerDirectory>> directories_;
  std::vector<std::unique_ptr<LedgerFile>> files_;
};

// The byte at `offset` of what step `step` writes into file `id`.
uint8_t ByteAt(uint64_t id, uint64_t step, uint64_t offset);
std::vector<uint8_t> BytesAt(uint64_t id, uint64_t step, uint64_t offset,
                             uint64_t size);

}  // namespace cairn::sim
