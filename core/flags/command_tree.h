// What a command line takes, as data: the tree behind --help.

#pragma once

#include <string>
#include <vector>

namespace dslide {

// What completes a value.
enum class ValueKind {
  kNone,         // there is none: a switch
  kWords,        // one of some words
  kFiles,        // paths
  kDirectories,  // paths of directories
  kOther,        // a number, a name: nobody knows
};

struct FlagDescription {
  std::vector<std::string> names = {};  // {"-o", "--output"}
  std::string help = {};
  ValueKind kind = ValueKind::kNone;
  std::vector<std::string> words = {};  // of kWords
};

struct CommandDescription {
  std::string name = {};
  std::string help = {};
  // Its own; it takes those of the commands above as well, but for names that are here.
  std::vector<FlagDescription> flags = {};
  bool takes_files = false;  // a positional argument of it is a path
  std::vector<CommandDescription> commands = {};
};

}  // namespace dslide
