#include "server/meta/membership.h"

#include <cstring>
#include <optional>

#include "format/base/fault_points.h"
#include "format/checksum/block_checksum.h"
#include "server/meta/edit_map.h"
#include "spdlog/spdlog.h"

namespace cairn::server {

using format::JoinVerdict;
using format::KeyKind;
using format::TargetId;

namespace {

constexpr uint32_t kPage = 1024;

template <typename Record>
absl::StatusOr<Record> ReadRecord(const KvPair& pair) {
  return format::DecodeRecord<Record>(pair.key, pair.value);
}

uint64_t HashOfPlace(const std::string& host, const std::string& directory) {
  const std::string text = absl::StrCat(host, std::string(1, '\0'), directory);
  return format::Xxh3(format::AsBytes(text));
}

absl::Status CheckText(const std::string& text, uint64_t bytes_max,
                       const char* what) {
  if (text.size() <= bytes_max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " has ", text.size(), " bytes; at most ", bytes_max));
}

absl::Status CheckRequest(const wire::RegisterTargetRequest& request) {
  if (request.target() == 0 || request.incarnation() == 0 ||
      request.disk_generation() == 0) {
    return absl::InvalidArgumentError(
        "a target that registers has an id, a disk generation and an "
        "incarnation");
  }
  CAIRN_RETURN_IF_ERROR(
      CheckText(request.address(), format::kNameBytesMax, "the address"));
  CAIRN_RETURN_IF_ERROR(
      CheckText(request.host(), format::kNameBytesMax, "the host"));
  CAIRN_RETURN_IF_ERROR(
      CheckText(request.rack(), format::kNameBytesMax, "the rack"));
  return CheckText(request.directory(), format::kPathBytesMax, "the directory");
}

}  // namespace

io::Task<absl::Status> Membership::Load() {
  format::KeyRange range = format::RangeOf(KeyKind::kMember, {});
  while (true) {
    const auto page = co_await core_->kv->Scan(range.begin, range.end, kPage);
    if (!page.ok()) co_return page.status();
    for (const KvPair& pair : *page) {
      CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                                format::ParseKey(pair.key));
      CAIRN_CO_ASSIGN_OR_RETURN(const store::Member member,
                                ReadRecord<store::Member>(pair));
      TakeOver(TargetId(static_cast<uint32_t>(key.numbers[0])), member);
    }
    if (page->size() < kPage) break;
    range.begin = page->back().key + '\0';
  }
  range = format::RangeOf(KeyKind::kQuarantine, {});
  const auto page =
      co_await core_->kv->Scan(range.begin, range.end, kQuarantinedMax);
  if (!page.ok()) co_return page.status();
  for (const KvPair& pair : *page) {
    CAIRN_CO_ASSIGN_OR_RETURN(const format::ParsedKey key,
                              format::ParseKey(pair.key));
    CAIRN_CO_ASSIGN_OR_RETURN(store::Quarantine record,
                              ReadRecord<store::Quarantine>(pair));
    const TargetId target(static_cast<uint32_t>(key.numbers[0]));
    quarantined_[{target, key.numbers[1]}] = std::move(record);
  }
  co_return absl::OkStatus();
}

void Membership::TakeOver(TargetId target, const store::Member& member) {
  if (!member.address().empty()) SpreadAddress(target, member);
  members_[target] = member;
}

void Membership::SpreadAddress(TargetId target, const store::Member& member) {
  core_->map.SetAddress(target, member.address());
  orders_->SetAddress(target, member.address());
}

io::Task<absl::StatusOr<wire::RegisterTargetResponse>> Membership::Register(
    wire::RegisterTargetRequest request) {
  const io::Gate::Hold hold = core_->gate.Enter();
  CAIRN_CO_RETURN_IF_ERROR(CheckRequest(request));
  const absl::StatusOr<JoinDecision> decision = co_await Decide(&request);
  if (!decision.ok()) co_return decision.status();
  wire::RegisterTargetResponse response;
  response.set_verdict(static_cast<uint32_t>(decision->verdict));
  response.set_admission(decision->admission);
  if (decision->verdict == JoinVerdict::kQuarantined) {
    response.set_reason(decision->reason);
    const JoinDecision* const why = &*decision;
    const absl::Status noted = co_await NoteQuarantine(&request, why);
    if (!noted.ok()) {
      spdlog::warn("metadata: a quarantine is not stored: {}",
                   StdText(noted.message()));
    }
    co_return response;
  }
  const TargetId target(request.target());
  if (decision->verdict == JoinVerdict::kAdmitted) {
    CAIRN_CO_RETURN_IF_ERROR(co_await Follow(target));
    response.set_in_map(core_->map.map()->FindTarget(target) != nullptr);
  }
  co_return response;
}

const store::Member* Membership::Known(
    const wire::RegisterTargetRequest& request, store::Member* adopted) const {
  const TargetId target(request.target());
  const auto known = members_.find(target);
  if (known != members_.end()) return &known->second;
  if (core_->map.map()->FindTarget(target) == nullptr) return nullptr;
  adopted->set_disk_generation(request.disk_generation());
  return adopted;
}

io::Task<bool> Membership::HolderAlive(TargetId target, uint64_t incarnation) {
  const io::TimeNs deadline = core_->env->NowNs() + kHolderAnswerNs;
  const absl::StatusOr<wire::TargetStatusResponse> answer =
      co_await orders_->Heartbeat(target, deadline);
  const bool alive = answer.ok() && answer->incarnation() == incarnation;
  co_return alive;
}

// A store that ends before what a target was told of is an old copy.
io::Task<absl::Status> Membership::CheckSequence(uint64_t target,
                                                 uint64_t sequence) {
  const uint64_t own = core_->kv->sequence();
  if (sequence <= own) co_return absl::OkStatus();
  if (core_->options.accept_metadata_loss) {
    spdlog::warn(
        "metadata: target {} has seen metadata of sequence {}, this store ends "
        "at {}: going on without what is between, as asked",
        target, sequence, own);
    co_return co_await core_->kv->SkipTo(sequence + kKvSequenceGap);
  }
  co_return absl::FailedPreconditionError(absl::StrCat(
      "target ", target, " has seen metadata of sequence ", sequence,
      ", but this store ends at ", own,
      ": it is an old copy and would lose what was acknowledged since. Stop "
      "the metadata service and restore the newest copy, or accept the loss: "
      "start it once with --accept-metadata-loss"));
}

io::Task<absl::StatusOr<JoinDecision>> Membership::Decide(
    const wire::RegisterTargetRequest* request) {
  const TargetId target(request->target());
  const format::ClusterId cluster = core_->map.map()->cluster_id;
  for (uint32_t attempt = 0; attempt < kTxnAttemptsMax; ++attempt) {
    co_await Backoff(core_, attempt);
    store::Member adopted;
    const store::Member* known = Known(*request, &adopted);
    bool holder_alive = false;
    if (DependsOnHolder(cluster, known, *request)) {
      const std::string before = known->SerializeAsString();
      holder_alive = co_await HolderAlive(target, known->incarnation());
      known = Known(*request, &adopted);
      // It changed while we asked: then the answer is about somebody else.
      if (known == nullptr || known->SerializeAsString() != before) continue;
    }
    JoinDecision decision = JudgeJoin(cluster, known, *request, holder_alive);
    if (decision.verdict != JoinVerdict::kQuarantined ||
        decision.cause != format::QuarantineCause::kForeign) {
      CAIRN_CO_RETURN_IF_ERROR(
          co_await CheckSequence(request->target(), request->meta_sequence()));
    }
    const Place place{target,
                      HashOfPlace(request->host(), request->directory())};
    const bool cured = decision.verdict == JoinVerdict::kAdmitted &&
                       quarantined_.contains(place);
    if (!decision.changed && !cured) co_return decision;
    const JoinDecision* const store = &decision;
    const absl::Status stored = co_await StoreMember(request, store);
    if (stored.ok()) co_return decision;
    if (!IsConflict(stored)) co_return stored;
  }
  co_return TooBusy();
}

// Only if the record is still what `decision` was made from.
io::Task<absl::Status> Membership::StoreMember(
    const wire::RegisterTargetRequest* request, const JoinDecision* decision) {
  const TargetId target(request->target());
  const std::string key = format::MemberKey(target);
  Txn txn(core_->kv);
  const absl::StatusOr<std::optional<store::Member>> read =
      co_await txn.Get<store::Member>(key);
  if (!read.ok()) co_return read.status();
  const auto mirror = members_.find(target);
  const bool same =
      read->has_value()
          ? mirror != members_.end() && (*read)->SerializeAsString() ==
                                            mirror->second.SerializeAsString()
          : mirror == members_.end();
  if (!same) {
    // An earlier commit had an unknown outcome: memory follows the store.
    CAIRN_SOMETIMES(true, "meta.member.stored_unknown");
    if (read->has_value()) TakeOver(target, **read);
    co_return Conflict();
  }
  const uint64_t place = HashOfPlace(request->host(), request->directory());
  const bool cured = decision->verdict == JoinVerdict::kAdmitted &&
                     quarantined_.contains({target, place});
  txn.Put(key, decision->member);
  if (cured) txn.Delete(format::QuarantineKey(target, place));
  CAIRN_CO_RETURN_IF_ERROR(co_await txn.Commit());
  const store::Member& member = decision->member;
  if (decision->verdict == JoinVerdict::kAdmitted) {
    SpreadAddress(target, member);
    spdlog::info("metadata: target {} joined at {} from {}, admission {}",
                 target.value, member.address(), member.directory(),
                 member.admission());
  }
  members_[target] = member;
  if (cured) quarantined_.erase({target, place});
  co_return absl::OkStatus();
}

namespace {
// Makes the map say of a target what it said of itself; false: it does.
bool FollowMember(const store::Member& member, format::TargetInfo* info) {
  const std::string& rack = member.rack().empty() ? info->rack : member.rack();
  if (info->host == member.host() && info->rack == rack &&
      info->directory == member.directory() &&
      info->capacity_bytes == member.capacity_bytes()) {
    return false;
  }
  info->host = member.host();
  info->rack = rack;
  info->directory = member.directory();
  info->capacity_bytes = member.capacity_bytes();
  return true;
}
}  // namespace

io::Task<absl::Status> Membership::Follow(TargetId target) {
  const store::Member member = members_.at(target);
  const format::TargetInfo* const known = core_->map.map()->FindTarget(target);
  if (known == nullptr) co_return absl::OkStatus();
  format::TargetInfo probe = *known;
  if (!FollowMember(member, &probe)) co_return absl::OkStatus();
  MapEdit edit = [target, member](format::ClusterMap* map) {
    const auto place = map->targets.find(target);
    const bool changed =
        place != map->targets.end() && FollowMember(member, &place->second);
    return absl::StatusOr<bool>(changed);
  };
  const absl::StatusOr<bool> changed = co_await EditMap(core_, std::move(edit));
  if (changed.ok() && *changed) {
    spdlog::warn(
        "metadata: target {} is now {} on host {}, rack {} (map epoch {})",
        target.value, member.directory(), member.host(), member.rack(),
        core_->map.epoch().value);
  }
  co_return changed.status();
}

io::Task<absl::Status> Membership::NoteQuarantine(
    const wire::RegisterTargetRequest* request, const JoinDecision* decision) {
  store::Quarantine record;
  record.set_cause(static_cast<uint32_t>(decision->cause));
  record.set_reason(decision->reason);
  record.set_host(request->host());
  record.set_directory(request->directory());
  record.set_address(request->address());
  record.set_disk_generation(request->disk_generation());
  record.set_admission(request->admission());
  record.set_cluster_id(request->cluster_id());
  const TargetId target(request->target());
  const Place place{target, HashOfPlace(request->host(), request->directory())};
  const auto known = quarantined_.find(place);
  // It asks again every now and then; only its port may be another.
  if (known != quarantined_.end() &&
      known->second.reason() == record.reason()) {
    co_return absl::OkStatus();
  }
  spdlog::error("metadata: quarantined ({}): {}",
                format::ToString(decision->cause), decision->reason);
  if (known == quarantined_.end() && quarantined_.size() >= kQuarantinedMax) {
    co_return absl::ResourceExhaustedError(
        "too many places are in quarantine; see cairn target forget");
  }
  Txn txn(core_->kv);
  txn.Put(format::QuarantineKey(target, place.second), record);
  CAIRN_CO_RETURN_IF_ERROR(co_await txn.Commit());
  quarantined_[place] = std::move(record);
  co_return absl::OkStatus();
}

}  // namespace cairn::server
