#include "client/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "client/cli/text.h"

namespace cairn::client::cli {

using std::chrono::steady_clock;

Progress::Progress(std::string label)
    : label_(std::move(label)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(steady_clock::now()) {}

Progress::~Progress() {
  if (shown_) std::fprintf(stderr, "\r\033[K");
}

double Progress::seconds() const {
  return std::chrono::duration<double>(steady_clock::now() - start_).count();
}

void Progress::Update(uint64_t done, uint64_t total) {
  const auto now = steady_clock::now();
  if (!terminal_ || (shown_ && now - drawn_ < std::chrono::milliseconds(100))) {
    return;
  }
  drawn_ = now;
  shown_ = true;
  const double rate = static_cast<double>(done) / std::max(seconds(), 1e-3);
  std::string line = absl::StrFormat("%s  %s", label_, HumanBytes(done));
  if (total > 0) {
    const double share = static_cast<double>(done) / static_cast<double>(total);
    const double left =
        rate > 0 ? static_cast<double>(total - std::min(done, total)) / rate
                 : 0;
    const int bars = static_cast<int>(std::min(share, 1.0) * 30);
    absl::StrAppendFormat(&line, " of %s  [%s%s] %3.0f%%  %.0f s left",
                          HumanBytes(total), std::string(bars, '#'),
                          std::string(30 - bars, '.'), share * 100, left);
  }
  std::fprintf(stderr, "\r\033[K%s  %s", line.c_str(), HumanRate(rate).c_str());
  std::fflush(stderr);
}

}  // namespace cairn::client::cli
