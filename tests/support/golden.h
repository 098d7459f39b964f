// Golden files: bytes that earlier versions, or other implementations, wrote.
#pragma once

#include <string>

namespace cairn::testing {

// The bytes of tests/golden/`name`; the test fails if it cannot be read. Tests
// run with the project's root as their working directory.
std::string ReadGolden(const std::string& name);

}  // namespace cairn::testing
