#include "format/path/errors.h"
#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

using ::testing::ElementsAre;
using Code = absl::StatusCode;

class NamespaceTest : public MetaTest {};

TEST_F(NamespaceTest, CreatedNameIsFoundWithItsAttributes) {
  const uint64_t directory = MakeDir(kRoot, "d");
  const uint64_t file = MakeFile(directory, "f");
  const auto found = Lookup(directory, "f");
  ASSERT_OK(found);
  EXPECT_EQ(found->inode(), file);
  EXPECT_EQ(found->type(), static_cast<uint32_t>(InodeType::kFile));
  EXPECT_EQ(found->mode(), 0644u);
  EXPECT_EQ(found->nlink(), 1u);
  EXPECT_GT(found->mtime_ns(), 0u);
}

TEST_F(NamespaceTest, NameThatIsThereIsRefusedUnlessOpenedAsItIs) {
  const uint64_t file = MakeFile(kRoot, "f");
  EXPECT_THAT(Create(kRoot, "f"), StatusIs(Code::kAlreadyExists, "\"f\""));
  wire::CreateRequest request = CreateRequest(kRoot, "f");
  request.set_open_existing(true);
  const auto opened = Await(meta_->names().Create(std::move(request)));
  ASSERT_OK(opened);
  EXPECT_TRUE(opened->existed());
  EXPECT_EQ(opened->attributes().inode(), file);
}

TEST_F(NamespaceTest, OpeningADirectoryAsAFileSaysThatItIsOne) {
  MakeDir(kRoot, "d");
  wire::CreateRequest request = CreateRequest(kRoot, "d");
  request.set_open_existing(true);
  EXPECT_THAT(Await(meta_->names().Create(std::move(request))),
              StatusIs(Code::kFailedPrecondition, format::kErrIsDirectory));
}

TEST_F(NamespaceTest, BadNamesAreRefusedEverywhere) {
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"),
        std::string(256, 'x'), std::string("\xff"), std::string("a\0b", 3)}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(Create(kRoot, name), StatusIs(Code::kInvalidArgument, ""));
    EXPECT_THAT(Lookup(kRoot, name), StatusIs(Code::kInvalidArgument, ""));
    EXPECT_THAT(Unlink(kRoot, name), StatusIs(Code::kInvalidArgument, ""));
    EXPECT_THAT(Rmdir(kRoot, name), StatusIs(Code::kInvalidArgument, ""));
    EXPECT_THAT(Rename(kRoot, "a", kRoot, name),
                StatusIs(Code::kInvalidArgument, ""));
  }
  EXPECT_OK(Create(kRoot, std::string(255, 'x')));
}

TEST_F(NamespaceTest, FileIsNoParent) {
  const uint64_t file = MakeFile(kRoot, "f");
  for (const absl::Status& status :
       {Create(file, "x").status(), Lookup(file, "x").status(),
        List(file).status(), Unlink(file, "x"), Rename(file, "x", kRoot, "y"),
        Rename(kRoot, "f", file, "y")}) {
    EXPECT_THAT(status,
                StatusIs(Code::kFailedPrecondition, format::kErrNotDirectory));
  }
  EXPECT_THAT(Create(999'999, "x"), StatusIs(Code::kNotFound, ""));
}

TEST_F(NamespaceTest, UnlinkTakesFilesAndRmdirTakesEmptyDirectories) {
  const uint64_t directory = MakeDir(kRoot, "d");
  MakeFile(directory, "f");
  EXPECT_THAT(Unlink(kRoot, "d"),
              StatusIs(Code::kFailedPrecondition, format::kErrIsDirectory));
  EXPECT_THAT(Rmdir(kRoot, "d"),
              StatusIs(Code::kFailedPrecondition, format::kErrNotEmpty));
  EXPECT_THAT(Rmdir(directory, "f"),
              StatusIs(Code::kFailedPrecondition, format::kErrNotDirectory));
  EXPECT_OK(Unlink(directory, "f"));
  EXPECT_THAT(Unlink(directory, "f"), StatusIs(Code::kNotFound, "\"f\""));
  EXPECT_OK(Rmdir(kRoot, "d"));
  EXPECT_THAT(Lookup(kRoot, "d"), StatusIs(Code::kNotFound, ""));
  EXPECT_THAT(Create(directory, "x"), StatusIs(Code::kNotFound, ""));
}

TEST_F(NamespaceTest, HardLinksShareAnInodeUntilTheLastNameGoes) {
  const uint64_t file = MakeFile(kRoot, "a");
  ASSERT_OK(Link(file, kRoot, "b"));
  EXPECT_EQ(GetAttr(file)->nlink(), 2u);
  EXPECT_THAT(Link(file, kRoot, "b"), StatusIs(Code::kAlreadyExists, ""));
  ASSERT_OK(Unlink(kRoot, "a"));
  EXPECT_EQ(GetAttr(file)->nlink(), 1u);
  ASSERT_OK(Unlink(kRoot, "b"));
  // Still open somewhere: readable until the trash is emptied.
  EXPECT_EQ(GetAttr(file)->nlink(), 0u);
  EXPECT_THAT(Link(file, kRoot, "c"), StatusIs(Code::kNotFound, ""));
  Sleep(2 * io::kSecond);
  RunPasses();
  EXPECT_THAT(GetAttr(file), StatusIs(Code::kNotFound, ""));
}

TEST_F(NamespaceTest, DirectoriesHaveNoSecondName) {
  const uint64_t directory = MakeDir(kRoot, "d");
  EXPECT_THAT(Link(directory, kRoot, "e"),
              StatusIs(Code::kFailedPrecondition, format::kErrIsDirectory));
}

TEST_F(NamespaceTest, SymlinkKeepsItsTargetAsItIs) {
  wire::CreateRequest request = CreateRequest(kRoot, "l", InodeType::kSymlink);
  request.set_symlink("../a/./b//c");
  const auto made = Await(meta_->names().Create(std::move(request)));
  ASSERT_OK(made);
  wire::ReadLinkRequest read;
  read.set_inode(made->attributes().inode());
  EXPECT_EQ(Await(meta_->names().ReadLink(read))->target(), "../a/./b//c");
  read.set_inode(kRoot);
  EXPECT_THAT(Await(meta_->names().ReadLink(read)),
              StatusIs(Code::kFailedPrecondition, format::kErrNotSymlink));
  wire::CreateRequest empty = CreateRequest(kRoot, "m", InodeType::kSymlink);
  empty.clear_symlink();
  EXPECT_THAT(Await(meta_->names().Create(std::move(empty))),
              StatusIs(Code::kInvalidArgument, "symbolic link"));
}

// Rows: what "a" is, what "b" is ("-": nothing; "D": a directory with a file in
// it), and what happens to rename a -> b.
struct RenameRow {
  char from;
  char to;
  Code code;
  std::string_view phrase;
};
constexpr RenameRow kRenameTable[] = {
    {'f', '-', Code::kOk, ""},
    {'f', 'f', Code::kOk, ""},
    {'f', 'd', Code::kFailedPrecondition, format::kErrIsDirectory},
    {'f', 'D', Code::kFailedPrecondition, format::kErrIsDirectory},
    {'f', 'l', Code::kOk, ""},
    {'l', 'f', Code::kOk, ""},
    {'d', '-', Code::kOk, ""},
    {'d', 'f', Code::kFailedPrecondition, format::kErrNotDirectory},
    {'d', 'l', Code::kFailedPrecondition, format::kErrNotDirectory},
    {'d', 'd', Code::kOk, ""},
    {'d', 'D', Code::kFailedPrecondition, format::kErrNotEmpty},
    {'D', 'd', Code::kOk, ""},
    {'D', 'D', Code::kFailedPrecondition, format::kErrNotEmpty},
    {'-', 'f', Code::kNotFound, ""},
};

TEST_F(NamespaceTest, RenameReplacesWhatPosixSays) {
  int row_number = 0;
  for (const RenameRow& row : kRenameTable) {
    SCOPED_TRACE(absl::StrCat(std::string(1, row.from), " over ",
                              std::string(1, row.to)));
    const uint64_t home = MakeDir(kRoot, absl::StrCat("row", ++row_number));
    const auto make = [&](char what, const std::string& name) -> uint64_t {
      if (what == '-') return 0;
      if (what == 'f') return MakeFile(home, name);
      if (what == 'l') return *Create(home, name, InodeType::kSymlink);
      const uint64_t made = MakeDir(home, name);
      if (what == 'D') MakeFile(made, "inside");
      return made;
    };
    const uint64_t a = make(row.from, "a");
    const uint64_t b = make(row.to, "b");
    const absl::Status status = Rename(home, "a", home, "b");
    EXPECT_THAT(status, StatusIs(row.code, row.phrase));
    if (status.ok()) {
      EXPECT_EQ(Lookup(home, "b")->inode(), a);
      EXPECT_THAT(Lookup(home, "a"), StatusIs(Code::kNotFound, ""));
    } else if (b != 0) {
      EXPECT_EQ(Lookup(home, "b")->inode(), b);
    }
  }
}

TEST_F(NamespaceTest, RenameWithoutReplaceKeepsWhatIsThere) {
  const uint64_t a = MakeFile(kRoot, "a");
  const uint64_t b = MakeFile(kRoot, "b");
  EXPECT_THAT(Rename(kRoot, "a", kRoot, "b", true),
              StatusIs(Code::kAlreadyExists, ""));
  EXPECT_EQ(Lookup(kRoot, "a")->inode(), a);
  EXPECT_EQ(Lookup(kRoot, "b")->inode(), b);
  EXPECT_OK(Rename(kRoot, "a", kRoot, "c", true));
}

TEST_F(NamespaceTest, RenameBetweenTwoNamesOfOneFileDoesNothing) {
  const uint64_t file = MakeFile(kRoot, "a");
  ASSERT_OK(Link(file, kRoot, "b"));
  EXPECT_OK(Rename(kRoot, "a", kRoot, "b"));
  EXPECT_OK(Rename(kRoot, "a", kRoot, "a"));
  EXPECT_EQ(GetAttr(file)->nlink(), 2u);
  EXPECT_THAT(*List(kRoot), ElementsAre("a", "b"));
}

TEST_F(NamespaceTest, DirectoryIsNotMovedBelowItself) {
  const uint64_t a = MakeDir(kRoot, "a");
  const uint64_t b = MakeDir(a, "b");
  const uint64_t c = MakeDir(b, "c");
  EXPECT_THAT(Rename(kRoot, "a", a, "x"),
              StatusIs(Code::kInvalidArgument, format::kErrIntoItself));
  EXPECT_THAT(Rename(kRoot, "a", c, "x"),
              StatusIs(Code::kInvalidArgument, format::kErrIntoItself));
  ASSERT_OK(Rename(b, "c", kRoot, "c"));
  EXPECT_OK(Rename(kRoot, "a", c, "a"));
  EXPECT_EQ(GetAttr(a)->parent(), c);
}

TEST_F(NamespaceTest, ReplacedFileGoesToTheTrash) {
  MakeFile(kRoot, "a");
  const uint64_t b = MakeFile(kRoot, "b");
  ASSERT_OK(Rename(kRoot, "a", kRoot, "b"));
  EXPECT_EQ(GetAttr(b)->nlink(), 0u);
  Sleep(2 * io::kSecond);
  RunPasses();
  EXPECT_THAT(GetAttr(b), StatusIs(Code::kNotFound, ""));
}

TEST_F(NamespaceTest, NestingHasALimit) {
  uint64_t at = kRoot;
  for (uint32_t depth = 1; depth <= kDirectoryDepthMax; ++depth) {
    at = MakeDir(at, "d");
  }
  EXPECT_THAT(Create(at, "d", InodeType::kDirectory),
              StatusIs(Code::kInvalidArgument, "nested"));
  EXPECT_OK(Create(at, "f"));
}

TEST_F(NamespaceTest, PagesOfAListingAreSortedAndMissNothingThatStays) {
  for (int i = 0; i < 50; ++i) MakeFile(kRoot, absl::StrCat("s", i));
  wire::ReadDirRequest request;
  request.set_inode(kRoot);
  request.set_limit(7);
  request.set_attributes(true);
  std::vector<std::string> seen;
  int change = 0;
  while (true) {
    const auto page = Await(meta_->names().ReadDir(request));
    ASSERT_OK(page);
    for (const auto& entry : page->entries()) {
      EXPECT_EQ(entry.attributes().inode(), entry.inode());
      seen.push_back(entry.name());
    }
    if (!page->more()) break;
    request.set_after(seen.back());
    // Names come and go around the cursor.
    MakeFile(kRoot, absl::StrCat("a", change));
    MakeFile(kRoot, absl::StrCat("z", change));
    if (change > 0) {
      ASSERT_OK(Unlink(kRoot, absl::StrCat("a", change - 1)));
    }
    ++change;
  }
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  std::set<std::string> unique(seen.begin(), seen.end());
  EXPECT_EQ(unique.size(), seen.size());
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(unique.contains(absl::StrCat("s", i))) << i;
  }
}

TEST_F(NamespaceTest, DirectoryTimeMovesWithItsEntriesAndCanBeSet) {
  const uint64_t directory = MakeDir(kRoot, "d");
  const uint64_t before = GetAttr(directory)->mtime_ns();
  Sleep(io::kMillisecond);
  MakeFile(directory, "f");
  EXPECT_GT(GetAttr(directory)->mtime_ns(), before);
  wire::SetAttrRequest request;
  *request.mutable_id() = NextId();
  request.set_inode(directory);
  request.set_mtime_ns(5);
  request.set_mode(0700);
  ASSERT_OK(Await(meta_->names().SetAttr(std::move(request))));
  EXPECT_EQ(GetAttr(directory)->mtime_ns(), 5u);
  EXPECT_EQ(GetAttr(directory)->mode(), 0700u);
}

TEST_F(NamespaceTest, CreatesInOneDirectoryDoNotConflict) {
  // Each takes one commit: with conflicts it would be more.
  MakeFile(kRoot, "warm");  // Ids are reserved now.
  io::Gate gate(env_);
  std::vector<std::optional<absl::StatusOr<wire::CreateResponse>>> results(64);
  const uint64_t before = kv_->commits();
  for (size_t i = 0; i < results.size(); ++i) {
    gate.Spawn(StoreResult(
        meta_->names().Create(CreateRequest(kRoot, absl::StrCat("f", i))),
        &results[i]));
  }
  world_.Run(gate.Close());
  for (const auto& result : results) EXPECT_OK(*result);
  EXPECT_EQ(kv_->commits() - before, results.size());
  EXPECT_EQ(List(kRoot)->size(), results.size() + 1);
}

TEST_F(NamespaceTest, RmdirAndCreateInTheSameDirectoryDoNotBothSucceed) {
  for (int i = 0; i < 20; ++i) {
    const std::string name = absl::StrCat("d", i);
    const uint64_t directory = MakeDir(kRoot, name);
    std::optional<absl::StatusOr<wire::CreateResponse>> created;
    std::optional<absl::StatusOr<wire::RmdirResponse>> removed;
    wire::RmdirRequest rmdir;
    *rmdir.mutable_id() = NextId();
    rmdir.set_parent(kRoot);
    rmdir.set_name(name);
    io::Gate gate(env_);
    auto create = [&] {
      gate.Spawn(StoreResult(
          meta_->names().Create(CreateRequest(directory, "f")), &created));
    };
    auto remove = [&] {
      gate.Spawn(StoreResult(meta_->names().Rmdir(rmdir), &removed));
    };
    if (i % 2 == 0) {
      create();
      remove();
    } else {
      remove();
      create();
    }
    world_.Run(gate.Close());
    EXPECT_NE(created->ok(), removed->ok());
    EXPECT_EQ(Lookup(kRoot, name).ok(), created->ok());
  }
}

TEST_F(NamespaceTest, TwoMovesOfDirectoriesDoNotMakeALoop) {
  const uint64_t a = MakeDir(kRoot, "a");
  const uint64_t b = MakeDir(kRoot, "b");
  std::optional<absl::StatusOr<wire::RenameResponse>> first;
  std::optional<absl::StatusOr<wire::RenameResponse>> second;
  wire::RenameRequest request;
  *request.mutable_id() = NextId();
  request.set_from_parent(kRoot);
  request.set_from_name("a");
  request.set_to_parent(b);
  request.set_to_name("a");
  io::Gate gate(env_);
  gate.Spawn(StoreResult(meta_->names().Rename(request), &first));
  *request.mutable_id() = NextId();
  request.set_from_name("b");
  request.set_to_parent(a);
  request.set_to_name("b");
  gate.Spawn(StoreResult(meta_->names().Rename(request), &second));
  world_.Run(gate.Close());
  EXPECT_NE(first->ok(), second->ok());
}

TEST_F(NamespaceTest, EverythingIsThereAfterARestart) {
  const uint64_t directory = MakeDir(kRoot, "d");
  const uint64_t file = MakeFile(directory, "f");
  Restart();
  EXPECT_EQ(Lookup(directory, "f")->inode(), file);
  // Ids are never given twice.
  EXPECT_GT(MakeFile(directory, "g"), file);
}

}  // namespace
}  // namespace cairn::server
