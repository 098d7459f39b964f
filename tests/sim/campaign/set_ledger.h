// SetLedger: what is known of every checkpoint set of a campaign, and so what a
// reader may find. The oracle for sets.
//
// Rules:  - a set that was published (acknowledged to a rank, or seen by any
//           reader) is found, whole and with its attempt's bytes, until its
//           removal is asked for; once that is acknowledged, it never is;
//         - an attempt of which every rank was told that it has committed is
//           published, whoever waits for it, unless a newer attempt or a
//           removal comes between;
//         - nothing is found of an attempt of which a rank has not begun to
//           write, nor of one that a newer attempt has fenced;
//         - in between, both are right.
// Windows: observations name the time they began; what the ledger learned after
//          that does not count against them.
// Paths:  are not used again after a removal whose outcome is unknown, because
//         it may still happen.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/campaign/context.h"
#include "tests/sim/cluster/sample_model.h"

namespace cairn::sim {

struct SetAttempt {
  std::string path;
  uint64_t number = 0;
  uint32_t world_size = 0;
  SampleModel model;
  std::vector<bool> begun;  // Rank may have committed.
  // The set, by inode, to which the rank was told that it has committed; 0:
  // none. An attempt that was given up may be opened again as another set.
  std::vector<uint64_t> committed;
  io::TimeNs made_at = 0;
  // When these became known; 0: they are not.
  io::TimeNs published_at = 0;
  io::TimeNs fenced_at = 0;       // A newer attempt was opened.
  io::TimeNs removing_since = 0;  // Removal was asked for...
  io::TimeNs removed_at = 0;      // ...and acknowledged.

  bool AllBegun() const;
  bool AllCommitted() const;
};

class SetLedger {
 public:
  explicit SetLedger(Context* context) : context_(context) {}

  // A new attempt at `path`, with a model of its own. Lives as long as this.
  SetAttempt* NewAttempt(const std::string& path, uint32_t world_size,
                         uint64_t model_bytes);

  // --- What writers learn.
  // OpenSet() of the attempt, begun at `asked`, was OK.
  void Opened(SetAttempt* attempt, io::TimeNs asked);
  void RankBegins(SetAttempt* attempt, uint32_t rank);
  void RankCommitted(SetAttempt* attempt, uint32_t rank, uint64_t set);
  void Published(SetAttempt* attempt);
  // A rank of `attempt` was told that another attempt or removal fenced it.
  void ToldFenced(SetAttempt* attempt);
  void RemovalAsked(const std::string& path);
  void RemovalDone(const std::string& path);
  void RemovalUnknown(const std::string& path);
  // Whether a new attempt may use the path.
  bool Free(const std::string& path) const;

  // --- What readers see. `since`: when they began to look.
  // The attempt that is visible; null after a violation.
  SetAttempt* Seen(const std::string& path, uint64_t number, io::TimeNs since);
  void SeenAbsent(const std::string& path, io::TimeNs since);
  // Whether what was visible may be gone by now for those who read it.
  bool Gone(const SetAttempt& attempt) const;
  // Whether anything may be published at `path`.
  bool MayBePublished(const std::string& path) const;

  // Paths of which something is, or may be, published; in order.
  std::vector<std::string> Paths() const;
  // Of which nothing has been seen, but which must be published by and by.
  std::vector<const SetAttempt*> Due() const;
  // Known to be published, nobody asked for its removal. Null if not.
  SetAttempt* Current(const std::string& path) const;

 private:
  struct Place {
    std::vector<std::unique_ptr<SetAttempt>> attempts;  // By number, from 1.
    bool removal_unknown = false;
  };

  void Violation(const SetAttempt& attempt, const std::string& what);

  Context* const context_;
  std::map<std::string, Place> places_;
};

}  // namespace cairn::sim
