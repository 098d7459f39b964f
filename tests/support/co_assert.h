// Assertions for test bodies that are coroutines: on failure they note it and
// co_return (gtest's ASSERT_ macros `return`, which a coroutine cannot).
//
// Await first, assert on the named result afterwards.
#pragma once

#include "tests/support/status_matchers.h"

// For Task<void>.
#define CO_ASSERT_TRUE(condition)                         \
  do {                                                    \
    const bool cairn_held = static_cast<bool>(condition); \
    EXPECT_TRUE(cairn_held) << #condition;                \
    if (!cairn_held) co_return;                           \
  } while (false)

#define CO_ASSERT_OK(expression)                                       \
  do {                                                                 \
    const absl::Status cairn_status = ::cairn::ToStatus((expression)); \
    EXPECT_TRUE(cairn_status.ok())                                     \
        << #expression << ": " << cairn_status.ToString();             \
    if (!cairn_status.ok()) co_return;                                 \
  } while (false)

// `lhs` is an existing variable or a declaration.
#define CO_ASSERT_OK_AND_ASSIGN(lhs, expression)         \
  auto CAIRN_CONCAT(cairn_or_, __LINE__) = (expression); \
  CO_ASSERT_OK(CAIRN_CONCAT(cairn_or_, __LINE__));       \
  lhs = *std::move(CAIRN_CONCAT(cairn_or_, __LINE__))
