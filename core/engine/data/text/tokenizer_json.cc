#include "core/engine/data/text/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/data_file.h"

namespace dslide {
namespace {

constexpr int kTokenizerFormat = 1;

absl::Status ReadTokenizerField(const std::string& key, const nlohmann::json& value,
                                TokenizerOptions* options) {
  if (key == "kind" && value.is_string()) {
    ASSIGN_OR_RETURN(options->kind, TokenizerKindFromName(value.get<std::string>()));
  } else if (key == "lower_case" && value.is_boolean()) {
    options->lower_case = value.get<bool>();
  } else if (key == "min_characters" && value.is_number_integer()) {
    options->min_characters = value.get<int64_t>();
  } else if (key == "max_characters" && value.is_number_integer()) {
    options->max_characters = value.get<int64_t>();
  } else if (key != "format") {
    return absl::InvalidArgumentError(
        absl::StrCat("found \"", key, "\": ", value.dump(),
                     ", expected the word \"kind\", the truth value \"lower_case\" and the whole "
                     "numbers \"min_characters\", \"max_characters\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizerOptions> ReadTokenizer(absl::string_view text) {
  const auto json =
      nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("format") || !json["format"].is_number_integer() ||
      !json.contains("kind")) {
    return absl::InvalidArgumentError(
        "expected an object with the number \"format\" and the word \"kind\"");
  }
  if (json["format"] != kTokenizerFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat("has format ", json["format"].dump(), ", this version reads format ",
                     kTokenizerFormat, ": use the version that wrote it or a later one"));
  }
  TokenizerOptions options;
  for (const auto& [key, value] : json.items()) {
    RETURN_IF_ERROR(ReadTokenizerField(key, value, &options));
  }
  RETURN_IF_ERROR(options.Validate());
  return options;
}

}  // namespace

std::string TokenizerToJson(const TokenizerOptions& options) {
  nlohmann::ordered_json json;
  json["format"] = kTokenizerFormat;
  json["kind"] = std::string(TokenizerKindName(options.kind));
  json["lower_case"] = options.lower_case;
  if (options.kind == TokenizerKind::kCharacters) {
    json["min_characters"] = options.min_characters;
    json["max_characters"] = options.max_characters;
  }
  return json.dump(2) + "\n";
}

absl::StatusOr<TokenizerOptions> TokenizerFromJson(absl::string_view text,
                                                   absl::string_view origin) {
  absl::StatusOr<TokenizerOptions> options = ReadTokenizer(text);
  if (options.ok()) return options;
  return absl::Status(options.status().code(),
                      absl::StrCat(origin, ": ", options.status().message()));
}

absl::StatusOr<std::optional<TokenizerOptions>> FindTokenizer(const std::string& data_path) {
  const size_t slash = data_path.rfind('/');
  const std::string path = absl::StrCat(
      slash == std::string::npos ? "" : data_path.substr(0, slash + 1), kTokenizerFile);
  const absl::StatusOr<DataFile> file = DataFile::Open(path);
  if (absl::IsNotFound(file.status())) return std::optional<TokenizerOptions>();
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(const TokenizerOptions options, TokenizerFromJson(file->bytes(), path));
  return std::optional(options);
}

}  // namespace dslide
