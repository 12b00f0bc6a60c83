#include "services/common/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/nearest_name.h"
#include "core/base/status_macros.h"
#include "core/base/units.h"
#include "core/base/utf8.h"
#include "core/base/version.h"
#include "core/flags/option_formatter.h"
#include "core/system/files/standard_streams.h"
#include "core/system/log.h"
#include "services/common/exit_codes.h"
#include "services/common/files/durable_files.h"

namespace dslide {
namespace {

struct Setting {
  std::string name;
  bool is_bool = false;
  std::function<absl::Status(const std::string&)> set = nullptr;
  std::function<std::string()> get = nullptr;
  CLI::Option* option = nullptr;
  std::string source = "default";
};

std::string EnvironmentName(const std::string& name) {
  return absl::AsciiStrToUpper(absl::StrCat("DSLIDE_", absl::StrReplaceAll(name, {{"-", "_"}})));
}

template <typename T>
absl::Status CheckRange(const T& value, const T& min, const T& max,
                        const std::function<std::string(const T&)>& format) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(format(value), " is outside [", format(min), ", ", format(max), "]"));
}

std::string Quoted(const std::string& value) {
  return absl::StrCat("\"", absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

}  // namespace

struct ConfigParser::Impl {
  explicit Impl(ConfigText t) : text(std::move(t)), app(text.description, text.binary) {}

  void Add(Setting setting, const std::string& help, const std::string& type);
  std::string Suggestion(const std::string& name) const;
  absl::Status Apply(Setting& setting, const std::string& value, const std::string& source);
  absl::Status ApplyFile(const std::string& path);
  absl::Status ApplyAll(const std::function<const char*(const char*)>& environment);

  const ConfigText text;
  CLI::App app;
  CLI::Option* config = nullptr;
  bool check = false;
  bool print = false;
  std::vector<std::unique_ptr<Setting>> settings;
  std::map<std::string, Setting*> by_name;
  std::function<absl::Status()> validate;
};

void ConfigParser::Impl::Add(Setting setting, const std::string& help, const std::string& type) {
  settings.push_back(std::make_unique<Setting>(std::move(setting)));
  Setting& added = *settings.back();
  const std::string flag = absl::StrCat("--", added.name);
  const std::string described = absl::StrCat(help, " [env ", EnvironmentName(added.name), "]");
  added.option = added.is_bool ? app.add_flag(flag, described)
                               : app.add_option(flag, described)->type_name(type);
  added.option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  added.option->default_str(added.get());
  by_name[added.name] = &added;
}

std::string ConfigParser::Impl::Suggestion(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& setting : settings) names.push_back(setting->name);
  const std::string nearest = NearestName(name, names);
  return nearest.empty() ? std::string() : absl::StrCat("; did you mean ", nearest, "?");
}

absl::Status ConfigParser::Impl::Apply(Setting& setting, const std::string& value,
                                       const std::string& source) {
  const absl::Status status = setting.set(value);
  if (!status.ok()) {
    // A flag and a variable name the setting by themselves; a line of a file does not.
    const bool named =
        source == absl::StrCat("--", setting.name) || source == EnvironmentName(setting.name);
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": ", named ? "" : absl::StrCat(setting.name, ": "), status.message()));
  }
  setting.source = source;
  return absl::OkStatus();
}

absl::Status ConfigParser::Impl::ApplyFile(const std::string& path) {
  const absl::StatusOr<std::string> text_of_file = ReadFile(path);
  if (!text_of_file.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read the configuration file ", path,
                                                   ": ", text_of_file.status().message()));
  }
  ASSIGN_OR_RETURN(const std::vector<ConfigEntry> entries,
                   ParseConfigFile(std::string(WithoutByteOrderMark(*text_of_file)), path));
  std::map<std::string, int> lines;
  for (const ConfigEntry& entry : entries) {
    const std::string where = absl::StrCat(path, ":", entry.line);
    const auto found = by_name.find(entry.key);
    if (found == by_name.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": unknown key ", entry.key, Suggestion(entry.key)));
    }
    const auto [first, is_new] = lines.try_emplace(entry.key, entry.line);
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": ", entry.key, " was set already in line ", first->second));
    }
    RETURN_IF_ERROR(Apply(*found->second, entry.value, where));
  }
  return absl::OkStatus();
}

// Weakest first: each source overwrites what the one before it has set.
absl::Status ConfigParser::Impl::ApplyAll(
    const std::function<const char*(const char*)>& environment) {
  const char* const variable = environment("DSLIDE_CONFIG");
  if (config->count() > 0) {
    RETURN_IF_ERROR(ApplyFile(config->results().back()));
  } else if (variable != nullptr && *variable != '\0') {
    RETURN_IF_ERROR(ApplyFile(variable));
  }
  for (const auto& setting : settings) {
    const std::string name = EnvironmentName(setting->name);
    if (const char* const value = environment(name.c_str()); value != nullptr && *value != '\0') {
      RETURN_IF_ERROR(Apply(*setting, std::string(absl::StripAsciiWhitespace(value)), name));
    }
  }
  for (const auto& setting : settings) {
    if (setting->option->count() == 0) continue;
    RETURN_IF_ERROR(
        Apply(*setting, setting->option->results().back(), absl::StrCat("--", setting->name)));
  }
  return validate ? validate() : absl::OkStatus();
}

ConfigParser::ConfigParser(ConfigText text) : impl_(std::make_unique<Impl>(std::move(text))) {
  CLI::App& app = impl_->app;
  app.footer(absl::StrCat(
      "A flag beats its environment variable, which beats the file, which beats the default.\n\n",
      impl_->text.footer));
  app.set_version_flag("--version", VersionLine(impl_->text.binary.c_str()),
                       "Print the version and exit");
  impl_->config = app.add_option("--config", "Read settings from this file [env DSLIDE_CONFIG]")
                      ->type_name("FILE");
  app.add_flag("--check-config", impl_->check, "Check all settings and exit with 0 or 2");
  app.add_flag("--print-config", impl_->print, "Print all settings as a file and exit");
  auto formatter = std::make_shared<OptionFormatter>();
  formatter->column_width(36);
  app.formatter(std::move(formatter));
}

ConfigParser::~ConfigParser() = default;

void ConfigParser::AddString(const std::string& name, std::string* value, const std::string& help) {
  Setting setting{.name = name};
  setting.set = [value](const std::string& text) {
    *value = text;
    return absl::OkStatus();
  };
  setting.get = [value] { return *value; };
  impl_->Add(std::move(setting), help, "TEXT");
}

void ConfigParser::AddWord(const std::string& name, std::string* value,
                           std::vector<std::string> words, const std::string& help) {
  Setting setting{.name = name};
  const std::string type = absl::StrJoin(words, "|");
  setting.set = [value, words = std::move(words)](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) == words.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", EscapeForLog(text, 80), "\" is none of ", absl::StrJoin(words, ", ")));
    }
    *value = text;
    return absl::OkStatus();
  };
  setting.get = [value] { return *value; };
  impl_->Add(std::move(setting), help, type);
}

void ConfigParser::AddBool(const std::string& name, bool* value, const std::string& help) {
  Setting setting{.name = name, .is_bool = true};
  setting.set = [value](const std::string& text) {
    if (absl::SimpleAtob(text, value)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("\"", EscapeForLog(text, 80), "\" is neither true nor false"));
  };
  setting.get = [value] { return std::string(*value ? "true" : "false"); };
  impl_->Add(std::move(setting), help, "");
}

void ConfigParser::AddInt(const std::string& name, int64_t* value, int64_t min, int64_t max,
                          const std::string& help) {
  Setting setting{.name = name};
  setting.set = [=](const std::string& text) -> absl::Status {
    int64_t parsed = 0;
    if (!absl::SimpleAtoi(text, &parsed)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", EscapeForLog(text, 80), "\" is not a whole number"));
    }
    RETURN_IF_ERROR(
        CheckRange<int64_t>(parsed, min, max, [](const int64_t& n) { return absl::StrCat(n); }));
    *value = parsed;
    return absl::OkStatus();
  };
  setting.get = [value] { return absl::StrCat(*value); };
  impl_->Add(std::move(setting), help, "N");
}

void ConfigParser::AddDouble(const std::string& name, double* value, double min, double max,
                             const std::string& help) {
  Setting setting{.name = name};
  setting.set = [=](const std::string& text) -> absl::Status {
    double parsed = 0.0;
    if (text.find_first_of("xX") != std::string::npos || !absl::SimpleAtod(text, &parsed)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", EscapeForLog(text, 80), "\" is not a number"));
    }
    RETURN_IF_ERROR(
        CheckRange<double>(parsed, min, max, [](const double& x) { return absl::StrCat(x); }));
    *value = parsed;
    return absl::OkStatus();
  };
  setting.get = [value] { return absl::StrCat(*value); };
  impl_->Add(std::move(setting), help, "X");
}

void ConfigParser::AddByteSize(const std::string& name, int64_t* value, int64_t min, int64_t max,
                               const std::string& help) {
  Setting setting{.name = name};
  setting.set = [=](const std::string& text) -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t parsed, ParseByteSize(text));
    RETURN_IF_ERROR(
        CheckRange<int64_t>(parsed, min, max, [](const int64_t& n) { return FormatByteSize(n); }));
    *value = parsed;
    return absl::OkStatus();
  };
  setting.get = [value] { return FormatByteSize(*value); };
  impl_->Add(std::move(setting), help, "SIZE");
}

void ConfigParser::AddDuration(const std::string& name, absl::Duration* value, absl::Duration min,
                               absl::Duration max, const std::string& help) {
  Setting setting{.name = name};
  setting.set = [=](const std::string& text) -> absl::Status {
    ASSIGN_OR_RETURN(const absl::Duration parsed, ParseDuration(text));
    RETURN_IF_ERROR(CheckRange<absl::Duration>(
        parsed, min, max, [](const absl::Duration& d) { return absl::FormatDuration(d); }));
    *value = parsed;
    return absl::OkStatus();
  };
  setting.get = [value] { return absl::FormatDuration(*value); };
  impl_->Add(std::move(setting), help, "TIME");
}

void ConfigParser::SetValidator(std::function<absl::Status()> validate) {
  impl_->validate = std::move(validate);
}

std::optional<int> ConfigParser::Parse(int argc, const char* const* argv,
                                       const std::function<const char*(const char*)>& environment) {
  const auto fail = [this](absl::string_view problem) {
    std::fprintf(stderr, "%s: %s\n%s --help shows all settings\n", impl_->text.binary.c_str(),
                 std::string(problem).c_str(), impl_->text.binary.c_str());
    return kExitUsage;
  };
  // CLI11 takes "--name=" for a name without a value; as two words it is an empty value.
  std::vector<std::string> words;
  for (int i = 0; i < argc; ++i) {
    const absl::string_view word = argv[i];
    if (absl::StartsWith(word, "--") && word.find('=') == word.size() - 1) {
      words.emplace_back(word.substr(0, word.size() - 1));
      words.emplace_back();
    } else {
      words.emplace_back(word);
    }
  }
  std::vector<const char*> split;
  split.reserve(words.size());
  for (const std::string& word : words) split.push_back(word.c_str());
  try {
    impl_->app.parse(static_cast<int>(split.size()), split.data());
  } catch (const CLI::ExtrasError&) {
    const std::string first = impl_->app.remaining().front();
    const std::string name = first.substr(std::min(first.find_first_not_of('-'), first.size()));
    return fail(absl::StrCat("unknown argument ", first,
                             impl_->Suggestion(name.substr(0, name.find('=')))));
  } catch (const CLI::Success& asked) {  // --help, --version
    std::ostringstream said;
    const int code = impl_->app.exit(asked, said, said);
    WriteResult(said.str());
    return ExitWithResults(impl_->text.binary, code, kExitFailure);
  } catch (const CLI::ParseError& error) {
    return fail(error.what());
  }
  const absl::Status status =
      impl_->ApplyAll(environment ? environment : [](const char* name) -> const char* {
        return std::getenv(name);
      });
  if (!status.ok()) return fail(status.message());
  if (impl_->print) WriteResult(Print());
  if (impl_->print || impl_->check) {
    return ExitWithResults(impl_->text.binary, kExitOk, kExitFailure);
  }
  return std::nullopt;
}

std::string ConfigParser::Print() const {
  std::string file;
  for (const auto& setting : impl_->settings) {
    absl::StrAppend(&file, setting->name, " = ", Quoted(setting->get()), "  # from ",
                    setting->source, "\n");
  }
  return file;
}

}  // namespace dslide
