#include "tests/sim/campaign/set_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cairn::sim {

bool SetAttempt::AllBegun() const {
  return std::ranges::all_of(begun, [](bool b) { return b; });
}

bool SetAttempt::AllCommitted() const {
  const uint64_t first = committed.front();
  return first != 0 && std::ranges::all_of(committed, [first](uint64_t set) {
           return set == first;
         });
}

void SetLedger::Violation(const SetAttempt& attempt, const std::string& what) {
  context_->judge->Violation(absl::StrCat("set ", attempt.path, " attempt ",
                                          attempt.number, ": ", what));
}

SetAttempt* SetLedger::NewAttempt(const std::string& path, uint32_t world_size,
                                  uint64_t model_bytes) {
  Place& place = places_[path];
  auto attempt = std::make_unique<SetAttempt>();
  attempt->path = path;
  attempt->number = place.attempts.size() + 1;
  attempt->world_size = world_size;
  attempt->begun.resize(world_size);
  attempt->committed.resize(world_size);
  attempt->made_at = context_->now();
  uint64_t seed = context_->tunables->seed;
  for (const char c : path) seed = Random::Mix(seed + static_cast<uint8_t>(c));
  attempt->model = MakeSampleModel(seed + attempt->number, model_bytes);
  place.attempts.push_back(std::move(attempt));
  return place.attempts.back().get();
}

void SetLedger::Opened(SetAttempt* attempt, io::TimeNs asked) {
  for (const auto& other : places_[attempt->path].attempts) {
    if (other->published_at != 0 && other->published_at < asked &&
        other->removing_since == 0) {
      Violation(*attempt, absl::StrCat("was opened although attempt ",
                                       other->number, " is published"));
    }
    if (other->number >= attempt->number || other->published_at != 0) continue;
    if (other->fenced_at == 0) other->fenced_at = context_->now();
  }
}

void SetLedger::RankBegins(SetAttempt* attempt, uint32_t rank) {
  attempt->begun[rank] = true;
}

void SetLedger::RankCommitted(SetAttempt* attempt, uint32_t rank,
                              uint64_t set) {
  attempt->committed[rank] = set;
}

void SetLedger::Published(SetAttempt* attempt) {
  if (!attempt->AllBegun()) {
    Violation(*attempt, "is published, but not every rank began to write");
  }
  if (attempt->fenced_at != 0 && attempt->removing_since == 0) {
    Violation(*attempt, "is published although a newer attempt fenced it");
  }
  if (attempt->published_at == 0) attempt->published_at = context_->now();
}

void SetLedger::ToldFenced(SetAttempt* attempt) {
  const auto& attempts = places_[attempt->path].attempts;
  const bool newer = attempts.back()->number > attempt->number;
  if (newer || attempt->removing_since != 0) return;
  Violation(*attempt, "is said to be fenced, but nobody fenced it");
}

void SetLedger::RemovalAsked(const std::string& path) {
  for (const auto& attempt : places_[path].attempts) {
    if (attempt->removing_since == 0) attempt->removing_since = context_->now();
  }
}

void SetLedger::RemovalDone(const std::string& path) {
  for (const auto& attempt : places_[path].attempts) {
    if (attempt->removed_at == 0) attempt->removed_at = context_->now();
  }
}

void SetLedger::RemovalUnknown(const std::string& path) {
  places_[path].removal_unknown = true;
}

bool SetLedger::Free(const std::string& path) const {
  const auto place = places_.find(path);
  if (place == places_.end()) return true;
  if (place->second.removal_unknown) return false;
  return std::ranges::all_of(
      place->second.attempts, [](const std::unique_ptr<SetAttempt>& attempt) {
        if (attempt->removing_since != 0) return attempt->removed_at != 0;
        return attempt->published_at == 0 && !attempt->AllCommitted();
      });
}

SetAttempt* SetLedger::Seen(const std::string& path, uint64_t number,
                            io::TimeNs since) {
  const auto place = places_.find(path);
  if (place == places_.end() || number == 0 ||
      number > place->second.attempts.size()) {
    context_->judge->Violation(
        absl::StrCat("set ", path, " attempt ", number,
                     ": is visible, but nobody ever wrote it"));
    return nullptr;
  }
  SetAttempt* const attempt = place->second.attempts[number - 1].get();
  if (attempt->removed_at != 0 && attempt->removed_at < since) {
    Violation(*attempt, "is visible after its removal was acknowledged");
  }
  for (const auto& other : place->second.attempts) {
    if (other.get() == attempt || other->published_at == 0) continue;
    if (other->removing_since == 0 && other->published_at < since) {
      Violation(*attempt,
                absl::StrCat("is visible in place of attempt ", other->number));
    }
  }
  Published(attempt);
  return attempt;
}

void SetLedger::SeenAbsent(const std::string& path, io::TimeNs since) {
  const SetAttempt* const current = Current(path);
  if (current != nullptr && current->published_at < since) {
    Violation(*current, "was published, is not removed, and is not there");
  }
}

bool SetLedger::Gone(const SetAttempt& attempt) const {
  const io::TimeNs grace =
      Grace(context_->tunables->cluster.meta.trash_grace_ms);
  return attempt.removing_since != 0 &&
         context_->now() >= attempt.removing_since + grace;
}

bool SetLedger::MayBePublished(const std::string& path) const {
  const auto place = places_.find(path);
  return place != places_.end() &&
         std::ranges::any_of(place->second.attempts, [](const auto& attempt) {
           return attempt->AllBegun() && attempt->fenced_at == 0 &&
                  attempt->removed_at == 0;
         });
}

std::vector<std::string> SetLedger::Paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, place] : places_) paths.push_back(path);
  return paths;
}

std::vector<const SetAttempt*> SetLedger::Due() const {
  std::vector<const SetAttempt*> due;
  for (const auto& [path, place] : places_) {
    // Older ones may be fenced by one that nobody was told of.
    const SetAttempt& newest = *place.attempts.back();
    if (newest.AllCommitted() && newest.published_at == 0 &&
        newest.removing_since == 0) {
      due.push_back(&newest);
    }
  }
  return due;
}

SetAttempt* SetLedger::Current(const std::string& path) const {
  const auto place = places_.find(path);
  if (place == places_.end()) return nullptr;
  for (const auto& attempt : place->second.attempts) {
    if (attempt->published_at != 0 && attempt->removing_since == 0) {
      return attempt.get();
    }
  }
  return nullptr;
}

}  // namespace cairn::sim
