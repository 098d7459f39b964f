#include "tests/support/golden.h"

#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

namespace cairn::testing {

std::string ReadGolden(const std::string& name) {
  std::ifstream file("tests/golden/" + name, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << "no tests/golden/" << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace cairn::testing
