// The coordinator's catalogue on a simulated disk.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "services/coordinator/models/catalog_store.h"
#include "tests/simulation/network.h"

namespace dslide::simulation {

struct CatalogDisk {
  std::optional<coordinator::MembershipRecord> membership;
  std::map<std::string, ModelSpec> models;
};

// Writes nothing once the process has died. Not thread-safe.
class MemoryCatalog final : public coordinator::CatalogStore {
 public:
  // `disk` outlives it.
  MemoryCatalog(NodePtr node, CatalogDisk& disk) : node_(std::move(node)), disk_(disk) {}

  absl::StatusOr<coordinator::CatalogContent> Load() const override;
  absl::Status PutMembership(const coordinator::MembershipRecord& record) override;
  absl::Status PutModel(const ModelSpec& spec) override;
  absl::Status DeleteModel(const std::string& name) override;

 private:
  absl::Status CheckAlive() const;

  const NodePtr node_;
  CatalogDisk& disk_;
};

}  // namespace dslide::simulation
