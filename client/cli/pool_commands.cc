// cairn pool create, ls.
#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/context.h"
#include "client/cli/text.h"
#include "client/core/admin.h"
#include "client/core/cluster_core.h"
#include "format/base/status.h"
#include "format/cluster/cluster_map.h"

namespace cairn::client::cli {

using format::FailureDomain;
using nlohmann::json;

namespace {

const std::map<std::string, FailureDomain> kDomains = {
    {"target", FailureDomain::kTarget},
    {"host", FailureDomain::kHost},
    {"rack", FailureDomain::kRack}};

std::string DomainText(FailureDomain domain) {
  for (const auto& [name, value] : kDomains) {
    if (value == domain) return name;
  }
  return "unknown";
}

struct CreateArguments {
  std::string name;
  std::string scheme = "rs:4+2";
  uint32_t chunk_size = format::kChunkBytesMax;
  FailureDomain domain = FailureDomain::kHost;
  uint32_t pgs = 0;
  uint32_t stripe_width = 0;
};

json ToJson(const format::Pool& pool) {
  return {{"id", pool.id.value},
          {"name", pool.name},
          {"scheme", ToString(pool.scheme)},
          {"chunk_size", pool.chunk_size},
          {"pgs", pool.pg_count},
          {"stripe_width", pool.stripe_width},
          {"failure_domain", DomainText(pool.failure_domain)}};
}

format::Pool FromWire(const wire::Pool& wire_pool) {
  format::Pool pool;
  pool.id = format::PoolId(static_cast<uint16_t>(wire_pool.id()));
  pool.name = wire_pool.name();
  pool.scheme.kind = static_cast<format::SchemeKind>(wire_pool.scheme().kind());
  pool.scheme.data_shards = wire_pool.scheme().data_shards();
  pool.scheme.parity_shards = wire_pool.scheme().parity_shards();
  pool.chunk_size = wire_pool.chunk_size();
  pool.pg_count = wire_pool.pg_count();
  pool.stripe_width = wire_pool.stripe_width();
  pool.failure_domain = static_cast<FailureDomain>(wire_pool.failure_domain());
  return pool;
}

absl::Status MakePool(const Context& context,
                      const CreateArguments& arguments) {
  CAIRN_ASSIGN_OR_RETURN(const format::Scheme scheme,
                         format::ParseScheme(arguments.scheme));
  wire::CreatePoolRequest request;
  request.set_name(arguments.name);
  request.mutable_scheme()->set_kind(static_cast<uint32_t>(scheme.kind));
  request.mutable_scheme()->set_data_shards(scheme.data_shards);
  request.mutable_scheme()->set_parity_shards(scheme.parity_shards);
  request.set_chunk_size(arguments.chunk_size);
  request.set_failure_domain(static_cast<uint32_t>(arguments.domain));
  request.set_pg_count(arguments.pgs);
  request.set_stripe_width(arguments.stripe_width);
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  const auto made =
      cluster->core()->Run<absl::StatusOr<wire::CreatePoolResponse>>(
          [&request](Core* core) {
            return CreatePool(core, request, core->Deadline());
          });
  if (!made.ok()) return made.status();
  const format::Pool pool = FromWire(made->pool());
  if (context.json) {
    json root = ToJson(pool);
    root["existed"] = made->existed();
    root["epoch"] = made->epoch();
    PrintJson(root);
    return absl::OkStatus();
  }
  std::printf("%s pool %s: %s over different %ss, %u placement groups\n",
              made->existed() ? "there is already a" : "made",
              pool.name.c_str(), ToString(pool.scheme).c_str(),
              DomainText(pool.failure_domain).c_str(), pool.pg_count);
  return absl::OkStatus();
}

using MapPtr = std::shared_ptr<const format::ClusterMap>;
io::Task<MapPtr> CopyMap(Core* core) { co_return core->map(); }

absl::Status ShowPools(const Context& context) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  const MapPtr map = cluster->core()->Run<MapPtr>(CopyMap);
  if (context.json) {
    json root = json::array();
    for (const auto& [id, pool] : map->pools) root.push_back(ToJson(pool));
    PrintJson(root);
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows = {
      {">ID", "POOL", "SCHEME", ">CHUNK", ">PGS", ">WIDTH", "DOMAIN"}};
  for (const auto& [id, pool] : map->pools) {
    rows.push_back({absl::StrCat(id.value), pool.name, ToString(pool.scheme),
                    HumanBytes(pool.chunk_size), absl::StrCat(pool.pg_count),
                    absl::StrCat(pool.stripe_width),
                    DomainText(pool.failure_domain)});
  }
  PrintTable(rows);
  return absl::OkStatus();
}

void AddCreate(CLI::App* pool, Context* context) {
  auto* const create =
      pool->add_subcommand("create", "Make a pool over all targets in service");
  const auto arguments = std::make_shared<CreateArguments>();
  create->add_option("NAME", arguments->name, "Name of the pool")->required();
  create
      ->add_option("--scheme", arguments->scheme,
                   "Redundancy: rs:K+M (Reed-Solomon) or replicate:R")
      ->capture_default_str();
  create
      ->add_option("--failure-domain", arguments->domain,
                   "What no two shards of a stripe share: target, host or rack "
                   "(default: host)")
      ->transform(CLI::CheckedTransformer(kDomains, CLI::ignore_case));
  create
      ->add_option("--chunk-size", arguments->chunk_size,
                   "Bytes of a chunk, a multiple of 4K, at most 4M")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  create->add_option("--pgs", arguments->pgs,
                     "Placement groups (default: a good number for the "
                     "targets there are)");
  create->add_option("--stripe-width", arguments->stripe_width,
                     "Placement groups that one file's data spreads over "
                     "(default: all)");
  create->footer(
      "Examples:\n"
      "  cairn pool create default --scheme rs:4+2 --failure-domain host\n"
      "  cairn pool create small --scheme replicate:3 --chunk-size 256K\n");
  create->callback([context, arguments] {
    context->run = [context, arguments] {
      return MakePool(*context, *arguments);
    };
  });
}

}  // namespace

void AddPoolCommands(CLI::App* app, Context* context) {
  auto* const pool = app->add_subcommand("pool", "Pools of the cluster");
  pool->require_subcommand(1);
  AddCreate(pool, context);
  auto* const list = pool->add_subcommand("ls", "All pools and their options");
  list->callback(
      [context] { context->run = [context] { return ShowPools(*context); }; });
  pool->footer(
      "Examples:\n  cairn pool ls\n  cairn pool create default --scheme "
      "rs:4+2\n");
}

}  // namespace cairn::client::cli
