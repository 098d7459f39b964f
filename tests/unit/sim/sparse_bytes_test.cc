#include "tests/sim/sparse_bytes.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/random.h"

namespace cairn::sim {
namespace {

constexpr uint64_t kSpan = 5 * SparseBytes::kPageBytes;

void WriteBoth(Random* random, SparseBytes* sparse,
               std::vector<uint8_t>* model) {
  const uint64_t offset = random->Below(kSpan);
  std::vector<uint8_t> bytes(random->Below(kSpan - offset) + 1);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random->Next());
  sparse->Write(offset, bytes);
  model->resize(std::max<size_t>(model->size(), offset + bytes.size()));
  std::copy(bytes.begin(), bytes.end(),
            model->begin() + static_cast<ptrdiff_t>(offset));
}

TEST(SparseBytes, RandomWritesAndResizesEqualAPlainVector) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SparseBytes sparse;
    std::vector<uint8_t> model;
    for (int step = 0; step < 60; ++step) {
      if (random.OneIn(3)) {
        const uint64_t size = random.Below(kSpan);
        sparse.Resize(size);
        model.resize(size);
      } else {
        WriteBoth(&random, &sparse, &model);
      }
      ASSERT_EQ(sparse.size_bytes(), model.size());
      std::vector<uint8_t> read(model.size(), 0xEE);
      sparse.Read(0, read);
      ASSERT_TRUE(read == model);
    }
  }
}

TEST(SparseBytes, CopyDoesNotSeeLaterWrites) {
  SparseBytes first;
  first.Write(0, std::vector<uint8_t>(100, 1));
  const SparseBytes copy = first;
  first.Write(50, std::vector<uint8_t>(10, 2));
  std::vector<uint8_t> read(100);
  copy.Read(0, read);
  EXPECT_EQ(std::count(read.begin(), read.end(), 1), 100);
}

TEST(SparseBytes, HolesTakeNoSpace) {
  SparseBytes bytes;
  bytes.Resize(uint64_t{1} << 40);
  EXPECT_EQ(bytes.stored_bytes(), 0u);
  const uint64_t missing = bytes.MissingBytes(SparseBytes::kPageBytes - 1, 2);
  EXPECT_EQ(missing, 2 * SparseBytes::kPageBytes);
  bytes.Write(SparseBytes::kPageBytes - 1, std::vector<uint8_t>(2, 7));
  EXPECT_EQ(bytes.stored_bytes(), missing);
  EXPECT_EQ(bytes.MissingBytes(SparseBytes::kPageBytes - 1, 2), 0u);
}

}  // namespace
}  // namespace cairn::sim
