#include "core/flags/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/flags/option_formatter.h"
#include "core/flags/suggest.h"

namespace dslide {
namespace {

// The chosen subcommand, at the deepest level.
const CLI::App* Chosen(const CLI::App* app) {
  for (;;) {
    const auto chosen = app->get_subcommands();
    if (chosen.empty()) return app;
    app = chosen.front();
  }
}

std::string FullName(const CLI::App* app) {
  std::string name = app->get_name();
  for (const CLI::App* up = app->get_parent(); up != nullptr; up = up->get_parent()) {
    name = absl::StrCat(up->get_name(), " ", name);
  }
  return name;
}

std::vector<std::string> OptionNames(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* level = app; level != nullptr; level = level->get_parent()) {
    for (const CLI::Option* option : level->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> SubcommandNames(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app->get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

// The words of OneOf(), which the library only keeps as a text: "TEXT:{text,json}".
std::vector<std::string> WordsOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find(":{");
  const size_t end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return absl::StrSplit(type.substr(begin + 2, end - begin - 2), ',');
}

ValueKind KindOf(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return ValueKind::kNone;
  if (!WordsOf(option).empty()) return ValueKind::kWords;
  const std::string type = option.get_type_name();
  const auto is = [&](const char* word) { return absl::StartsWith(type, word); };
  if (is("DIR") || absl::EndsWith(option.get_name(), "-dir")) return ValueKind::kDirectories;
  return is("TEXT") || is("FILE") || is("PATH") ? ValueKind::kFiles : ValueKind::kOther;
}

FlagDescription DescribeFlag(const CLI::Option& option) {
  FlagDescription flag{
      .help = option.get_description(), .kind = KindOf(option), .words = WordsOf(option)};
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  return flag;
}

CommandDescription DescribeCommand(const CLI::App& app) {
  CommandDescription command{.name = app.get_name(), .help = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    const FlagDescription flag = DescribeFlag(*option);
    if (flag.names.empty()) {
      const std::string name = option->get_name(/*positional=*/true);
      command.takes_files = name == "FILE" || name == "DIR" || name == "PATH";
    } else {
      command.flags.push_back(flag);
    }
  }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!below->get_group().empty()) command.commands.push_back(DescribeCommand(*below));
  }
  return command;
}

// What is wrong with an argument that nothing takes.
std::string ExplainExtra(const CLI::App* chosen, const std::string& extra) {
  const bool is_option = absl::StartsWith(extra, "-");
  const std::vector<std::string> subcommands = SubcommandNames(chosen);
  std::string near;
  std::string text;
  if (is_option) {
    const std::string word = extra.substr(0, extra.find('='));
    near = Suggest(word, OptionNames(chosen));
    text = absl::StrCat("unknown option ", word);
  } else if (!subcommands.empty()) {
    near = Suggest(extra, subcommands);
    text = absl::StrCat("unknown subcommand \"", extra, "\"");
  } else {
    text = absl::StrCat("unexpected argument \"", extra, "\"");
  }
  if (!near.empty()) absl::StrAppend(&text, "; did you mean ", near, "?");
  return text;
}

// The number inside a std::optional or a std::vector of them; anything else is itself.
template <typename T>
struct ValueOf {
  using Type = T;
};
template <typename T>
struct ValueOf<std::optional<T>> {
  using Type = T;
};
template <typename T>
struct ValueOf<std::vector<T>> {
  using Type = T;
};

bool IsWholeNumber(absl::string_view text) {
  if (absl::StartsWith(text, "-") || absl::StartsWith(text, "+")) text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

template <typename T>
std::string InRange(const T& min, const T& max) {
  if (max == std::numeric_limits<T>::max()) return absl::StrCat("at least ", min);
  return absl::StrCat("in [", min, ", ", max, "]");
}

// Rewrites a number so that the library cannot read it as another: to it a zero in front means
// octal, and "0x10" and "nan" are numbers. Returns what is wrong with it, or "".
template <typename T>
std::string MakeDecimal(std::string& text) {
  const std::string given = text;
  if constexpr (std::is_integral_v<T>) {
    T number = 0;
    if (absl::SimpleAtoi(given, &number)) {
      text = absl::StrCat(number);
      return "";
    }
    if (!IsWholeNumber(given)) return absl::StrCat("\"", given, "\" is not a whole number");
    return absl::StartsWith(given, "-")
               ? absl::StrCat("must be at least ", std::numeric_limits<T>::lowest(), ", not ",
                              given)
               : absl::StrCat("must be at most ", std::numeric_limits<T>::max(), ", not ", given);
  } else {
    double number = 0.0;
    text = std::string(absl::StripAsciiWhitespace(given));
    const bool decimal = text.find_first_of("xX") == std::string::npos;
    if (!decimal || !absl::SimpleAtod(text, &number) || std::isnan(number)) {
      return absl::StrCat("\"", given, "\" is not a number");
    }
    if (std::abs(number) <= std::numeric_limits<T>::max()) return "";
    return absl::StrCat(given, " is too large a number");
  }
}

template <typename T>
std::string OutsideOf(const std::string& text, const T& min, const T& max) {
  T number{};
  const bool read = [&] {
    if constexpr (std::is_integral_v<T>) {
      return absl::SimpleAtoi(text, &number);
    } else {
      return absl::SimpleAtod(text, &number);
    }
  }();
  if (read && number >= min && number <= max) return "";
  return absl::StrCat("must be ", InRange(min, max), ", not ", text);
}

// Where the value that `error` is about was taken from, if not from the command line.
std::string SourceOf(const CLI::App* chosen, const std::vector<std::string>& args,
                     absl::string_view error) {
  for (const CLI::App* level = chosen; level != nullptr; level = level->get_parent()) {
    for (const CLI::Option* option : level->get_options()) {
      const std::string variable = option->get_envname();
      if (variable.empty() || std::getenv(variable.c_str()) == nullptr) continue;
      if (!absl::StartsWith(error, absl::StrCat(option->get_name(), ":"))) continue;
      const bool given = std::any_of(args.begin(), args.end(), [&](const std::string& word) {
        return option->check_name(word.substr(0, word.find('=')));
      });
      if (!given) return absl::StrCat(" (from ", variable, ")");
    }
  }
  return "";
}

// What is wrong with the variables that were left out, as newer versions of the library do with
// those whose value is wrong; or "".
std::string WrongVariable(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    if (option->get_envname().empty() || option->count() > 0) continue;
    const char* const value = std::getenv(option->get_envname().c_str());
    if (value == nullptr || *value == '\0') continue;
    try {
      option->add_result(value);
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
  }
  for (CLI::App* const subcommand : app.get_subcommands()) {
    if (std::string wrong = WrongVariable(*subcommand); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

Flag Flag::Required() const { return Flag(option_->required()); }
Flag Flag::OneOf(std::vector<std::string> words) const {
  return Flag(option_->check(CLI::IsMember(std::move(words))));
}
Flag Flag::Positive() const {
  return Flag(option_->check(CLI::Validator(
      [](std::string& text) {
        double number = 0.0;
        if (absl::SimpleAtod(text, &number) && number > 0.0) return std::string();
        return absl::StrCat("must be above 0, not ", text);
      },
      "POSITIVE")));
}
template <typename T>
Flag Flag::Range(T min, T max) const {
  return Flag(option_->check(CLI::Validator(
      [min, max](std::string& text) { return OutsideOf(text, min, max); }, InRange(min, max))));
}
Flag Flag::TypeName(const std::string& name) const { return Flag(option_->type_name(name)); }
Flag Flag::Delimiter(char delimiter) const { return Flag(option_->delimiter(delimiter)); }
Flag Flag::OneValueEach() const { return Flag(option_->allow_extra_args(false)); }
Flag Flag::ShowDefault() const { return Flag(option_->capture_default_str()); }
Flag Flag::Environment(const std::string& variable) const {
  return Flag(option_->envname(variable));
}

template Flag Flag::Range(int, int) const;
template Flag Flag::Range(int64_t, int64_t) const;
template Flag Flag::Range(double, double) const;

template <typename T>
Flag CliCommand::Add(const std::string& names, T& value, const std::string& help) const {
  CLI::Option* const option = app_->add_option(names, value, help);
  using Value = typename ValueOf<T>::Type;
  if constexpr (std::is_arithmetic_v<Value>) {
    option->transform(
        CLI::Validator([](std::string& text) { return MakeDecimal<Value>(text); }, ""));
  }
  return Flag(option);
}
Flag CliCommand::AddSwitch(const std::string& names, bool& value, const std::string& help) const {
  CLI::Option* const option = app_->add_flag(names, value, help);
  option->transform(CLI::Validator(
      [](std::string& text) {
        bool set = false;
        if (!absl::SimpleAtob(text, &set)) {
          return absl::StrCat("\"", text, "\" is neither true nor false");
        }
        text = set ? "true" : "false";
        return std::string();
      },
      ""));
  return Flag(option);
}
CliCommand CliCommand::AddSubcommand(const std::string& name, const std::string& help,
                                     const std::string& footer) const {
  CLI::App* sub = app_->add_subcommand(name, help);
  // A second one would be looked for behind the first, and run beside it.
  app_->require_subcommand(app_->get_require_subcommand_min(), 1);
  sub->fallthrough();
  sub->footer(footer);
  return CliCommand(sub);
}
void CliCommand::RequireSubcommand() const { app_->require_subcommand(1); }
void CliCommand::Hide() const { app_->group(""); }
void CliCommand::OnChosen(std::function<void()> callback) const {
  app_->callback(std::move(callback));
}

template Flag CliCommand::Add(const std::string&, std::string&, const std::string&) const;
template Flag CliCommand::Add(const std::string&, int&, const std::string&) const;
template Flag CliCommand::Add(const std::string&, int64_t&, const std::string&) const;
template Flag CliCommand::Add(const std::string&, uint32_t&, const std::string&) const;
template Flag CliCommand::Add(const std::string&, uint64_t&, const std::string&) const;
template Flag CliCommand::Add(const std::string&, float&, const std::string&) const;
template Flag CliCommand::Add(const std::string&, double&, const std::string&) const;
template Flag CliCommand::Add(const std::string&, std::optional<std::string>&,
                              const std::string&) const;
template Flag CliCommand::Add(const std::string&, std::optional<int64_t>&,
                              const std::string&) const;
template Flag CliCommand::Add(const std::string&, std::optional<uint64_t>&,
                              const std::string&) const;
template Flag CliCommand::Add(const std::string&, std::optional<double>&, const std::string&) const;
template Flag CliCommand::Add(const std::string&, std::vector<std::string>&,
                              const std::string&) const;
template Flag CliCommand::Add(const std::string&, std::vector<int64_t>&, const std::string&) const;

CommandLine::CommandLine(const std::string& name, const std::string& description,
                         const std::string& version, const std::string& footer)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->formatter(std::make_shared<OptionFormatter>());
  app_->footer(footer);
  app_->set_version_flag("--version", version);
}

CommandLine::~CommandLine() = default;

CliCommand CommandLine::root() { return CliCommand(app_.get()); }

Parsed CommandLine::Parse(const std::vector<std::string>& args) {
  Parsed parsed;
  const auto refuse = [&](const std::string& wrong) {
    parsed = {.outcome = Parsed::Outcome::kError,
              .text = absl::StrCat(wrong, SourceOf(Chosen(app_.get()), args, wrong))};
  };
  try {
    app_->parse(std::vector<std::string>(args.rbegin(), args.rend()));
    if (const std::string wrong = WrongVariable(*app_); !wrong.empty()) refuse(wrong);
  } catch (const CLI::CallForHelp&) {
    parsed = {.outcome = Parsed::Outcome::kHelp, .text = Help()};
  } catch (const CLI::CallForVersion&) {
    parsed = {.outcome = Parsed::Outcome::kVersion, .text = app_->version()};
  } catch (const CLI::ParseError& error) {
    // A misspelt flag is the likely reason for one that is missing, or the wrong value of a
    // variable is: say that first.
    const std::vector<std::string> extras = app_->remaining(/*recurse=*/true);
    const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    if (!extras.empty()) {
      parsed = {.outcome = Parsed::Outcome::kError,
                .text = ExplainExtra(Chosen(app_.get()), extras.front())};
    } else {
      const std::string wrong = missing ? WrongVariable(*app_) : "";
      refuse(wrong.empty() ? error.what() : wrong);
    }
  }
  parsed.command = FullName(Chosen(app_.get()));
  return parsed;
}

std::string CommandLine::Help() const { return Chosen(app_.get())->help(); }

CommandDescription CommandLine::Describe() const { return DescribeCommand(*app_); }

}  // namespace dslide
