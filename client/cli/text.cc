#include "client/cli/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace cairn::client::cli {

std::string HumanBytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B",   "KiB", "MiB",
                                                 "GiB", "TiB", "PiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1023.995 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.2f %s", value, kUnits[unit]);
}

std::string HumanRate(double bytes_per_second) {
  if (bytes_per_second >= 1e9) {
    return absl::StrFormat("%.2f GB/s", bytes_per_second / 1e9);
  }
  return absl::StrFormat("%.1f MB/s", bytes_per_second / 1e6);
}

std::string HumanDuration(uint64_t ms) {
  const uint64_t seconds = ms / 1000;
  if (seconds < 120) return absl::StrCat(seconds, " s");
  if (seconds < 120 * 60) return absl::StrCat(seconds / 60, " min");
  if (seconds < 48 * 3600) return absl::StrCat(seconds / 3600, " h");
  return absl::StrCat(seconds / 86400, " d");
}

std::string HumanTime(uint64_t wall_ns) {
  const std::time_t seconds = static_cast<std::time_t>(wall_ns / 1000000000);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

void PrintTable(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return;
  std::vector<size_t> widths(rows[0].size(), 0);
  std::vector<bool> right(rows[0].size(), false);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size() && c < widths.size(); ++c) {
      const bool marked = r == 0 && !rows[r][c].empty() && rows[r][c][0] == '>';
      if (r == 0) right[c] = marked;
      widths[c] = std::max(widths[c], rows[r][c].size() - (marked ? 1 : 0));
    }
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < rows[r].size() && c < widths.size(); ++c) {
      std::string cell = rows[r][c];
      if (r == 0 && right[c]) cell.erase(0, 1);
      const int width = static_cast<int>(widths[c]);
      absl::StrAppend(&line, c == 0 ? "" : "  ",
                      right[c] ? absl::StrFormat("%*s", width, cell)
                               : absl::StrFormat("%-*s", width, cell));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }
}

}  // namespace cairn::client::cli
