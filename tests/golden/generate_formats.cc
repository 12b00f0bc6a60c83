// Writes the files that are kept of the formats as they are now; docs/understand/formats.md says
// when.
//
//   dslide_golden_formats write DIR        all of them, each in a directory of its own below DIR
//   dslide_golden_formats describe IMAGE   what an image of a shard holds, to stdout
//
// The same content every time: fixed models, clients and numbers, one thread. Only what RocksDB
// writes about itself differs (ids of databases and sessions). Needs the right to make a namespace
// of its own (root), since RocksDB also writes the name of the host.

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "services/common/files/durable_files.h"
#include "services/coordinator/checkpoints/manifest_store.h"
#include "services/coordinator/models/catalog_store.h"
#include "services/shard/durability/log_directory.h"
#include "services/shard/image/image_label.h"
#include "services/shard/image/image_store.h"
#include "services/shard/image/model_checkpoints.h"
#include "services/shard/image/part_base.h"
#include "services/shard/image/shard_image.h"
#include "services/shard/image/shard_snapshot.h"
#include "tests/golden/golden_cluster.h"
#include "tests/golden/golden_shard.h"
#include "tests/golden/shard_text.h"
#include "tests/unit/services/shard/log/logged_bytes.h"
#include "tests/unit/services/shard/rebuilt_tables.h"

namespace dslide::golden {
namespace {

namespace fs = std::filesystem;
using shard::ShardCore;

std::unique_ptr<ShardCore> FreshCore() {
  shard::ShardCoreOptions options;
  static_cast<shard::CoreLimits&>(options) = GoldenLimits();
  return std::make_unique<ShardCore>(options);
}

absl::Status Apply(const Command& command, ShardCore& core) {
  return core.Apply(command).reply->status;
}

// What a refused command answers is its refusal.
absl::Status ApplyAll(const std::vector<Command>& commands, ShardCore& core) {
  for (const Command& command : commands) {
    const absl::Status applied = Apply(command, core);
    if (!applied.ok() && !std::holds_alternative<RefusedCommand>(command)) return applied;
  }
  return absl::OkStatus();
}

// Beside the directory: lists of files know nothing of it.
absl::Status Expect(const fs::path& directory, const ShardCore& core) {
  return ReplaceFile(directory.string() + ".txt", TextOf(core));
}

absl::Status LogAndApply(const std::vector<Command>& commands, shard::DurableState& state,
                         ShardCore& core) {
  for (const Command& command : commands) {
    const wire::LoggedCommand logged = shard::LogOf(command);
    RETURN_IF_ERROR(state.log().Append(static_cast<uint8_t>(logged.kind), logged.payload).status());
    RETURN_IF_ERROR(ApplyAll({command}, core));
  }
  return absl::OkStatus();
}

// A log with every kind of record, and an image in the middle of it.
absl::Status WriteCommandLog(const fs::path& directory) {
  RETURN_IF_ERROR(MakeDirectory(directory));
  const std::unique_ptr<ShardCore> core = FreshCore();
  const shard::LogDirectoryOptions options;
  ASSIGN_OR_RETURN(std::unique_ptr<shard::DurableState> state,
                   shard::LogDirectory::Create(directory.string(), options, *core));
  RETURN_IF_ERROR(state->Begin({}, GoldenLimits(), *core));
  RETURN_IF_ERROR(LogAndApply(FirstCommands(), *state, *core));
  RETURN_IF_ERROR(state->TakeImage(*core));
  RETURN_IF_ERROR(LogAndApply(LaterCommands(), *state, *core));
  RETURN_IF_ERROR(state->SettleTables(*core).status());
  RETURN_IF_ERROR(state->log().Sync());
  return Expect(directory, *core);
}

// Parts of two cluster checkpoints: all rows, and an increment on that.
absl::Status WriteImages(const fs::path& full, const fs::path& increment) {
  const std::unique_ptr<ShardCore> core = FreshCore();
  RETURN_IF_ERROR(ApplyAll(FirstCommands(), *core));
  core->SettleTables();
  auto snapshot = shard::ShardSnapshot::TakeCut(/*lsn=*/41, *core, /*checkpoint_id=*/1, {});
  ASSIGN_OR_RETURN(const shard::ImageSize written, snapshot->Write(full.string()));
  snapshot->Release();
  RETURN_IF_ERROR(Expect(full, *core));

  RETURN_IF_ERROR(ApplyAll(ScatterToOneRow(), *core));
  core->SettleTables();
  const shard::PartBase base{.checkpoint_id = 1, .files_checksum = written.files.checksum};
  snapshot = shard::ShardSnapshot::TakeCut(/*lsn=*/43, *core, /*checkpoint_id=*/2, base);
  ASSIGN_OR_RETURN(
      const shard::LinkedBase linked,
      shard::LinkBase(full.string(), base.files_checksum, snapshot->parts(), increment.string()));
  RETURN_IF_ERROR(snapshot->WriteIncrement(increment.string(), linked).status());
  snapshot->Release();
  return Expect(increment, *core);
}

// Of a shard that has an open step whose rows have weights.
absl::Status WriteWeightedImage(const fs::path& image) {
  const std::unique_ptr<ShardCore> core = FreshCore();
  RETURN_IF_ERROR(ApplyAll(FirstCommands(), *core));
  RETURN_IF_ERROR(ApplyAll(OpenWeightedStep(), *core));
  core->SettleTables();
  RETURN_IF_ERROR(shard::WriteImage(image.string(), /*lsn=*/44, *core).status());
  return Expect(image, *core);
}

// Of a shard whose rows keep averages and that has a step open whose labels have weights.
absl::Status WriteAveragedImage(const fs::path& image) {
  const std::unique_ptr<ShardCore> core = FreshCore();
  RETURN_IF_ERROR(ApplyAll(AveragedCommands(), *core));
  core->SettleTables();
  RETURN_IF_ERROR(shard::WriteImage(image.string(), /*lsn=*/45, *core).status());
  return Expect(image, *core);
}

// The images of a shard that was stopped in mode checkpoint.
absl::Status WriteStopped(const fs::path& directory) {
  const std::unique_ptr<ShardCore> core = FreshCore();
  RETURN_IF_ERROR(ApplyAll(FirstCommands(), *core));
  RETURN_IF_ERROR(MakeDirectory(directory));
  ASSIGN_OR_RETURN(const std::unique_ptr<shard::ImageStore> images,
                   shard::ImageStore::Open(shard::ImageStore::DirectoryIn(directory.string())));
  RETURN_IF_ERROR(shard::ModelCheckpoints(images.get())
                      .Write(*core->FindModel("golden"), shard::kLatestCheckpoint)
                      .status());
  RETURN_IF_ERROR(images->Publish(shard::kStoppedLabel, [&](const std::string& image) {
    return shard::WriteImageOf(image, shard::PartsWithoutRows(*core), nullptr).status();
  }));
  // A load makes the tables from the rows, and the coordinator has not yet said how slots are
  // dealt.
  shard::RebuildTables(*core);
  core->FindModel("golden")->set_topology_version(0);
  return Expect(directory, *core);
}

absl::Status WriteCatalog(const fs::path& directory) {
  ASSIGN_OR_RETURN(const std::unique_ptr<coordinator::CatalogStore> store,
                   coordinator::OpenCatalogStore(directory.string()));
  RETURN_IF_ERROR(store->PutMembership(GoldenMembership()));
  for (const ModelSpec& spec : GoldenModels()) RETURN_IF_ERROR(store->PutModel(spec));
  return absl::OkStatus();
}

absl::Status WriteManifests(const fs::path& directory) {
  RETURN_IF_ERROR(MakeDirectory(directory));
  ASSIGN_OR_RETURN(const std::unique_ptr<coordinator::ManifestStore> store,
                   coordinator::ManifestStore::Open(directory.string()));
  RETURN_IF_ERROR(store->Commit(GoldenManifest(kDamagedEpoch)));
  RETURN_IF_ERROR(store->Commit(GoldenManifest()));
  RETURN_IF_ERROR(store->MarkDamage(kDamagedEpoch, kDamage));
  RETURN_IF_ERROR(store->CommitRestoreCount(kRestoreCount));
  RETURN_IF_ERROR(store->KeepEvicted(GoldenManifest().evicted));
  return store->restore_mark().Begin(kManifestCheckpoint);
}

absl::Status WriteManifestWithAssets(const fs::path& directory) {
  RETURN_IF_ERROR(MakeDirectory(directory));
  ASSIGN_OR_RETURN(const std::unique_ptr<coordinator::ManifestStore> store,
                   coordinator::ManifestStore::Open(directory.string()));
  return store->Commit(GoldenManifestWithAssets());
}

// RocksDB's own messages, which nobody reads back.
void RemoveMessages(const fs::path& directory) {
  std::vector<fs::path> doomed;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name == "LOG" || absl::StartsWith(name, "LOG.old.")) doomed.push_back(entry.path());
  }
  for (const fs::path& path : doomed) fs::remove(path);
}

absl::Status WriteAll(const std::string& path) {
  RETURN_IF_ERROR(RemoveAll(path));
  RETURN_IF_ERROR(MakeDirectory(path));
  // RocksDB also writes paths.
  fs::current_path(path);
  RETURN_IF_ERROR(WriteCommandLog("./command-log-v1"));
  RETURN_IF_ERROR(WriteImages("./image-v1", "./image-v1-increment"));
  RETURN_IF_ERROR(WriteWeightedImage("./image-v1-weights"));
  RETURN_IF_ERROR(WriteAveragedImage("./image-v1-averages"));
  RETURN_IF_ERROR(WriteStopped("./stopped-v1"));
  RETURN_IF_ERROR(WriteCatalog("./catalog-v1"));
  RETURN_IF_ERROR(WriteManifests("./manifest-v1"));
  RETURN_IF_ERROR(WriteManifestWithAssets("./manifest-v1-assets"));
  RemoveMessages(".");
  return absl::OkStatus();
}

absl::Status Describe(const std::string& image) {
  const std::unique_ptr<ShardCore> core = FreshCore();
  RETURN_IF_ERROR(shard::LoadImage(image, *core).status());
  std::cout << TextOf(*core);
  return absl::OkStatus();
}

int Run(const std::string& verb, const std::string& path) {
  // As the tests do: sums must have the same bits on every processor.
  setenv("DSLIDE_MAX_ISA", "sse4", /*overwrite=*/1);
  constexpr char kHost[] = "golden";
  if (verb == "write" &&
      (unshare(CLONE_NEWUTS) != 0 || sethostname(kHost, sizeof(kHost) - 1) != 0)) {
    std::perror("cannot hide the host's name from the files (run this as root)");
    return 1;
  }
  const absl::Status done = verb == "write"      ? WriteAll(path)
                            : verb == "describe" ? Describe(path)
                                                 : absl::InvalidArgumentError("write or describe?");
  if (!done.ok()) std::cerr << done << "\n";
  return done.ok() ? 0 : 1;
}

}  // namespace
}  // namespace dslide::golden

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: dslide_golden_formats write DIR | describe IMAGE\n";
    return 2;
  }
  return dslide::golden::Run(argv[1], argv[2]);
}
