#include "format/erasure/reed_solomon.h"

#include <isa-l/erasure_code.h>

#include <algorithm>

#include "format/base/status.h"

namespace cairn::format {
namespace {

// ISA-L expands each coefficient to two tables of 16 products.
constexpr uint64_t kTableBytes = 32;
// ISA-L counts bytes in an int. Far above every chunk, and a multiple of any
// vector's width, so that only the last piece has a tail.
constexpr uint64_t kPieceBytesMax = uint64_t{1} << 30;

// ISA-L takes arrays of mutable pointers and writes only through the second.
class Pointers {
 public:
  explicit Pointers(std::span<const uint8_t* const> from) {
    for (const uint8_t* pointer : from) Add(const_cast<uint8_t*>(pointer));
  }
  explicit Pointers(std::span<uint8_t* const> from) {
    for (uint8_t* pointer : from) Add(pointer);
  }
  Pointers() = default;

  void Add(uint8_t* pointer) { pointers_.push_back(pointer); }
  void Advance(uint64_t bytes) {
    for (uint8_t*& pointer : pointers_) pointer += bytes;
  }
  uint8_t** data() { return pointers_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(pointers_.size()); }

 private:
  std::vector<uint8_t*> pointers_;
};

std::vector<uint8_t> ExpandTables(uint32_t columns, uint32_t rows,
                                  const uint8_t* coefficients) {
  std::vector<uint8_t> tables(kTableBytes * columns * rows);
  if (rows > 0) {
    ec_init_tables(static_cast<int>(columns), static_cast<int>(rows),
                   const_cast<uint8_t*>(coefficients), tables.data());
  }
  return tables;
}

// to[i] = sum over j of coefficient(i, j) * from[j].
void Multiply(const std::vector<uint8_t>& tables, Pointers from, Pointers to,
              uint64_t length) {
  if (to.size() == 0) return;
  while (length > 0) {
    const uint64_t piece = std::min(length, kPieceBytesMax);
    ec_encode_data(static_cast<int>(piece), static_cast<int>(from.size()),
                   static_cast<int>(to.size()),
                   const_cast<uint8_t*>(tables.data()), from.data(), to.data());
    from.Advance(piece);
    to.Advance(piece);
    length -= piece;
  }
}

}  // namespace

ReedSolomon::ReedSolomon(uint32_t data_shards, uint32_t parity_shards)
    : k_(data_shards), m_(parity_shards) {
  CAIRN_CHECK(k_ >= 1 && k_ <= kDataShardsMax);
  CAIRN_CHECK(m_ <= kParityShardsMax);
  matrix_.resize(uint64_t{k_ + m_} * k_);
  gf_gen_cauchy1_matrix(matrix_.data(), static_cast<int>(k_ + m_),
                        static_cast<int>(k_));
  encode_tables_ = ExpandTables(k_, m_, matrix_.data() + uint64_t{k_} * k_);
}

void ReedSolomon::Encode(std::span<const uint8_t* const> data,
                         std::span<uint8_t* const> parity,
                         uint64_t length) const {
  CAIRN_CHECK(data.size() == k_);
  CAIRN_CHECK(parity.size() == m_);
  Multiply(encode_tables_, Pointers(data), Pointers(parity), length);
}

void ReedSolomon::EncodeUpdate(uint32_t index, const uint8_t* data,
                               std::span<uint8_t* const> parity,
                               uint64_t length) const {
  CAIRN_CHECK(index < k_);
  CAIRN_CHECK(parity.size() == m_);
  if (m_ == 0) return;
  Pointers to(parity);
  while (length > 0) {
    const uint64_t piece = std::min(length, kPieceBytesMax);
    ec_encode_data_update(static_cast<int>(piece), static_cast<int>(k_),
                          static_cast<int>(m_), static_cast<int>(index),
                          const_cast<uint8_t*>(encode_tables_.data()),
                          const_cast<uint8_t*>(data), to.data());
    data += piece;
    to.Advance(piece);
    length -= piece;
  }
}

absl::Status ReedSolomon::Decode(std::span<const uint8_t* const> present,
                                 std::span<const uint32_t> wanted,
                                 std::span<uint8_t* const> out,
                                 uint64_t length) const {
  CAIRN_CHECK(present.size() == k_ + m_);
  CAIRN_CHECK(wanted.size() == out.size());
  // The rows of the first k shards that are there: known = rows * data.
  std::vector<uint8_t> rows;
  Pointers known;
  for (uint32_t i = 0; i < k_ + m_ && known.size() < k_; ++i) {
    if (present[i] == nullptr) continue;
    const auto row = matrix_.begin() + int64_t{i} * k_;
    rows.insert(rows.end(), row, row + k_);
    known.Add(const_cast<uint8_t*>(present[i]));
  }
  if (known.size() < k_) {
    return absl::DataLossError(absl::StrCat("only ", known.size(), " of ",
                                            k_ + m_, " shards are readable; ",
                                            k_, " are needed"));
  }
  std::vector<uint8_t> inverse(rows.size());
  const int singular =
      gf_invert_matrix(rows.data(), inverse.data(), static_cast<int>(k_));
  CAIRN_CHECK(singular == 0);  // Every submatrix of a Cauchy matrix inverts.

  // shard w = matrix[w] * data = (matrix[w] * inverse) * known.
  std::vector<uint8_t> coefficients(wanted.size() * k_, 0);
  for (uint64_t i = 0; i < wanted.size(); ++i) {
    CAIRN_CHECK(wanted[i] < k_ + m_);
    for (uint64_t column = 0; column < k_; ++column) {
      uint8_t sum = 0;
      for (uint64_t j = 0; j < k_; ++j) {
        sum ^= gf_mul(matrix_[uint64_t{wanted[i]} * k_ + j],
                      inverse[j * k_ + column]);
      }
      coefficients[i * k_ + column] = sum;
    }
  }
  const std::vector<uint8_t> tables = ExpandTables(
      k_, static_cast<uint32_t>(wanted.size()), coefficients.data());
  Multiply(tables, std::move(known), Pointers(out), length);
  return absl::OkStatus();
}

}  // namespace cairn::format
