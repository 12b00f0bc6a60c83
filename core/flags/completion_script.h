// Completion for shells: what a tree of commands takes, as a script that a shell reads once.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/flags/command_tree.h"

namespace dslide {

// "bash", "zsh", "fish".
std::vector<std::string> CompletionShells();

// Commands, subcommands, flags, their words, files and directories. The script asks no program
// and needs no package beside the shell: bash 4, zsh 5, fish 3. root.name is the program.
// Errors: InvalidArgument for another shell.
absl::StatusOr<std::string> CompletionScript(const CommandDescription& root,
                                             absl::string_view shell);

}  // namespace dslide
