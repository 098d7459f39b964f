#include "server/main/listen.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace cairn::server {

namespace {
constexpr io::TimeNs kPatienceNs = 3 * io::kSecond;
constexpr io::TimeNs kPauseNs = 50 * io::kMillisecond;
}  // namespace

io::Task<absl::StatusOr<std::unique_ptr<io::Listener>>> ListenPatiently(
    io::Env* env, std::string address) {
  const io::TimeNs give_up = env->NowNs() + kPatienceNs;
  while (true) {
    absl::StatusOr<std::unique_ptr<io::Listener>> listener =
        co_await env->Listen(address);
    if (!absl::IsAlreadyExists(listener.status())) co_return listener;
    if (env->NowNs() >= give_up) {
      co_return absl::AlreadyExistsError(
          absl::StrCat(address,
                       " is in use by another process: stop it, or choose "
                       "another port with --listen"));
    }
    co_await io::SleepFor(env, kPauseNs);
  }
}

std::string HostOf(const std::string& listen) {
  return listen.substr(0, listen.rfind(':'));
}

namespace {
bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "[::1]" ||
         absl::StartsWith(host, "127.");
}
}  // namespace

absl::Status CheckListenAddress(const std::string& listen, bool insecure) {
  const size_t colon = listen.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", listen,
                     ": must be HOST:PORT, for example 127.0.0.1:7400"));
  }
  if (insecure || IsLoopback(HostOf(listen))) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "--listen ", listen,
      " is reachable from other machines, and this version has no "
      "authentication: anybody who reaches the port can read and delete "
      "everything. Use 127.0.0.1, or pass --insecure on a trusted network."));
}

}  // namespace cairn::server
