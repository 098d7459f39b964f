// Which RPC method is which operation of the metadata service.
#include "server/meta/service.h"

namespace cairn::server {
namespace {

using format::Method;

template <typename Owner, typename Request, typename Response>
using Operation = io::Task<absl::StatusOr<Response>> (Owner::*)(Request);

template <typename Owner, typename Request, typename Response>
io::Task<void> Serve(Owner* owner,
                     Operation<Owner, Request, Response> operation,
                     io::ServerCall* call) {
  Request request;
  const std::string_view body = call->body();
  if (!request.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    absl::Status malformed =
        absl::InvalidArgumentError("the request does not parse");
    co_await call->Fail(std::move(malformed));
    co_return;
  }
  const absl::StatusOr<Response> response =
      co_await (owner->*operation)(std::move(request));
  if (!response.ok()) {
    co_await call->Fail(response.status());
    co_return;
  }
  std::string bytes = response->SerializeAsString();
  co_await call->Reply(std::move(bytes));
}

// Adds one handler; not a coroutine itself, so it may capture.
template <typename Owner, typename Request, typename Response>
void Add(io::RpcServer* server, Method method, Owner* owner,
         Operation<Owner, Request, Response> operation) {
  server->Handle(method, [owner, operation](io::ServerCall* call) {
    return Serve(owner, operation, call);
  });
}

}  // namespace

void MetaService::Register(io::RpcServer* server) {
  Add(server, Method::kGetMap, this, &MetaService::GetMap);
  Add(server, Method::kClusterStatus, this, &MetaService::ClusterStatus);

  Add(server, Method::kRegisterTarget, &membership_, &Membership::Register);
  Add(server, Method::kAllocateTarget, &membership_, &Membership::Allocate);
  Add(server, Method::kListTargets, &membership_, &Membership::List);
  Add(server, Method::kChangeTarget, &membership_, &Membership::Change);
  Add(server, Method::kCreatePool, &pools_, &Pools::Create);

  Add(server, Method::kOpenSession, &sessions_, &Sessions::Open);
  Add(server, Method::kRenewSession, &sessions_, &Sessions::Renew);
  Add(server, Method::kCloseSession, &sessions_, &Sessions::Close);
  Add(server, Method::kAllocateBlobs, &sessions_, &Sessions::AllocateBlobs);

  Add(server, Method::kLookup, &names_, &Namespace::Lookup);
  Add(server, Method::kGetAttr, &names_, &Namespace::GetAttr);
  Add(server, Method::kSetAttr, &names_, &Namespace::SetAttr);
  Add(server, Method::kCreate, &names_, &Namespace::Create);
  Add(server, Method::kLink, &names_, &Namespace::Link);
  Add(server, Method::kUnlink, &names_, &Namespace::Unlink);
  Add(server, Method::kRmdir, &names_, &Namespace::Rmdir);
  Add(server, Method::kRename, &names_, &Namespace::Rename);
  Add(server, Method::kReadDir, &names_, &Namespace::ReadDir);
  Add(server, Method::kReadLink, &names_, &Namespace::ReadLink);
  Add(server, Method::kGetExtents, &extents_, &Extents::Get);
  Add(server, Method::kCommitExtents, &extents_, &Extents::Commit);

  Add(server, Method::kOpenSet, &sets_, &Sets::Open);
  Add(server, Method::kCommitRank, &sets_, &Sets::CommitRank);
  Add(server, Method::kWaitSet, &sets_, &Sets::Wait);
  Add(server, Method::kListSets, &sets_, &Sets::List);
  Add(server, Method::kGetSet, &sets_, &Sets::Get);
  Add(server, Method::kGetManifest, &sets_, &Sets::GetManifest);
  Add(server, Method::kRemoveSet, &sets_, &Sets::Remove);
}

}  // namespace cairn::server
