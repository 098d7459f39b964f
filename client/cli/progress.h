// A progress line with rate and time left, on a terminal; nothing elsewhere.
//
// Threads: Update() may come from any one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace cairn::client::cli {

class Progress {
 public:
  // `label`: "save", "load"... Draws on stderr, at most ten times a second.
  explicit Progress(std::string label);
  ~Progress();  // Clears the line.
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `total` 0: unknown.
  void Update(uint64_t done, uint64_t total);
  double seconds() const;

 private:
  const std::string label_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
  bool shown_ = false;
};

}  // namespace cairn::client::cli
