// Random operations against a plain in-memory file system.
#include "tests/unit/server/meta/meta_fixture.h"

namespace cairn::server {
namespace {

using Code = absl::StatusCode;

// What POSIX says, with codes of the service.
class Model {
 public:
  struct Node {
    InodeType type = InodeType::kFile;
    uint32_t nlink = 1;
    uint64_t parent = 0;
    std::map<std::string, uint64_t> entries;
  };
  Model() { nodes[kRoot].type = InodeType::kDirectory; }

  Code Create(uint64_t parent, const std::string& name) {
    if (!IsDirectory(parent)) return ParentError(parent);
    return nodes[parent].entries.contains(name) ? Code::kAlreadyExists
                                                : Code::kOk;
  }
  void Made(uint64_t parent, const std::string& name, InodeType type,
            uint64_t inode) {
    nodes[parent].entries[name] = inode;
    nodes[inode].type = type;
    nodes[inode].parent = parent;
  }
  Code Link(uint64_t inode, uint64_t parent, const std::string& name) {
    if (!nodes.contains(inode)) return Code::kNotFound;
    if (IsDirectory(inode)) return Code::kFailedPrecondition;
    if (!IsDirectory(parent)) return ParentError(parent);
    if (nodes[parent].entries.contains(name)) return Code::kAlreadyExists;
    nodes[parent].entries[name] = inode;
    ++nodes[inode].nlink;
    return Code::kOk;
  }
  Code Unlink(uint64_t parent, const std::string& name) {
    if (!IsDirectory(parent)) return ParentError(parent);
    const auto entry = nodes[parent].entries.find(name);
    if (entry == nodes[parent].entries.end()) return Code::kNotFound;
    if (IsDirectory(entry->second)) return Code::kFailedPrecondition;
    Drop(entry->second);
    nodes[parent].entries.erase(name);
    return Code::kOk;
  }
  Code Rmdir(uint64_t parent, const std::string& name) {
    if (!IsDirectory(parent)) return ParentError(parent);
    const auto entry = nodes[parent].entries.find(name);
    if (entry == nodes[parent].entries.end()) return Code::kNotFound;
    const uint64_t inode = entry->second;
    if (!IsDirectory(inode) || !nodes[inode].entries.empty()) {
      return Code::kFailedPrecondition;
    }
    nodes.erase(inode);
    nodes[parent].entries.erase(name);
    return Code::kOk;
  }
  Code Rename(uint64_t from, const std::string& from_name, uint64_t to,
              const std::string& to_name) {
    if (!IsDirectory(from)) return ParentError(from);
    if (!IsDirectory(to)) return ParentError(to);
    if (!nodes[from].entries.contains(from_name)) return Code::kNotFound;
    const uint64_t inode = nodes[from].entries[from_name];
    const bool replaces = nodes[to].entries.contains(to_name);
    const uint64_t old = replaces ? nodes[to].entries[to_name] : 0;
    if (replaces && old == inode) return Code::kOk;
    if (IsDirectory(inode) && IsBelow(to, inode)) {
      return Code::kInvalidArgument;
    }
    if (replaces) {
      if (IsDirectory(inode) != IsDirectory(old)) {
        return Code::kFailedPrecondition;
      }
      if (IsDirectory(old) && !nodes[old].entries.empty()) {
        return Code::kFailedPrecondition;
      }
      IsDirectory(old) ? (void)nodes.erase(old) : Drop(old);
    }
    nodes[from].entries.erase(from_name);
    nodes[to].entries[to_name] = inode;
    nodes[inode].parent = to;
    return Code::kOk;
  }

  bool IsDirectory(uint64_t inode) const {
    const auto node = nodes.find(inode);
    return node != nodes.end() && node->second.type == InodeType::kDirectory;
  }

  std::map<uint64_t, Node> nodes;
  std::set<uint64_t> trashed;  // Files without a name: still no directories.

 private:
  Code ParentError(uint64_t inode) const {
    return nodes.contains(inode) || trashed.contains(inode)
               ? Code::kFailedPrecondition
               : Code::kNotFound;
  }
  void Drop(uint64_t inode) {
    if (--nodes[inode].nlink > 0) return;
    nodes.erase(inode);
    trashed.insert(inode);
  }
  bool IsBelow(uint64_t inode, uint64_t top) const {
    while (inode != kRoot) {
      if (inode == top) return true;
      inode = nodes.at(inode).parent;
    }
    return top == kRoot;
  }
};

class NamespaceModel : public MetaTest,
                       public ::testing::WithParamInterface<uint64_t> {
 protected:
  NamespaceModel() : MetaTest(GetParam()), random_(GetParam()) {}

  uint64_t Below(uint64_t end) { return random_.Between(0, end - 1); }
  std::string AnyName() {
    return std::string(1, static_cast<char>('a' + Below(5)));
  }
  // Mostly directories; sometimes a file, or what is gone.
  uint64_t AnyInode() {
    if (Below(10) == 0 || known_.empty()) return kRoot;
    return known_[Below(known_.size())];
  }

  void CreateStep(uint64_t parent) {
    const std::string name = AnyName();
    const InodeType type = static_cast<InodeType>(1 + Below(3));
    const auto made = Create(parent, name, type);
    EXPECT_EQ(made.status().code(), model_.Create(parent, name))
        << made.status();
    if (!made.ok()) return;
    model_.Made(parent, name, type, *made);
    known_.push_back(*made);
  }
  void Step() {
    const uint64_t inode = AnyInode();
    const uint64_t other = AnyInode();
    const std::string name = AnyName();
    const std::string other_name = AnyName();
    absl::Status status;
    Code expected = Code::kOk;
    switch (Below(8)) {
      case 0:
        status = Unlink(inode, name);
        expected = model_.Unlink(inode, name);
        break;
      case 1:
        status = Rmdir(inode, name);
        expected = model_.Rmdir(inode, name);
        break;
      case 2:
      case 3:
        status = Rename(inode, name, other, other_name);
        expected = model_.Rename(inode, name, other, other_name);
        break;
      case 4:
        // Of one that is gone but in the trash it is kNotFound too.
        status = Link(inode, other, name);
        expected = model_.Link(inode, other, name);
        break;
      default:
        CreateStep(inode);
        return;
    }
    EXPECT_EQ(status.code(), expected) << status;
  }
  void CompareAll() {
    for (const auto& [inode, node] : model_.nodes) {
      const auto attributes = GetAttr(inode);
      ASSERT_OK(attributes);
      EXPECT_EQ(attributes->type(), static_cast<uint32_t>(node.type));
      EXPECT_EQ(attributes->nlink(), node.nlink);
      if (node.type != InodeType::kDirectory) continue;
      if (inode != kRoot) {
        EXPECT_EQ(attributes->parent(), node.parent);
      }
      std::vector<std::string> names;
      for (const auto& [name, child] : node.entries) {
        names.push_back(name);
        EXPECT_EQ(Lookup(inode, name)->inode(), child);
      }
      EXPECT_EQ(*List(inode, 2), names);
    }
  }

  sim::Random random_;
  Model model_;
  std::vector<uint64_t> known_;
};

TEST_P(NamespaceModel, RandomOperationsAgreeWithTheModel) {
  SCOPED_TRACE(absl::StrCat("seed ", GetParam()));
  for (int i = 0; i < 600 && !HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("step ", i));
    // Faults on the way are ridden out.
    if (i % 7 == 0) {
      kv_->InjectFault(kv_->commits() + 1 + Below(3),
                       static_cast<ModelKvFault>(Below(3)));
    }
    Step();
    if (i % 200 == 199) {
      Restart();
      CompareAll();
    }
  }
  CompareAll();
  Restart();  // Injected faults end.
  // Nothing is left of what is gone.
  SleepAndRunPasses();
  EXPECT_EQ(KeysOf(format::KeyKind::kInode), model_.nodes.size());
  EXPECT_EQ(KeysOf(format::KeyKind::kTrash), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, NamespaceModel,
                         ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace cairn::server
