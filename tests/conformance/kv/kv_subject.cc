#include "tests/conformance/kv/kv_subject.h"

#include <cstdlib>

#include "tests/support/status_matchers.h"

namespace cairn::server {

TempDir::TempDir() {
  std::string name =
      (std::filesystem::temp_directory_path() / "cairn_kv_XXXXXX").string();
  CAIRN_CHECK(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::unique_ptr<io::RealEnv> NewEnv() {
  io::LoopOptions options;
  options.pool_large_buffers = 1;
  absl::StatusOr<std::unique_ptr<io::RealEnv>> env = MakeRealEnv(options);
  CAIRN_CHECK(env.ok());
  return *std::move(env);
}

void KvSubject::Open() {
  if (kind_ == KvKind::kModel) {
    kv_ = std::make_unique<ModelKv>(env_.get(), &disk_);
    return;
  }
  RocksKvOptions options;
  options.create = true;
  auto opened =
      Await(env(), RocksKv::Open(env_.get(), dir_ / "kv", std::move(options)));
  CAIRN_CHECK(opened.ok());
  kv_ = *std::move(opened);
}

void KvSubject::Close() {
  EXPECT_OK(Await(env(), kv_->Close()));
  kv_.reset();
}

uint64_t KvSubject::Put(std::string key, std::string value) {
  KvCommit commit;
  commit.writes.push_back({std::move(key), std::move(value)});
  const absl::StatusOr<uint64_t> sequence = Commit(std::move(commit));
  EXPECT_OK(sequence);
  return sequence.value_or(0);
}

std::string KvSubject::Value(std::string key) {
  const auto found = Get(std::move(key));
  EXPECT_OK(found);
  if (!found.ok() || !found->has_value()) return "";
  return (*found)->value;
}

}  // namespace cairn::server
