#include "server/main/listen.h"

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
      co_return absl::AlreadyExistsError(absl::StrCat(
          address, " is in use by another process: stop it, or choose "
                   "another port with --listen"));
    }
    co_await io::SleepFor(env, kPauseNs);
  }
}

}  // namespace cairn::server
