#include <algorithm>
#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "format/safetensors/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/golden.h"
#include "tests/support/status_matchers.h"

namespace cairn::format {
namespace {

using cairn::testing::IsOk;
using cairn::testing::ReadGolden;
using cairn::testing::StatusIs;

// golden.safetensors as the reference wrote it, so that a changed file shows.
constexpr char kGoldenBase64[] =
    "4AEAAAAAAAB7Il9fbWV0YWRhdGFfXyI6eyJmb3JtYXQiOiJwdCJ9LCLDqVwiXFxcbvCfmIAi"
    "OnsiZHR5cGUiOiJJNjQiLCJzaGFwZSI6WzFdLCJkYXRhX29mZnNldHMiOlswLDhdfSwicyI6"
    "eyJkdHlwZSI6IkY2NCIsInNoYXBlIjpbXSwiZGF0YV9vZmZzZXRzIjpbOCwxNl19LCJhIjp7"
    "ImR0eXBlIjoiRjMyIiwic2hhcGUiOlsyXSwiZGF0YV9vZmZzZXRzIjpbMTYsMjRdfSwidyI6"
    "eyJkdHlwZSI6IkJGMTYiLCJzaGFwZSI6WzNdLCJkYXRhX29mZnNldHMiOlsyNCwzMF19LCJ5"
    "Ijp7ImR0eXBlIjoiRjE2Iiwic2hhcGUiOlswXSwiZGF0YV9vZmZzZXRzIjpbMzAsMzBdfSwi"
    "eiI6eyJkdHlwZSI6IkYxNiIsInNoYXBlIjpbMCw0XSwiZGF0YV9vZmZzZXRzIjpbMzAsMzBd"
    "fSwiYiI6eyJkdHlwZSI6Ikk4Iiwic2hhcGUiOlszXSwiZGF0YV9vZmZzZXRzIjpbMzAsMzNd"
    "fSwicSI6eyJkdHlwZSI6IkY0Iiwic2hhcGUiOls0XSwiZGF0YV9vZmZzZXRzIjpbMzMsMzVd"
    "fX0BAAAAAAAAAAAAAAAAAPg/AAAAAAAAgD+APwBAQEAAAQISNA==";

SafetensorsHeader ParseFile(const std::string& file) {
  const ConstBytes bytes = AsBytes(file);
  const uint64_t header_bytes =
      SafetensorsHeaderBytes(bytes.first(8), bytes.size()).value();
  return ParseSafetensorsHeader(bytes.first(header_bytes), bytes.size())
      .value();
}

void ExpectRewrittenByteForByte(const std::string& golden) {
  SCOPED_TRACE(golden);
  const std::string file = ReadGolden(golden);
  SafetensorsHeader header = ParseFile(file);
  // Any order in, the reference's order out.
  std::mt19937_64 random(1);
  std::shuffle(header.entries.begin(), header.entries.end(), random);
  const auto written = WriteSafetensorsHeader(&header, {});
  ASSERT_OK(written);
  EXPECT_EQ(*written, file.substr(0, written->size()));
  EXPECT_EQ(header, ParseFile(file));
}

TEST(SafetensorsWriter, GoldenFilesOfTheReferenceAreRewrittenByteForByte) {
  ExpectRewrittenByteForByte("golden.safetensors");
  ExpectRewrittenByteForByte("golden_nometa.safetensors");
  ExpectRewrittenByteForByte("golden_empty.safetensors");
}

TEST(SafetensorsWriter, GoldenFileIsTheOneOfTheDocument) {
  std::string bytes;
  ASSERT_TRUE(absl::Base64Unescape(kGoldenBase64, &bytes));
  EXPECT_EQ(bytes, ReadGolden("golden.safetensors"));
}

TEST(SafetensorsWriter, EmptyMapWithoutMetadataTakesSixteenBytes) {
  SafetensorsHeader header;
  EXPECT_EQ(WriteSafetensorsHeader(&header, {}).value(),
            std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(SafetensorsWriter, DataStartsOnTheAlignmentAskedForAndStillReads) {
  for (const uint64_t alignment : {8u, 512u, 4096u, 65536u}) {
    SafetensorsHeader header = ParseFile(ReadGolden("golden.safetensors"));
    SafetensorsWriteOptions options;
    options.data_alignment = alignment;
    const auto written = WriteSafetensorsHeader(&header, options);
    ASSERT_OK(written);
    EXPECT_EQ(written->size() % alignment, 0u);
    EXPECT_EQ(header.data_start, written->size());
    const auto read =
        ParseSafetensorsHeader(AsBytes(*written), written->size() + 35);
    ASSERT_OK(read);
    EXPECT_EQ(*read, header);
  }
}

TEST(SafetensorsWriter, KeepOrderWritesTheGivenOrder) {
  SafetensorsHeader header;
  header.entries = {{"z", Dtype::kU8, {3}}, {"a", Dtype::kF64, {1}}};
  SafetensorsWriteOptions options;
  options.keep_order = true;
  const auto written = WriteSafetensorsHeader(&header, options);
  ASSERT_OK(written);
  EXPECT_LT(written->find("\"z\""), written->find("\"a\""));
  EXPECT_EQ(header.entries[1].begin, 3u);
  EXPECT_EQ(header.entries[1].end, 11u);
  EXPECT_EQ(header.data_bytes, 11u);
}

TEST(SafetensorsWriter, OrderIsWideTypesFirstAndThenNamesByTheirBytes) {
  SafetensorsHeader header;
  header.entries = {{"\xc3\xa9", Dtype::kF32, {1}}, {"b", Dtype::kBool, {1}},
                    {"Z", Dtype::kF32, {1}},        {"a", Dtype::kF32, {1}},
                    {"u", Dtype::kU64, {1}},        {"i", Dtype::kI64, {1}}};
  ASSERT_OK(WriteSafetensorsHeader(&header, {}));
  std::string names;
  for (const SafetensorsEntry& entry : header.entries) names += entry.name;
  EXPECT_EQ(names,
            "uiZa\xc3\xa9"
            "b");
}

TEST(SafetensorsWriter, MetadataIsSortedAndFirst) {
  SafetensorsHeader header;
  header.metadata = {{"b", "2"}, {"a", "1"}, {"c", "\"\\\x01\x7f\b\f\n\r\t"}};
  header.entries = {{"t", Dtype::kU8, {0}}};
  const std::string written = WriteSafetensorsHeader(&header, {}).value();
  const std::string expected =
      R"({"__metadata__":{"a":"1","b":"2","c":"\"\\\u0001)"
      "\x7f"
      R"(\b\f\n\r\t"},"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  EXPECT_EQ(written.substr(8, expected.size()), expected);
}

TEST(SafetensorsWriter, AnyNameOfUnicodeReadsBackAsItWas) {
  SafetensorsHeader header;
  std::string controls;
  for (char c = 0; c < 0x20; ++c) controls += c;
  header.entries = {{controls, Dtype::kU8, {1}},
                    {"\"\\/\x7f", Dtype::kU8, {1}},
                    {"", Dtype::kU8, {1}},
                    {"\xef\xbb\xbf\xf4\x8f\xbf\xbf", Dtype::kU8, {1}}};
  const auto written = WriteSafetensorsHeader(&header, {});
  ASSERT_OK(written);
  const auto read =
      ParseSafetensorsHeader(AsBytes(*written), written->size() + 4);
  ASSERT_OK(read);
  EXPECT_EQ(read->entries, header.entries);
}

TEST(SafetensorsWriter, WhatCouldNotBeReadBackIsRefused) {
  const auto refusal = [](std::vector<SafetensorsEntry> entries,
                          SafetensorsWriteOptions options = {}) {
    SafetensorsHeader header;
    header.entries = std::move(entries);
    return WriteSafetensorsHeader(&header, options).status();
  };
  const auto code = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(refusal({{"a", Dtype::kU8, {1}}, {"a", Dtype::kF32, {1}}}),
              StatusIs(code, "DuplicateKey"));
  EXPECT_THAT(refusal({{"\xff", Dtype::kU8, {1}}}), StatusIs(code, "UTF-8"));
  EXPECT_THAT(refusal({{"__metadata__", Dtype::kU8, {1}}}),
              StatusIs(code, "reserved"));
  EXPECT_THAT(refusal({{"a", Dtype::kF4, {3}}}),
              StatusIs(code, "MisalignedSlice"));
  EXPECT_THAT(refusal({{"a", Dtype::kU8, {1ull << 32, 1ull << 32}}}),
              StatusIs(code, "ValidationOverflow"));
  EXPECT_THAT(refusal({{"a", Dtype::kU8, std::vector<uint64_t>(33, 1)}}),
              StatusIs(code, "TooManyDimensions"));
  for (const uint64_t alignment : {0u, 4u, 24u, 1u << 21}) {
    SafetensorsWriteOptions options;
    options.data_alignment = alignment;
    EXPECT_THAT(refusal({}, options), StatusIs(code, "alignment"));
  }
  SafetensorsHeader long_metadata;
  long_metadata.metadata["k"] = std::string(100'000'000, 'x');
  EXPECT_THAT(WriteSafetensorsHeader(&long_metadata, {}),
              StatusIs(code, "HeaderTooLarge"));
}

}  // namespace
}  // namespace cairn::format
