// The flags and subcommands of a program. The command line library is hidden behind it: its headers
// cost every source that sees them several seconds.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/flags/command_tree.h"

namespace CLI {  // NOLINT(readability-identifier-naming): of the library
class App;
class Option;
}  // namespace CLI

namespace dslide {

// One flag or positional argument of a CliCommand, for saying more about it. A handle: copies mean
// the same flag. Valid as long as the CommandLine.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag Required() const;
  // Each refuses values outside.
  Flag OneOf(std::vector<std::string> words) const;
  Flag Positive() const;
  // T: int, int64_t or double.
  template <typename T>
  Flag Range(T min, T max) const;
  // What --help shows for the value: "DIR".
  Flag TypeName(const std::string& name) const;
  // For vectors: what separates values in one word; or one value a word, the flag repeated.
  Flag Delimiter(char delimiter) const;
  Flag OneValueEach() const;
  // --help shows the value that the variable has now.
  Flag ShowDefault() const;
  // The environment variable that gives the value where the command line does not; an empty one
  // counts as unset.
  Flag Environment(const std::string& variable) const;

 private:
  CLI::Option* option_;
};

// A program or one of its subcommands. A handle, like Flag. Variables and callbacks that are bound
// to it must outlive the CommandLine. Not thread-safe.
class CliCommand {
 public:
  explicit CliCommand(CLI::App* app) : app_(app) {}

  // Numbers are decimal, with or without zeros in front; what does not fit the variable is refused.
  // `names`: "-o,--output", or "FILE" for a positional argument. T: a string, a number, a
  // std::optional or a std::vector of these, of those that the .cc names.
  template <typename T>
  Flag Add(const std::string& names, T& value, const std::string& help) const;
  // A flag without a value. "!--no-x" sets false.
  Flag AddSwitch(const std::string& names, bool& value, const std::string& help) const;
  // Options after the subcommand may also be those of this command.
  CliCommand AddSubcommand(const std::string& name, const std::string& help,
                           const std::string& footer = "") const;
  void RequireSubcommand() const;
  // --help of the command above does not show it.
  void Hide() const;
  // Called at the end of parsing when this command was chosen.
  void OnChosen(std::function<void()> callback) const;

 private:
  CLI::App* app_;
};

// What parsing came to.
struct Parsed {
  enum class Outcome { kRun, kHelp, kVersion, kError };
  Outcome outcome = Outcome::kRun;
  std::string command = {};  // full name of the chosen command: "dslide checkpoint restore"
  // The text of the help or version, or what is wrong; a flag or a subcommand that does not exist
  // comes with the nearest that does.
  std::string text = {};
};

// The command line of one program. Not thread-safe.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& description, const std::string& version,
              const std::string& footer = "");
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CliCommand root();
  // args[0] is the first argument, not the program. Sets the bound variables, then calls what
  // OnChosen() of the chosen commands was given.
  Parsed Parse(const std::vector<std::string>& args);
  // Of the chosen command; of the root before Parse().
  std::string Help() const;
  // All commands that --help shows, with their flags.
  CommandDescription Describe() const;

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace dslide
