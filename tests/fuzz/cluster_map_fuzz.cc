// Any bytes: a map that is accepted is valid, and survives a round trip.
#include <cstddef>
#include <cstdint>
#include <string>

#include "format/base/status.h"
#include "format/cluster/cluster_map.h"
#include "format/wire/common.pb.h"

namespace cairn {
namespace {

std::string Encode(const format::ClusterMap& map) {
  wire::ClusterMap proto;
  format::MapToProto(map, &proto);
  return proto.SerializeAsString();
}

void CheckMap(const format::ClusterMap& map) {
  CAIRN_CHECK(format::ValidateMap(map).ok());
  const std::string bytes = Encode(map);
  wire::ClusterMap proto;
  CAIRN_CHECK(proto.ParseFromString(bytes));
  const auto again = format::MapFromProto(proto);
  CAIRN_CHECK(again.ok());
  CAIRN_CHECK(Encode(*again) == bytes);
  // What a client does with any map that it was given.
  for (const auto& [id, pool] : map.pools) {
    for (uint32_t pg = 0; pg < pool.pg_count; ++pg) {
      map.PgHealthy(pool, pg);
      CAIRN_CHECK(map.PgEpoch(pool, pg) <= map.epoch);
    }
    const auto blob = format::BlobId::Make(id, 1);
    CAIRN_CHECK(pool.PgOf(blob, 0xffffffff) < pool.pg_count);
    CAIRN_CHECK(format::ParseScheme(ToString(pool.scheme)).ok());
  }
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cairn::wire::ClusterMap proto;
  if (!proto.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto map = cairn::format::MapFromProto(proto);
  if (map.ok()) {
    cairn::CheckMap(*map);
  } else {
    CAIRN_CHECK(map.status().code() == absl::StatusCode::kDataLoss);
  }
  return 0;
}
