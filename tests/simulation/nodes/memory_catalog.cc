#include "tests/simulation/nodes/memory_catalog.h"

#include "core/base/status_macros.h"

namespace dslide::simulation {

absl::Status MemoryCatalog::CheckAlive() const {
  return node_->alive() ? absl::OkStatus() : absl::UnavailableError("the coordinator has died");
}

absl::StatusOr<coordinator::CatalogContent> MemoryCatalog::Load() const {
  coordinator::CatalogContent content{.membership = disk_.membership, .models = {}};
  for (const auto& [name, spec] : disk_.models) content.models.push_back(spec);
  return content;
}

absl::Status MemoryCatalog::PutMembership(const coordinator::MembershipRecord& record) {
  RETURN_IF_ERROR(CheckAlive());
  disk_.membership = record;
  return absl::OkStatus();
}

absl::Status MemoryCatalog::PutModel(const ModelSpec& spec) {
  RETURN_IF_ERROR(CheckAlive());
  disk_.models[spec.name] = spec;
  return absl::OkStatus();
}

absl::Status MemoryCatalog::DeleteModel(const std::string& name) {
  RETURN_IF_ERROR(CheckAlive());
  disk_.models.erase(name);
  return absl::OkStatus();
}

}  // namespace dslide::simulation
