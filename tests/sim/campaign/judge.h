// Judge: hears of everything that must not happen. The first violation decides
// the seed; what is done with it is up to who made the Judge.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace cairn::sim {

class Judge {
 public:
  using Handler = std::function<void(const std::string&)>;

  explicit Judge(Handler handler) : handler_(std::move(handler)) {}

  // `handler` may end the process.
  void Violation(std::string what) {
    if (violated_) return;
    violated_ = true;
    what_ = std::move(what);
    handler_(what_);
  }
  bool violated() const { return violated_; }
  const std::string& what() const { return what_; }

 private:
  const Handler handler_;
  bool violated_ = false;
  std::string what_;
};

}  // namespace cairn::sim
