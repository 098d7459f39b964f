// The names of all fault points and "sometimes" of the sources, in order: what
// a report of those that were never reached starts from. Made by scan.py.
#pragma once

#include <span>
#include <string_view>

namespace cairn {

struct NamedPoint {
  std::string_view name;
  std::string_view source;  // "server/target/local_store.cc".
};

std::span<const NamedPoint> AllFaultPoints();
std::span<const NamedPoint> AllSometimes();

}  // namespace cairn
