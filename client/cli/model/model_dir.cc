#include "client/cli/model/model_dir.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/console/terminal.h"
#include "client/cli/console/text_file.h"
#include "client/cli/model/model_dir_writer.h"
#include "client/cli/model/model_files.h"
#include "client/cli/model/text_assets.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"
#include "core/engine/data/name_list.h"
#include "core/engine/data/text/tokenizer_json.h"
#include "core/spec/model_spec_json.h"
#include "services/embedded/embedded_cluster.h"

namespace dslide::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kRunRecord[] = "run.json";

std::string In(const std::string& directory, absl::string_view name) {
  return absl::StrCat(directory, "/", name);
}

absl::Status WriteFile(const std::string& path, absl::string_view content) {
  ASSIGN_OR_RETURN(FileOutput file, FileOutput::Create(path));
  RETURN_IF_ERROR(file.Append(content));
  return file.Commit();
}

std::string OriginToJson(const ModelOrigin& origin) {
  nlohmann::ordered_json json;
  json["format"] = origin.format;
  json["shards"] = origin.shards;
  json["seed"] = origin.seed;
  json["version"] = origin.version;
  json["commit"] = origin.revision;
  json["data"] = origin.data_kind;
  if (origin.data_kind == "text") json["window"] = origin.text_window;
  return json.dump(2) + "\n";
}

absl::StatusOr<ModelOrigin> OriginFromJson(const std::string& text, const std::string& path) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("format") || !json["format"].is_number_integer()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected an object with the number \"format\""));
  }
  ModelOrigin origin;
  origin.format = json["format"].get<int>();
  if (origin.format != kModelDirFormat) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": format ", origin.format,
                                                   ", this program knows ", kModelDirFormat,
                                                   ": use the version that wrote it"));
  }
  const auto number = [&](const char* key, auto fallback) {
    return json.contains(key) && json[key].is_number() ? json[key].get<decltype(fallback)>()
                                                       : fallback;
  };
  const auto word = [&](const char* key, const std::string& fallback) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : fallback;
  };
  origin.shards = number("shards", int64_t{0});
  origin.seed = number("seed", uint64_t{0});
  origin.text_window = number("window", int64_t{0});
  origin.version = word("version", "");
  origin.revision = word("commit", "");
  origin.data_kind = word("data", "sparse");
  return origin;
}

}  // namespace

absl::string_view StoredModel::LabelName(RowId label) const {
  return label.value() < labels.size() ? absl::string_view(labels[label.value()])
                                       : absl::string_view();
}

absl::StatusOr<std::string> ModelDirVersion(const std::string& path) {
  RETURN_IF_ERROR(AwaitModelInPlace(path));
  const std::string file = In(path, "dslide.json");
  struct stat info;
  if (stat(file.c_str(), &info) == 0) {
    return absl::StrCat(info.st_dev, ":", info.st_ino, ":", info.st_mtim.tv_sec, ".",
                        info.st_mtim.tv_nsec);
  }
  if (errno != ENOENT && errno != ENOTDIR) return LocalFileError("read", file, errno);
  return absl::NotFoundError(absl::StrCat("--model-dir ", path, ": holds no model",
                                          WhyNoModel(path), "; make one with ",
                                          "dslide train --data FILE --model-dir ", path));
}

absl::Status SaveModel(const std::string& path, const StoredModel& model) {
  RETURN_IF_ERROR(WriteFile(In(path, "model.json"), ModelSpecToJson(model.spec) + "\n"));
  ASSIGN_OR_RETURN(const AssetFiles texts, EncodeTexts(model));
  for (const auto& [name, text] : texts) RETURN_IF_ERROR(WriteFile(In(path, name), text));
  if (!model.run_record.empty()) {
    RETURN_IF_ERROR(WriteFile(In(path, kRunRecord), model.run_record));
  }
  // After them: its presence says that the others are there.
  RETURN_IF_ERROR(WriteFile(In(path, "dslide.json"), OriginToJson(model.origin)));
  return SealModelFiles(path);
}

absl::Status SaveRunRecord(const std::string& path, const std::string& content) {
  RETURN_IF_ERROR(WriteFile(In(path, kRunRecord), content));
  return SealModelFiles(path);
}

absl::StatusOr<StoredModel> LoadModel(const std::string& path) {
  RETURN_IF_ERROR(ModelDirVersion(path).status());
  ASSIGN_OR_RETURN(const bool sealed, CheckModelFiles(path));
  if (!sealed) {
    PrintNote(absl::StrCat("dslide: warning: ", path,
                           " has no list of its files (FILES), as an earlier version wrote it: "
                           "damage to its texts would not be noticed"));
  }
  StoredModel model;
  ASSIGN_OR_RETURN(const std::string origin, ReadTextFile(In(path, "dslide.json")));
  ASSIGN_OR_RETURN(model.origin, OriginFromJson(origin, In(path, "dslide.json")));
  ASSIGN_OR_RETURN(const std::string spec, ReadTextFile(In(path, "model.json")));
  ASSIGN_OR_RETURN(model.spec, ModelSpecFromJson(spec, In(path, "model.json")));
  RETURN_IF_ERROR(model.spec.Validate(/*sizes_known=*/true));
  ASSIGN_OR_RETURN(model.features, FeatureStats::Load(In(path, "features.tsv")));
  const int64_t labels = model.spec.num_labels();
  std::error_code error;
  if (fs::exists(In(path, "labels.txt"), error)) {
    ASSIGN_OR_RETURN(model.labels, FindNames(In(path, "labels.txt"), "", "labels.txt", labels));
  }
  if (fs::exists(In(path, kLabelCounts), error)) {
    ASSIGN_OR_RETURN(const std::string counts, ReadTextFile(In(path, kLabelCounts)));
    ASSIGN_OR_RETURN(model.label_counts, ParseLabelCounts(counts, In(path, kLabelCounts)));
    if (static_cast<int64_t>(model.label_counts.of_label.size()) != labels) {
      return absl::InvalidArgumentError(absl::StrCat(
          In(path, kLabelCounts), " counts ", model.label_counts.of_label.size(),
          " labels, the model has ", labels, ": restore it from a copy, or remove it"));
    }
  }
  if (model.origin.data_kind == "text") {
    ASSIGN_OR_RETURN(model.vocabulary, Vocabulary::Load(In(path, "vocabulary.tsv")));
  }
  if (fs::exists(In(path, kRunRecord), error)) {
    ASSIGN_OR_RETURN(model.run_record, ReadTextFile(In(path, kRunRecord)));
  }
  ASSIGN_OR_RETURN(model.tokenizer, FindTokenizer(In(path, "features.tsv")));
  return model;
}

absl::Status CheckRowsKept(const std::string& path, const StoredModel& model) {
  const absl::StatusOr<std::vector<std::string>> looked =
      ShardDirsWithoutRows(path, model.origin.shards, model.spec.name);
  // No cluster that does not answer.
  if (absl::IsUnavailable(looked.status())) return absl::InternalError(looked.status().message());
  RETURN_IF_ERROR(looked.status());
  const std::vector<std::string>& missing = *looked;
  if (missing.empty()) return absl::OkStatus();
  const std::string again =
      absl::StrCat("train again: dslide train --data FILE --model-dir ", path, " --overwrite");
  if (static_cast<int64_t>(missing.size()) == model.origin.shards) {
    return absl::DataLossError(absl::StrCat("--model-dir ", path, ": no shard has rows of model \"",
                                            model.spec.name, "\" there (", path, "/shard-N/images/",
                                            model.spec.name,
                                            ".latest): they were removed, or an earlier "
                                            "version was killed before it wrote them; ",
                                            again));
  }
  return absl::DataLossError(absl::StrCat(
      "--model-dir ", path, ": the rows of ", missing.size(), " of ", model.origin.shards,
      " shards are missing: ", absl::StrJoin(missing, ", "), " must hold images/", model.spec.name,
      ".latest; restore that from a copy, or ", again));
}

std::vector<std::string> LabelNames(const Dataset& data, int64_t num_labels) {
  const int64_t labels = data.num_labels();
  int64_t first = 0;  // with a name: some may have none
  while (first < labels && data.LabelName(first).empty()) ++first;
  if (first == labels) return {};
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(labels));
  for (int64_t label = 0; label < labels; ++label) names.emplace_back(data.LabelName(label));
  names.resize(static_cast<size_t>(std::max(labels, num_labels)));
  return names;
}

}  // namespace dslide::cli
