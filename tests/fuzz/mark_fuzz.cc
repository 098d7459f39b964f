// DecodeMark and DecodeKvIdentity on arbitrary bytes. The first byte says
// whether to repair length, magic and checksum, so that the fields behind them
// are reached.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "format/base/status.h"
#include "format/checksum/block_checksum.h"
#include "format/meta/kv_record.h"
#include "format/meta/mark.h"

namespace cairn::format {
namespace {

void CheckRefusal(const absl::Status& status) {
  CAIRN_CHECK(absl::IsDataLoss(status) || absl::IsFailedPrecondition(status));
}

std::string Repair(ConstBytes bytes, uint64_t size, const char* magic) {
  std::string whole(AsText(bytes));
  whole.resize(size, '\0');
  std::memcpy(whole.data(), magic, 4);
  StoreLe(whole.data() + size - 8, Xxh3(AsBytes(whole).first(size - 8)));
  return whole;
}

void CheckMark(ConstBytes bytes) {
  const absl::StatusOr<Mark> mark = DecodeMark(bytes);
  if (!mark.ok()) return CheckRefusal(mark.status());
  CAIRN_CHECK(mark->lost_after <= mark->lost_until);
  CAIRN_CHECK(EncodeMark(*mark) == AsText(bytes));
}

void CheckIdentity(ConstBytes bytes) {
  const absl::StatusOr<ClusterId> cluster = DecodeKvIdentity(bytes);
  if (!cluster.ok()) return CheckRefusal(cluster.status());
  CAIRN_CHECK(EncodeKvIdentity(*cluster) == AsText(bytes));
}

void CheckRecord(ConstBytes bytes) {
  const absl::StatusOr<KvRecord> record = DecodeKvRecord(AsText(bytes));
  if (!record.ok()) return CheckRefusal(record.status());
  CAIRN_CHECK(record->version != 0);
  CAIRN_CHECK(record->value.size() + kKvVersionBytes == bytes.size());
}

}  // namespace
}  // namespace cairn::format

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::format;  // NOLINT
  if (size == 0) return 0;
  const ConstBytes bytes(data + 1, size - 1);
  if ((data[0] & 1) == 0) {
    CheckMark(bytes);
    CheckIdentity(bytes);
    CheckRecord(bytes);
  } else {
    CheckMark(AsBytes(Repair(bytes, kMarkBytes, "CMRK")));
    CheckIdentity(AsBytes(Repair(bytes, kKvIdentityBytes, "CMKD")));
  }
  return 0;
}
