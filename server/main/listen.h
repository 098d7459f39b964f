// Listening right after another cairnd was killed.
#pragma once

#include <memory>
#include <string>

#include "io/env.h"

namespace cairn::server {

// As Env::Listen, but an address in use is tried again for a few seconds: a
// process that was just killed holds it until the kernel has cleaned up.
io::Task<absl::StatusOr<std::unique_ptr<io::Listener>>> ListenPatiently(
    io::Env* env, std::string address);

// "127.0.0.1" of "127.0.0.1:7400".
std::string HostOf(const std::string& listen);
// kInvalidArgument: not HOST:PORT. kPermissionDenied: beyond loopback without
// `insecure`; says why.
absl::Status CheckListenAddress(const std::string& listen, bool insecure);

}  // namespace cairn::server
