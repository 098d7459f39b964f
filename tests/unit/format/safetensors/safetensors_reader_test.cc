#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "format/base/limits.h"
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
using ::testing::ElementsAre;

std::string Length(uint64_t bytes) {
  std::string text(8, '\0');
  StoreLe(text.data(), bytes);
  return text;
}

// A file with this JSON and so many bytes of data.
std::string File(const std::string& json, size_t data_bytes) {
  return Length(json.size()) + json + std::string(data_bytes, '\x02');
}

// As a caller would: the length first, then exactly the header.
absl::StatusOr<SafetensorsHeader> Parse(const std::string& file) {
  const ConstBytes bytes = AsBytes(file);
  CAIRN_ASSIGN_OR_RETURN(
      const uint64_t header_bytes,
      SafetensorsHeaderBytes(bytes.first(std::min<size_t>(8, bytes.size())),
                             bytes.size()));
  return ParseSafetensorsHeader(bytes.first(header_bytes), bytes.size());
}

std::string Entry(const std::string& name, const std::string& dtype,
                  const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
         "],\"data_offsets\":[" + offsets + "]}";
}

struct Row {
  std::string what;
  std::string file;
  std::string error;  // Empty: accepted.
};

const std::string kA = Entry("a", "F32", "2", "0,8");

// The reference's decisions on hand-made files: docs/format/safetensors.md.
std::vector<Row> AcceptedRows() {
  const std::string b = Entry("b", "U8", "4", "8,12");
  return {
      {"plain", File("{" + kA + "}", 8), ""},
      {"leading space", File(" {" + kA + "}", 8), ""},
      {"trailing spaces", File("{" + kA + "}   ", 8), ""},
      {"trailing newlines", File("{" + kA + "}\n\n", 8), ""},
      {"trailing tab and CR", File("{" + kA + "}\t\r", 8), ""},
      {"inner white space",
       File("{ \"a\" :\n{\t\"dtype\" : \"F32\", \"shape\" : [ 2 ],\r\n"
            "\"data_offsets\" : [ 0 , 8 ] } }",
            8),
       ""},
      {"fields in any order",
       File(R"({"a":{"data_offsets":[0,8],"shape":[2],"dtype":"F32"}})", 8),
       ""},
      {"unknown field",
       File(R"({"a":{"x":[1.5,{"y":[null,-1,true,"s"]}],"dtype":"F32",)"
            R"("shape":[2],"z":-0.5,"data_offsets":[0,8]}})",
            8),
       ""},
      {"entries not sorted by offset", File("{" + b + "," + kA + "}", 12), ""},
      {"metadata last", File("{" + kA + R"(,"__metadata__":{"k":"v"}})", 8),
       ""},
      {"metadata null", File(R"({"__metadata__":null,)" + kA + "}", 8), ""},
      {"only metadata", File(R"({"__metadata__":{"k":"v"}})", 0), ""},
      {"empty map", File("{}", 0), ""},
      {"empty name", File("{" + Entry("", "F32", "2", "0,8") + "}", 8), ""},
      {"two empty tensors at the start",
       File("{" + Entry("x", "F32", "0", "0,0") + "," +
                Entry("y", "F32", "0,4", "0,0") + "," + kA + "}",
            8),
       ""},
      {"two empty tensors in the middle",
       File("{" + kA + "," + Entry("x", "F32", "0", "8,8") + "," +
                Entry("y", "F32", "3,0", "8,8") + "," + b + "}",
            12),
       ""},
      {"unaligned start of data", File("{" + kA + "} ", 8), ""},
      {"U8 and then unaligned F32",
       File("{" + Entry("u", "U8", "1", "0,1") + "," +
                Entry("f", "F32", "1", "1,5") + "}",
            5),
       ""},
      {"BOOL bytes other than 0 and 1",
       File("{" + Entry("b", "BOOL", "3", "0,3") + "}", 3), ""},
      {"escaped surrogate pair in a name",
       File("{" + Entry("\\ud83d\\ude00", "F32", "2", "0,8") + "}", 8), ""},
      {"F4 of even count", File("{" + Entry("q", "F4", "2,3", "0,3") + "}", 3),
       ""},
  };
}

std::vector<Row> RowsWithBadOffsets() {
  return {
      {"trailing byte", File("{" + kA + "}", 9), "MetadataIncompleteBuffer"},
      {"data too short", File("{" + kA + "}", 7), "MetadataIncompleteBuffer"},
      {"hole", File("{" + kA + "," + Entry("b", "U8", "1", "9,10") + "}", 10),
       "InvalidOffset"},
      {"first offset not 0", File("{" + Entry("a", "F32", "2", "1,9") + "}", 9),
       "InvalidOffset"},
      {"shared range",
       File("{" + kA + "," + Entry("b", "F32", "2", "0,8") + "}", 8),
       "InvalidOffset"},
      {"reversed offsets", File("{" + Entry("a", "F32", "2", "8,0") + "}", 8),
       "InvalidOffset"},
      {"size is not the product of the shape",
       File("{" + Entry("a", "F32", "3", "0,8") + "}", 8), "TensorInvalidInfo"},
      {"product overflows",
       File("{" + Entry("a", "F32", "4294967296,4294967296", "0,8") + "}", 8),
       "ValidationOverflow"},
      {"product overflows before a 0",
       File("{" + Entry("a", "F32", "4294967296,4294967296,0", "0,0") + "}", 0),
       "ValidationOverflow"},
      {"F4 of odd count", File("{" + Entry("q", "F4", "3", "0,2") + "}", 2),
       "MisalignedSlice"},
  };
}

std::vector<Row> RowsWithBadJson() {
  const std::string json = "InvalidHeaderDeserialization";
  return {
      {"trailing NULs", File("{" + kA + "}" + std::string(3, '\0'), 8), json},
      {"byte order mark", File("\xef\xbb\xbf{" + kA + "}", 8), json},
      {"metadata value not a string",
       File(R"({"__metadata__":{"k":1},)" + kA + "}", 8), json},
      {"unknown dtype", File("{" + Entry("a", "F31", "2", "0,8") + "}", 8),
       json},
      {"lower-case dtype", File("{" + Entry("a", "f32", "2", "0,8") + "}", 8),
       json},
      {"negative shape", File("{" + Entry("a", "F32", "-2", "0,8") + "}", 8),
       json},
      {"float offsets", File("{" + Entry("a", "F32", "2", "0.0,8.0") + "}", 8),
       json},
      {"bad UTF-8", File("{" + Entry("\xff", "F32", "2", "0,8") + "}", 8),
       "InvalidHeader: not UTF-8"},
      {"lone surrogate",
       File("{" + Entry("\\ud83d", "F32", "2", "0,8") + "}", 8), json},
      {"top-level array", File("[" + kA.substr(4) + "]", 8), json},
  };
}

std::vector<Row> RowsWithBadLength() {
  return {
      {"header of no bytes", File("", 0), "InvalidHeaderDeserialization"},
      {"header over the limit", Length(100'000'001) + "{}", "HeaderTooLarge"},
      {"header past the end", Length(3) + "{}", "InvalidHeaderLength"},
      {"file under 8 bytes", "\x02\0\0\0\0\0\0", "HeaderTooSmall"},
  };
}

void ExpectRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    if (row.error.empty()) {
      EXPECT_OK(Parse(row.file));
    } else {
      EXPECT_THAT(Parse(row.file),
                  StatusIs(absl::StatusCode::kInvalidArgument, row.error));
    }
  }
}

TEST(SafetensorsReader, AcceptsWhatTheReferenceAccepts) {
  ASSERT_EQ(AcceptedRows().size(), 21u);  // And duplicate keys: see below.
  ExpectRows(AcceptedRows());
}

TEST(SafetensorsReader, RefusesBadOffsetsAndSizesUnderTheReferencesName) {
  ExpectRows(RowsWithBadOffsets());
}

TEST(SafetensorsReader, RefusesJsonThatTheReferenceRefuses) {
  ExpectRows(RowsWithBadJson());
}

TEST(SafetensorsReader, RefusesLengthsUnderTheReferencesName) {
  ExpectRows(RowsWithBadLength());
}

// The one row where we are stricter: there the last one silently wins.
TEST(SafetensorsReader, DuplicateKeysAreRefusedAtEveryLevel) {
  const std::vector<std::string> jsons = {
      "{" + kA + "," + kA + "}",
      R"({"\u0061":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)" + kA +
          "}",
      R"({"__metadata__":{"k":"v","k":"v"},)" + kA + "}",
      R"({"__metadata__":{"k":"v"},)" + kA + R"(,"__metadata__":null})",
      R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})",
  };
  for (const std::string& json : jsons) {
    SCOPED_TRACE(json);
    EXPECT_THAT(Parse(File(json, 8)),
                StatusIs(absl::StatusCode::kInvalidArgument, "DuplicateKey"));
  }
}

TEST(SafetensorsReader, IncompleteEntriesAndMisplacedValuesAreRefused) {
  const std::vector<std::string> jsons = {
      R"({"a":{"shape":[2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[2]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})",
      R"({"a":{"dtype":"F32","shape":null,"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}})",
      R"({"a":{"dtype":"F32","shape":[2e0],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[18446744073709551616,0],)"
      R"("data_offsets":[0,0]}})",
      R"({"a":{"dtype":["F32"],"shape":[2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":{},"data_offsets":[0,8]}})",
      R"({"a":["F32",[2],[0,8]]})",
      R"({"a":null})",
      R"({"__metadata__":["k","v"]})",
      R"({"__metadata__":{"k":null}})",
      R"({"__metadata__":{"k":{}}})",
      R"({} {})",
      R"({},)",
      R"({"a":1,})",
      R"({/**/})",
      R"("a")",
      R"(null)",
      R"({)",
  };
  for (const std::string& json : jsons) {
    SCOPED_TRACE(json);
    EXPECT_THAT(Parse(File(json, 8)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         "InvalidHeaderDeserialization"));
  }
}

TEST(SafetensorsReader, RawControlBytesAndNulInsideStringsAreRefused) {
  for (const char c : {'\0', '\n', '\x1f'}) {
    EXPECT_THAT(
        Parse(File("{" + Entry(std::string(1, c), "F32", "2", "0,8") + "}", 8)),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 "InvalidHeaderDeserialization"));
  }
}

TEST(SafetensorsReader, EscapedNulInANameIsAPartOfTheName) {
  const auto header =
      Parse(File("{" + Entry("x\\u0000y", "F32", "2", "0,8") + "}", 8));
  ASSERT_OK(header);
  EXPECT_EQ(header->entries[0].name, std::string("x\0y", 3));
}

TEST(SafetensorsReader, DeepNestingInAnUnknownFieldIsRefused) {
  const auto nested = [](int depth) {
    return File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":)" +
                    std::string(depth, '[') + std::string(depth, ']') + "}}",
                8);
  };
  EXPECT_OK(Parse(nested(kJsonDepthMax)));
  EXPECT_THAT(Parse(nested(kJsonDepthMax + 1)),
              StatusIs(absl::StatusCode::kInvalidArgument, "nested"));
  EXPECT_THAT(Parse(nested(1'000'000)),
              StatusIs(absl::StatusCode::kInvalidArgument, "nested"));
}

TEST(SafetensorsReader, TensorsAndDimensionsOverTheLimitsAreRefused) {
  std::string dims = "1";
  for (uint32_t i = 1; i < kTensorRankMax; ++i) dims += ",1";
  EXPECT_OK(Parse(File("{" + Entry("a", "U8", dims, "0,1") + "}", 1)));
  EXPECT_THAT(
      Parse(File("{" + Entry("a", "U8", dims + ",1", "0,1") + "}", 1)),
      StatusIs(absl::StatusCode::kInvalidArgument, "TooManyDimensions"));

  std::string many = "{";
  for (uint64_t i = 0; i <= kTensorsPerFileMax; ++i) {
    many += Entry(std::to_string(i), "U8", "0", "0,0") + ",";
  }
  many.back() = '}';
  EXPECT_THAT(Parse(File(many, 0)),
              StatusIs(absl::StatusCode::kInvalidArgument, "TooManyTensors"));
}

TEST(SafetensorsReader, EntriesComeInOrderOfOffsetWithTheirFields) {
  const auto header = Parse(File("{" + Entry("b", "U8", "4", "8,12") + "," +
                                     kA + R"(,"__metadata__":{"k":"v\n"}})",
                                 12));
  ASSERT_OK(header);
  EXPECT_THAT(header->entries,
              ElementsAre(SafetensorsEntry{"a", Dtype::kF32, {2}, 0, 8},
                          SafetensorsEntry{"b", Dtype::kU8, {4}, 8, 12}));
  EXPECT_EQ(header->data_bytes, 12u);
  EXPECT_EQ(header->metadata.at("k"), "v\n");
}

TEST(SafetensorsReader, HeaderOfAnotherLengthThanItsOwnIsRefused) {
  const std::string file = File("{" + kA + "}", 8);
  const ConstBytes bytes = AsBytes(file);
  EXPECT_THAT(ParseSafetensorsHeader(bytes, file.size()),
              StatusIs(absl::StatusCode::kInvalidArgument, "header of"));
  EXPECT_THAT(ParseSafetensorsHeader(bytes.first(file.size() - 9), file.size()),
              StatusIs(absl::StatusCode::kInvalidArgument, "header of"));
}

TEST(SafetensorsReader, GoldenFileOfTheReferenceReadsInFull) {
  const auto header = Parse(ReadGolden("golden.safetensors"));
  ASSERT_OK(header);
  EXPECT_EQ(header->metadata,
            (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_THAT(header->entries,
              ElementsAre(SafetensorsEntry{"é\"\\\n😀", Dtype::kI64, {1}, 0, 8},
                          SafetensorsEntry{"s", Dtype::kF64, {}, 8, 16},
                          SafetensorsEntry{"a", Dtype::kF32, {2}, 16, 24},
                          SafetensorsEntry{"w", Dtype::kBf16, {3}, 24, 30},
                          SafetensorsEntry{"y", Dtype::kF16, {0}, 30, 30},
                          SafetensorsEntry{"z", Dtype::kF16, {0, 4}, 30, 30},
                          SafetensorsEntry{"b", Dtype::kI8, {3}, 30, 33},
                          SafetensorsEntry{"q", Dtype::kF4, {4}, 33, 35}));
}

}  // namespace
}  // namespace cairn::format
