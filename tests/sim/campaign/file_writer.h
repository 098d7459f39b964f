// FileWriter: the part of the file workload that one process plays, until its
// operations are used up, it dies, or it does not know what it did.
//
// Lifetime: owner and client outlive Work().
#pragma once

#include <memory>
#include <string>

#include "client/file/open_file.h"
#include "tests/sim/campaign/context.h"
#include "tests/sim/campaign/file_ledger.h"

namespace cairn::sim {

// What outlives the process: who owns the directory.
struct FileOwner {
  Context* context;
  LedgerDirectory* directory;
  Random random;
  uint32_t operations_left = 0;
};

class FileWriter {
 public:
  FileWriter(FileOwner* owner, SimClient* client)
      : owner_(owner), context_(owner->context), client_(client) {}

  io::Task<void> Work();

 private:
  // A file that is being edited. `local` is what it holds with all that was
  // written through this handle.
  struct Edit {
    std::string name;
    LedgerFile* file;
    std::unique_ptr<client::OpenFile> handle;
    std::string local;
    bool dirty = false;
    // After an error: whether an fsync could tell that all is well.
    bool ask_again = true;
  };

  // --- Finding out. False: not possible now.
  io::Task<bool> TakeOver();
  io::Task<bool> Resolve();
  io::Task<bool> ResolveNames();
  io::Task<bool> ResolveContents();
  io::Task<bool> ResolveContent(std::string name, LedgerFile* file);
  io::Task<bool> Fence();

  // --- Names. False: the outcome is unknown.
  io::Task<bool> ChangeNames();
  io::Task<bool> RenameOne(std::string from);
  io::Task<bool> UnlinkOne(std::string name);
  bool Finish(io::TimeNs started, const absl::Status& status,
              const std::string& what);

  // --- Contents. False: the handle is of no more use.
  io::Task<bool> EditFile();
  io::Task<bool> OpenFor(Edit* edit);
  io::Task<bool> EditOnce(Edit* edit);
  io::Task<bool> Write(Edit* edit);
  io::Task<bool> Append(Edit* edit);
  io::Task<bool> Truncate(Edit* edit);
  io::Task<bool> Fsync(Edit* edit);
  io::Task<bool> Read(Edit* edit);
  // Asks for `next` to be published: returns false if `status` leaves it open.
  void BeginPublish(Edit* edit);
  bool EndPublish(Edit* edit, io::TimeNs started, const absl::Status& status,
                  const std::string& what);

  std::string DrawName();
  std::string PathOf(const std::string& name) const {
    return owner_->directory->path + "/" + name;
  }
  uint64_t Below(uint64_t bound) { return owner_->random.Below(bound); }
  io::TimeNs now() const { return context_->now(); }

  FileOwner* const owner_;
  Context* const context_;
  SimClient* const client_;
};

}  // namespace cairn::sim
