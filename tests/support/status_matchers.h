// Two matchers that this Abseil lacks: IsOk() and StatusIs(code, substring).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::testing {

MATCHER(IsOk, "is OK") {
  const absl::Status status = ToStatus(arg);
  if (status.ok()) return true;
  *result_listener << status.ToString();
  return false;
}

MATCHER_P2(StatusIs, code, substring,
           std::string("has code ") + absl::StatusCodeToString(code) +
               " and a message with \"" + std::string(substring) + "\"") {
  const absl::Status status = ToStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         std::string(status.message()).find(substring) != std::string::npos;
}

}  // namespace cairn::testing

#define ASSERT_OK(expression) ASSERT_THAT(expression, ::cairn::testing::IsOk())
#define EXPECT_OK(expression) EXPECT_THAT(expression, ::cairn::testing::IsOk())
