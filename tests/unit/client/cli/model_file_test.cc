#include "client/cli/model_file.h"

#include <filesystem>
#include <string>

#include "tests/support/status_matchers.h"
#include "tests/unit/client/cli/temp_dir.h"

namespace cairn::client::cli {
namespace {

using format::Dtype;
using format::SafetensorsEntry;
using testing::IsOk;
using testing::StatusIs;
using testing::TempDir;

// "a": 2 x 3 of U16 with the bytes 'a'...'l'; "b": 4 of U8, "wxyz".
std::string Model() {
  format::SafetensorsHeader header;
  header.metadata["origin"] = "test";
  header.entries = {{.name = "a", .dtype = Dtype::kU16, .shape = {2, 3}},
                    {.name = "b", .dtype = Dtype::kU8, .shape = {4}}};
  auto bytes = format::WriteSafetensorsHeader(&header, {});
  EXPECT_OK(bytes);
  return *bytes + "abcdefghijklwxyz";
}

struct OpenedModel {
  OpenedModel() {
    dir.Write("m.safetensors", Model());
    auto opened = ModelFile::Open(dir.Path("m.safetensors"));
    EXPECT_OK(opened);
    if (opened.ok()) file = *std::move(opened);
  }
  std::string Slice(size_t entry, const format::Slice& slice, size_t bytes) {
    std::string to(bytes, '?');
    EXPECT_OK(
        file->ReadSlice(file->header().entries[entry], slice,
                        {reinterpret_cast<uint8_t*>(to.data()), to.size()}));
    return to;
  }
  TempDir dir;
  std::unique_ptr<ModelFile> file;
};

TEST(ModelFile, HeaderIsThatOfTheFile) {
  OpenedModel model;
  EXPECT_EQ(model.file->path(), model.dir.Path("m.safetensors"));
  const format::SafetensorsHeader& header = model.file->header();
  ASSERT_EQ(header.entries.size(), 2u);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_EQ(header.entries[1].name, "b");
  EXPECT_EQ(header.metadata.at("origin"), "test");
}

TEST(ModelFile, WholeTensorsAreReadFromTheirPlaces) {
  OpenedModel model;
  EXPECT_EQ(model.Slice(0, {{0, 0}, {2, 3}}, 12), "abcdefghijkl");
  EXPECT_EQ(model.Slice(1, {{0}, {4}}, 4), "wxyz");
}

TEST(ModelFile, SlicesAreReadDense) {
  OpenedModel model;
  EXPECT_EQ(model.Slice(0, {{1, 0}, {1, 3}}, 6), "ghijkl");
  EXPECT_EQ(model.Slice(0, {{0, 1}, {2, 1}}, 4), "cdij");
  EXPECT_EQ(model.Slice(0, {{0, 1}, {2, 2}}, 8), "cdefijkl");
  EXPECT_EQ(model.Slice(1, {{2}, {0}}, 0), "");
}

TEST(ModelFile, OtherBytesAreRefusedWithPathAndReason) {
  const TempDir dir;
  dir.Write("text", "this is no model at all, but long enough to be one");
  EXPECT_THAT(ModelFile::Open(dir.Path("text")),
              StatusIs(absl::StatusCode::kInvalidArgument, dir.Path("text")));
  dir.Write("empty", "");
  EXPECT_THAT(ModelFile::Open(dir.Path("empty")),
              StatusIs(absl::StatusCode::kInvalidArgument, "HeaderTooSmall"));
}

TEST(ModelFile, CutOffFileIsRefused) {
  const TempDir dir;
  const std::string model = Model();
  dir.Write("data", model.substr(0, model.size() - 1));
  EXPECT_THAT(
      ModelFile::Open(dir.Path("data")),
      StatusIs(absl::StatusCode::kInvalidArgument, "MetadataIncompleteBuffer"));
  dir.Write("header", model.substr(0, 20));
  EXPECT_THAT(ModelFile::Open(dir.Path("header")),
              StatusIs(absl::StatusCode::kInvalidArgument, dir.Path("header")));
}

TEST(ModelFile, FileThatBecameShorterIsDataLoss) {
  OpenedModel model;
  std::filesystem::resize_file(model.file->path(), Model().size() - 2);
  std::vector<uint8_t> to(4);
  EXPECT_THAT(
      model.file->ReadSlice(model.file->header().entries[1], {{0}, {4}}, to),
      StatusIs(absl::StatusCode::kDataLoss, "shorter"));
}

TEST(ModelFile, AbsentFileIsNotFound) {
  const TempDir dir;
  EXPECT_THAT(ModelFile::Open(dir.Path("none")),
              StatusIs(absl::StatusCode::kNotFound, dir.Path("none")));
}

}  // namespace
}  // namespace cairn::client::cli
