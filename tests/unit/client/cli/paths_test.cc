#include "client/cli/paths.h"

#include "gtest/gtest.h"

namespace cairn::client::cli {
namespace {

TEST(IsClusterPath, NeedsTheWholePrefixAtTheFront) {
  EXPECT_TRUE(IsClusterPath("cairn:/data/x"));
  EXPECT_TRUE(IsClusterPath("cairn:"));
  EXPECT_FALSE(IsClusterPath("/data/cairn:/x"));
  EXPECT_FALSE(IsClusterPath("cairn/x"));
  EXPECT_FALSE(IsClusterPath("./cairn:/x"));
  EXPECT_FALSE(IsClusterPath(""));
}

TEST(StripPrefix, LeavesPathsWithoutItAsTheyAre) {
  EXPECT_EQ(StripPrefix("cairn:/data/x"), "/data/x");
  EXPECT_EQ(StripPrefix("/data/x"), "/data/x");
  EXPECT_EQ(StripPrefix("cairn:"), "");
  EXPECT_EQ(StripPrefix("cairn:cairn:/x"), "cairn:/x");
}

TEST(BaseName, IsTheLastComponent) {
  EXPECT_EQ(BaseName("/data/model.bin"), "model.bin");
  EXPECT_EQ(BaseName("model.bin"), "model.bin");
  EXPECT_EQ(BaseName("cairn:/data/x"), "x");
}

TEST(BaseName, IgnoresSlashesAtTheEnd) {
  EXPECT_EQ(BaseName("/data/dir/"), "dir");
  EXPECT_EQ(BaseName("dir///"), "dir");
}

TEST(BaseName, OfTheRootIsEmpty) {
  EXPECT_EQ(BaseName("/"), "");
  EXPECT_EQ(BaseName("//"), "");
  EXPECT_EQ(BaseName(""), "");
}

}  // namespace
}  // namespace cairn::client::cli
