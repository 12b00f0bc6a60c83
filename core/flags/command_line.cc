#include "core/flags/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

}  // namespace

Flag Flag::Required() const { return Flag(option_->required()); }
Flag Flag::OneOf(std::vector<std::string> words) const {
  return Flag(option_->check(CLI::IsMember(std::move(words))));
}
Flag Flag::Positive() const { return Flag(option_->check(CLI::PositiveNumber)); }
template <typename T>
Flag Flag::Range(T min, T max) const {
  return Flag(option_->check(CLI::Range(min, max)));
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
  return Flag(app_->add_option(names, value, help));
}
Flag CliCommand::AddSwitch(const std::string& names, bool& value, const std::string& help) const {
  return Flag(app_->add_flag(names, value, help));
}
CliCommand CliCommand::AddSubcommand(const std::string& name, const std::string& help,
                                     const std::string& footer) const {
  CLI::App* sub = app_->add_subcommand(name, help);
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
  app_->footer(footer);
  app_->set_version_flag("--version", version);
}

CommandLine::~CommandLine() = default;

CliCommand CommandLine::root() { return CliCommand(app_.get()); }

Parsed CommandLine::Parse(std::vector<std::string> args) {
  std::reverse(args.begin(), args.end());
  Parsed parsed;
  try {
    app_->parse(std::move(args));
  } catch (const CLI::CallForHelp&) {
    parsed = {.outcome = Parsed::Outcome::kHelp, .text = Help()};
  } catch (const CLI::CallForVersion&) {
    parsed = {.outcome = Parsed::Outcome::kVersion, .text = app_->version()};
  } catch (const CLI::ParseError& error) {
    // A misspelt flag is the likely reason for one that is missing: say that first.
    const std::vector<std::string> extras = app_->remaining(/*recurse=*/true);
    parsed = {
        .outcome = Parsed::Outcome::kError,
        .text = extras.empty() ? error.what() : ExplainExtra(Chosen(app_.get()), extras.front())};
  }
  parsed.command = FullName(Chosen(app_.get()));
  return parsed;
}

std::string CommandLine::Help() const { return Chosen(app_.get())->help(); }

}  // namespace dslide
