#include "services/coordinator/models/catalog_store.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/crc32c.h"
#include "core/base/hex.h"
#include "core/base/status_macros.h"
#include "core/spec/model_spec_json.h"
#include "core/system/failpoint.h"
#include "core/system/files/system_error.h"
#include "core/system/format_version.h"
#include "core/system/log.h"
#include "services/coordinator/models/catalog_summary.h"

namespace dslide::coordinator {
namespace {

constexpr char kVersion = 1;
constexpr char kMembershipKey[] = "membership";
constexpr char kModelPrefix[] = "model/";
constexpr size_t kChecksumBytes = 4;

uint32_t Checksum(const std::string& key, absl::string_view versioned_text) {
  return ExtendCrc32c(ExtendCrc32c(0, key), versioned_text);
}

std::string Seal(const std::string& key, const std::string& text) {
  std::string value = absl::StrCat(std::string(1, kVersion), text);
  const uint32_t crc = Checksum(key, value);
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    value.push_back(static_cast<char>((crc >> (8 * i)) & 0xff));
  }
  return value;
}

absl::StatusOr<std::string> Unseal(const std::string& key, absl::string_view value) {
  if (value.size() < 1 + kChecksumBytes) {
    return absl::DataLossError(absl::StrCat("record ", key, " is cut short"));
  }
  const absl::string_view versioned = value.substr(0, value.size() - kChecksumBytes);
  uint32_t crc = 0;
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    crc |= static_cast<uint32_t>(static_cast<unsigned char>(value[versioned.size() + i]))
           << (8 * i);
  }
  if (crc != Checksum(key, versioned)) {
    return absl::DataLossError(absl::StrCat("record ", key, " has a wrong checksum"));
  }
  RETURN_IF_ERROR(CheckFormat(absl::StrCat("the catalogue's record ", key),
                              static_cast<unsigned char>(versioned[0]),
                              {.oldest = kVersion, .newest = kVersion}));
  return std::string(versioned.substr(1));
}

std::string ModelToJson(const MembershipRecord& record) {
  nlohmann::json shards = nlohmann::json::array();
  for (const MembershipRecord::Shard& shard : record.shards) {
    shards.push_back({{"shard", shard.shard},
                      {"address", absl::BytesToHexString(shard.address)},
                      {"capacity_weight", shard.capacity_weight},
                      {"generation", shard.generation},
                      {"instance_id", absl::BytesToHexString(shard.instance_id)},
                      {"left", shard.left},
                      {"admin_address", absl::BytesToHexString(shard.admin_address)}});
  }
  return nlohmann::json{{"expected_shards", record.expected_shards},
                        {"topology_version", record.topology_version},
                        {"dealt_weights", record.dealt_weights},
                        {"shards", std::move(shards)}}
      .dump();
}

absl::StatusOr<std::string> HexField(const std::string& hex, absl::string_view name) {
  std::optional<std::string> bytes = BytesFromHex(hex);
  if (bytes.has_value()) return *std::move(bytes);
  return absl::DataLossError(absl::StrCat("record ", kMembershipKey, ": a shard's ", name, " is '",
                                          EscapeForLog(hex, 80), "', which is not hexadecimal"));
}

absl::StatusOr<MembershipRecord> MembershipFromJson(const std::string& text) {
  // The library reports through exceptions; they end here. Checksummed text that does not fit is a
  // bug or a forgery, and in both cases not to be trusted.
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    MembershipRecord record;
    json.at("expected_shards").get_to(record.expected_shards);
    json.at("topology_version").get_to(record.topology_version);
    json.at("dealt_weights").get_to(record.dealt_weights);
    for (const nlohmann::json& entry : json.at("shards")) {
      MembershipRecord::Shard shard;
      entry.at("shard").get_to(shard.shard);
      ASSIGN_OR_RETURN(shard.address, HexField(entry.at("address").get<std::string>(), "address"));
      entry.at("capacity_weight").get_to(shard.capacity_weight);
      entry.at("generation").get_to(shard.generation);
      ASSIGN_OR_RETURN(shard.instance_id,
                       HexField(entry.at("instance_id").get<std::string>(), "instance_id"));
      entry.at("left").get_to(shard.left);
      ASSIGN_OR_RETURN(shard.admin_address,
                       HexField(entry.at("admin_address").get<std::string>(), "admin_address"));
      record.shards.push_back(std::move(shard));
    }
    return record;
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat("record ", kMembershipKey, ": ", error.what()));
  }
}

absl::Status WriteError(const rocksdb::Status& status) {
  return SystemErrorOf(
      absl::StrCat("cannot write the coordinator's data directory: ", status.ToString()));
}

class RocksCatalogStore final : public CatalogStore {
 public:
  RocksCatalogStore(std::unique_ptr<rocksdb::DB> db, CatalogSummary summary,
                    CatalogSummary::Records records)
      : db_(std::move(db)), summary_(std::move(summary)), records_(std::move(records)) {}

  absl::StatusOr<CatalogContent> Load() const override;
  absl::Status PutMembership(const MembershipRecord& record) override {
    return Put(kMembershipKey, ModelToJson(record));
  }
  absl::Status PutModel(const ModelSpec& spec) override {
    return Put(absl::StrCat(kModelPrefix, spec.name), ModelSpecToJson(spec));
  }
  absl::Status DeleteModel(const std::string& name) override;

 private:
  absl::Status Put(const std::string& key, const std::string& text);
  absl::Status Flush();

  const std::unique_ptr<rocksdb::DB> db_;
  CatalogSummary summary_;
  CatalogSummary::Records records_;  // as the database has them
};

absl::Status RocksCatalogStore::Put(const std::string& key, const std::string& text) {
  CatalogSummary::Records records = records_;
  records[key] = Seal(key, text);
  RETURN_IF_ERROR(summary_.Announce(records));
  DSLIDE_FAILPOINT("coordinator.catalog.announced");
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  const rocksdb::Status status = db_->Put(options, key, records[key]);
  if (!status.ok()) return WriteError(status);
  DSLIDE_FAILPOINT("coordinator.catalog.put");
  RETURN_IF_ERROR(Flush());
  DSLIDE_FAILPOINT("coordinator.catalog.flushed");
  records_ = std::move(records);
  summary_.Confirm();
  return absl::OkStatus();
}

absl::Status RocksCatalogStore::DeleteModel(const std::string& name) {
  const std::string key = absl::StrCat(kModelPrefix, name);
  CatalogSummary::Records records = records_;
  records.erase(key);
  RETURN_IF_ERROR(summary_.Announce(records));
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  const rocksdb::Status status = db_->Delete(options, key);
  if (!status.ok()) return WriteError(status);
  RETURN_IF_ERROR(Flush());
  records_ = std::move(records);
  summary_.Confirm();
  return absl::OkStatus();
}

absl::Status RocksCatalogStore::Flush() {
  const rocksdb::Status status = db_->Flush(rocksdb::FlushOptions());
  return status.ok() ? absl::OkStatus() : WriteError(status);
}

absl::StatusOr<CatalogContent> Decode(const CatalogSummary::Records& records) {
  CatalogContent content;
  for (const auto& [key, value] : records) {
    ASSIGN_OR_RETURN(const std::string text, Unseal(EscapeForLog(key, 80), value));
    if (key == kMembershipKey) {
      ASSIGN_OR_RETURN(content.membership, MembershipFromJson(text));
    } else if (absl::StartsWith(key, kModelPrefix)) {
      auto spec = ModelSpecFromJson(text, absl::StrCat("record ", key));
      if (!spec.ok()) return absl::DataLossError(spec.status().message());
      content.models.push_back(*std::move(spec));
    } else {
      return absl::FailedPreconditionError(
          absl::StrCat("the catalogue's record ", EscapeForLog(key, 80),
                       " is of a kind that this version does not know: use the version that wrote "
                       "it"));
    }
  }
  return content;
}

absl::StatusOr<CatalogContent> RocksCatalogStore::Load() const { return Decode(records_); }

absl::StatusOr<CatalogSummary::Records> ReadRecords(rocksdb::DB& db) {
  CatalogSummary::Records records;
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  const std::unique_ptr<rocksdb::Iterator> record(db.NewIterator(options));
  for (record->SeekToFirst(); record->Valid(); record->Next()) {
    records[record->key().ToString()] = record->value().ToString();
  }
  if (!record->status().ok()) {
    const std::string why = record->status().ToString();
    return IsDiskFailure(why) ? SystemErrorOf(why) : absl::DataLossError(why);
  }
  return records;
}

absl::Status OpenError(const std::string& path, const rocksdb::Status& status) {
  const std::string text = status.ToString();
  if (status.IsCorruption()) {
    return absl::DataLossError(absl::StrCat(
        path, " is damaged: ", text,
        "; restore it from a copy, or move it away to start a new cluster without its models"));
  }
  absl::Status judged = SystemErrorOf(absl::StrCat("cannot open ", path, ": ", text));
  if (!absl::IsUnavailable(judged)) return judged;
  if (absl::StrContains(text, "LOCK") || absl::StrContains(text, "lock")) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is in use by another coordinator; stop that one first (", text, ")"));
  }
  return judged;
}

class SilentLogger final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

// RocksDB makes a new database when the file CURRENT is missing, whatever else is there: a lost
// file would look like a new cluster.
absl::Status CheckNotHeadless(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::path(path) / "CURRENT", error)) {
    return absl::OkStatus();
  }
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    if (absl::EndsWith(name, ".sst") || absl::StartsWith(name, "MANIFEST")) {
      return absl::DataLossError(
          absl::StrCat(path, " is damaged: it holds ", name,
                       " but no file CURRENT; restore it from a copy, or "
                       "move it away to start a new cluster without its models"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> InspectCatalog(const std::string& data_dir) {
  const std::string path = (std::filesystem::path(data_dir) / "catalog").string();
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    if (error && error != std::errc::no_such_file_or_directory) {
      return SystemError("read", path, error.value());
    }
    return absl::NotFoundError(absl::StrCat("there is no catalogue in ", data_dir));
  }
  RETURN_IF_ERROR(CheckNotHeadless(path));
  rocksdb::Options options;
  options.paranoid_checks = true;
  // Without it one would be written into the directory.
  options.info_log = std::make_shared<SilentLogger>();
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, path, &opened);
  const std::unique_ptr<rocksdb::DB> db(opened);
  if (status.ok()) status = db->VerifyChecksum();
  if (!status.ok()) return OpenError(path, status);
  ASSIGN_OR_RETURN(const CatalogSummary::Records records, ReadRecords(*db));
  RETURN_IF_ERROR(CatalogSummary::Compare(data_dir, records));
  ASSIGN_OR_RETURN(const CatalogContent content, Decode(records));
  return static_cast<int64_t>(content.models.size());
}

absl::StatusOr<std::unique_ptr<CatalogStore>> OpenCatalogStore(const std::string& data_dir) {
  const std::string path = (std::filesystem::path(data_dir) / "catalog").string();
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return SystemError("make the data directory", path, error.value());
  }
  RETURN_IF_ERROR(CheckNotHeadless(path));
  rocksdb::Options options;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = 1 << 20;
  options.max_open_files = 64;
  options.keep_log_file_num = 2;
  options.info_log_level = rocksdb::WARN_LEVEL;
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(options, path, &opened);
  if (!status.ok()) return OpenError(path, status);
  std::unique_ptr<rocksdb::DB> db(opened);
  status = db->VerifyChecksum();
  if (!status.ok()) return OpenError(path, status);
  ASSIGN_OR_RETURN(CatalogSummary::Records records, ReadRecords(*db));
  CatalogSummary summary(data_dir);
  RETURN_IF_ERROR(summary.Check(records));
  return std::unique_ptr<CatalogStore>(
      new RocksCatalogStore(std::move(db), std::move(summary), std::move(records)));
}

}  // namespace dslide::coordinator
