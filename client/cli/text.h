// Numbers and tables for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::client::cli {

std::string HumanBytes(uint64_t bytes);          // "1.50 GiB".
std::string HumanRate(double bytes_per_second);  // "1.62 GB/s".
std::string HumanTime(uint64_t wall_ns);         // "2026-11-30 12:00:00".
std::string HumanDuration(uint64_t ms);          // "59 s", "2 min", "3 d".
std::string ShapeText(const std::vector<uint64_t>& shape);  // "[4096, 128]".

// Prints rows with columns lined up; the first row is the heading. Columns
// whose heading starts with '>' are right-aligned (the mark is not printed).
void PrintTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace cairn::client::cli
