#include "format/path/names.h"

#include <string>
#include <string_view>

#include "format/base/limits.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using ::cairn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::string_view_literals;  // NUL bytes in literals.

struct TextCase {
  std::string_view text;
  const char* what;
};

constexpr TextCase kGoodUtf8[] = {
    {""sv, "empty"},
    {"plain"sv, "ASCII"},
    {"\0\x01\x7f"sv, "controls"},
    {"\xc2\x80"sv, "U+0080, the first of two bytes"},
    {"\xdf\xbf"sv, "U+07FF, the last of two bytes"},
    {"\xe0\xa0\x80"sv, "U+0800, the first of three bytes"},
    {"\xed\x9f\xbf"sv, "U+D7FF, before the surrogates"},
    {"\xee\x80\x80"sv, "U+E000, after the surrogates"},
    {"\xef\xbf\xbf"sv, "U+FFFF, the last of three bytes"},
    {"\xf0\x90\x80\x80"sv, "U+10000, the first of four bytes"},
    {"\xf4\x8f\xbf\xbf"sv, "U+10FFFF, the last of all"},
    {"h\xc3\xa9llo \xf0\x9f\x98\x80"sv, "mixed"},
};

constexpr TextCase kBadUtf8[] = {
    {"\x80"sv, "a continuation byte alone"},
    {"\xbf"sv, "a continuation byte alone"},
    {"a\xc3"sv, "two bytes, truncated"},
    {"\xe2\x82"sv, "three bytes, truncated"},
    {"\xf0\x9f\x98"sv, "four bytes, truncated"},
    {"\xc3z"sv, "no continuation where one must be"},
    {"\xe2\x82z"sv, "no third byte"},
    {"\xf0\x9f\x98z"sv, "no fourth byte"},
    {"\xe2z\x82"sv, "no second byte"},
    {"\xc0\xaf"sv, "overlong '/'"},
    {"\xc1\xbf"sv, "overlong U+007F"},
    {"\xe0\x80\xaf"sv, "overlong '/' in three bytes"},
    {"\xe0\x9f\xbf"sv, "overlong U+07FF"},
    {"\xf0\x80\x80\xaf"sv, "overlong '/' in four bytes"},
    {"\xf0\x8f\xbf\xbf"sv, "overlong U+FFFF"},
    {"\xed\xa0\x80"sv, "the first surrogate"},
    {"\xed\xbf\xbf"sv, "the last surrogate"},
    {"\xed\xa0\xbd\xed\xb8\x80"sv, "a surrogate pair"},
    {"\xf4\x90\x80\x80"sv, "U+110000"},
    {"\xf5\x80\x80\x80"sv, "a lead byte beyond Unicode"},
    {"\xf8\x88\x80\x80\x80"sv, "five bytes"},
    {"\xfe"sv, "never a byte of UTF-8"},
    {"\xff"sv, "never a byte of UTF-8"},
};

TEST(IsValidUtf8, AcceptsTheEdgesOfEveryLength) {
  for (const TextCase& c : kGoodUtf8)
    EXPECT_TRUE(IsValidUtf8(c.text)) << c.what;
}

TEST(IsValidUtf8, RefusesTruncatedOverlongSurrogatesAndBeyondUnicode) {
  for (const TextCase& c : kBadUtf8) {
    EXPECT_FALSE(IsValidUtf8(c.text)) << c.what;
    const std::string inside = "a" + std::string(c.text) + "b";
    EXPECT_FALSE(IsValidUtf8(inside)) << c.what;
  }
}

// Every code point by its arithmetic encoding, and every surrogate refused.
TEST(IsValidUtf8, AcceptsEveryCodePointButSurrogates) {
  for (uint32_t point = 0x80; point <= 0x10ffff; ++point) {
    std::string text;
    const auto tail = [&](uint32_t shift) {
      text += static_cast<char>(0x80 | ((point >> shift) & 0x3f));
    };
    if (point < 0x800) {
      text += static_cast<char>(0xc0 | (point >> 6));
    } else if (point < 0x10000) {
      text += static_cast<char>(0xe0 | (point >> 12));
      tail(6);
    } else {
      text += static_cast<char>(0xf0 | (point >> 18));
      tail(12);
      tail(6);
    }
    tail(0);
    const bool surrogate = point >= 0xd800 && point <= 0xdfff;
    ASSERT_EQ(IsValidUtf8(text), !surrogate) << point;
  }
}

TEST(ValidateName, AcceptsAllNamesThatLinuxAndUtf8Allow) {
  for (const std::string& name :
       {std::string("a"), std::string("..."), std::string(".hidden"),
        std::string(" "), std::string("a\nb"), std::string("-rf"),
        std::string("\xe6\xa8\xa1\xe5\x9e\x8b"), std::string(255, 'n')}) {
    EXPECT_OK(ValidateName(name)) << EscapeForDisplay(name);
  }
}

TEST(ValidateName, RefusesBadNamesWithTheRuleTheyBreak) {
  const struct {
    std::string name;
    const char* message;
  } kCases[] = {
      {"", "name \"\": it is empty"},
      {".", "name \".\": it is reserved"},
      {"..", "name \"..\": it is reserved"},
      {std::string(256, 'n'), "it has 256 bytes; at most 255"},
      {"a/b", "name \"a/b\": it contains '/'"},
      {"/", "it contains '/'"},
      {std::string("a\0b", 3), "name \"a\\x00b\": it contains a zero byte"},
      {"a\xff", "name \"a\\xff\": it is not valid UTF-8"},
      {"\xc0\xaf", "name \"\\xc0\\xaf\": it is not valid UTF-8"},
  };
  for (const auto& [name, message] : kCases) {
    EXPECT_THAT(ValidateName(name),
                StatusIs(absl::StatusCode::kInvalidArgument, message));
  }
  for (const TextCase& c : kBadUtf8) {
    EXPECT_THAT(ValidateName(c.text),
                StatusIs(absl::StatusCode::kInvalidArgument, "UTF-8"))
        << c.what;
  }
}

TEST(ValidateName, MessagesShowOnlyTheBeginningOfALongName) {
  const absl::Status status = ValidateName(std::string(100'000, 'n'));
  EXPECT_LT(status.message().size(), 200u);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, "nnn...\""));
}

TEST(SplitPath, GivesTheNamesAndIgnoresRepeatedAndTrailingSlashes) {
  const auto root = SplitPath("/");
  ASSERT_OK(root);
  EXPECT_THAT(*root, IsEmpty());
  const auto slashes = SplitPath("///");
  ASSERT_OK(slashes);
  EXPECT_THAT(*slashes, IsEmpty());
  const auto plain = SplitPath("/ckpt/run1/step-100");
  ASSERT_OK(plain);
  EXPECT_THAT(*plain, ElementsAre("ckpt", "run1", "step-100"));
  const auto untidy = SplitPath("//ckpt///run1/");
  ASSERT_OK(untidy);
  EXPECT_THAT(*untidy, ElementsAre("ckpt", "run1"));
}

TEST(SplitPath, RefusesRelativeDottedAndTooLongPaths) {
  const struct {
    std::string path;
    const char* message;
  } kCases[] = {
      {"", "path \"\" does not start with '/'"},
      {"ckpt", "path \"ckpt\" does not start with '/'"},
      {"./a", "does not start with '/'"},
      {"/a/../b", "name \"..\": it is reserved"},
      {"/a/.", "name \".\": it is reserved"},
      {"/..", "name \"..\": it is reserved"},
      {std::string("/a\0", 3), "it contains a zero byte"},
      {"/a/\xff", "it is not valid UTF-8"},
      {"/" + std::string(256, 'n') + "/b", "it has 256 bytes"},
      {std::string(kPathBytesMax + 1, '/'), "the path has 4097 bytes"},
  };
  for (const auto& [path, message] : kCases) {
    EXPECT_THAT(SplitPath(path),
                StatusIs(absl::StatusCode::kInvalidArgument, message));
  }
  EXPECT_OK(SplitPath(std::string(kPathBytesMax, '/')));
}

TEST(EscapeForDisplay, LeavesPrintableTextAlone) {
  for (const char* text : {"", "plain", "a b\\c\"d", "h\xc3\xa9", "\xc2\xa0",
                           "\xf0\x9f\x98\x80"}) {
    EXPECT_EQ(EscapeForDisplay(text), text);
  }
}

TEST(EscapeForDisplay, EscapesControlsAndInvalidBytes) {
  EXPECT_EQ(EscapeForDisplay("a\nb\tc\x1b[31m\x7f"),
            "a\\x0ab\\x09c\\x1b[31m\\x7f");
  EXPECT_EQ(EscapeForDisplay("\0x"sv), "\\x00x");
  // C1 controls: a terminal takes U+009B for ESC [.
  EXPECT_EQ(EscapeForDisplay("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(EscapeForDisplay("\xe2\x82z\xff"), "\\xe2\\x82z\\xff");
}

// Whatever comes in, what goes to a terminal is valid and without controls.
TEST(EscapeForDisplay, EveryPairOfBytesBecomesValidTextWithoutControls) {
  for (uint32_t pair = 0; pair < 65536; ++pair) {
    const std::string text = {static_cast<char>(pair >> 8),
                              static_cast<char>(pair & 0xff)};
    const std::string shown = EscapeForDisplay(text);
    ASSERT_TRUE(IsValidUtf8(shown)) << pair;
    for (const char c : shown) {
      ASSERT_GE(static_cast<uint8_t>(c), 0x20) << pair;
      ASSERT_NE(c, 0x7f) << pair;
    }
  }
}

}  // namespace
}  // namespace cairn::format
