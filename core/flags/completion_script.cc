#include "core/flags/completion_script.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace dslide {
namespace {

using Visitor = std::function<void(const std::string& path, const CommandDescription& command)>;

// Calls visit for the command and all below, with the names that lead to each.
void Visit(const std::string& path, const CommandDescription& command, const Visitor& visit) {
  visit(path, command);
  for (const CommandDescription& below : command.commands) {
    Visit(absl::StrCat(path, " ", below.name), below, visit);
  }
}

// One word of bash and zsh.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::string FishQuoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

const char* KindWord(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNone:
      return "none";
    case ValueKind::kWords:
      return "words";
    case ValueKind::kFiles:
      return "files";
    case ValueKind::kDirectories:
      return "directories";
    case ValueKind::kOther:
      return "other";
  }
  return "other";
}

// A shell function that sets `kind` and `choices` for "path flag" in $1: of bash and zsh.
std::string KindFunction(const CommandDescription& root) {
  std::map<std::string, std::vector<std::string>> patterns;  // by what is set
  Visit(root.name, root, [&](const std::string& path, const CommandDescription& command) {
    for (const FlagDescription& flag : command.flags) {
      const std::string set = absl::StrCat("kind=", KindWord(flag.kind),
                                           " choices=", Quoted(absl::StrJoin(flag.words, " ")));
      for (const std::string& name : flag.names) {
        patterns[set].push_back(Quoted(absl::StrCat(path, " ", name)));
      }
    }
  });
  std::string text = absl::StrCat("_", root.name, "_kind() {\n  case \"$1\" in\n");
  for (const auto& [set, names] : patterns) {
    absl::StrAppend(&text, "    ", absl::StrJoin(names, "|\\\n    "), ") ", set, " ;;\n");
  }
  return absl::StrCat(text, "    *) return 1 ;;\n  esac\n}\n");
}

// A shell function that sets `subs`, `flags` and `files` for the path in $1.
std::string TakesFunction(const CommandDescription& root, bool with_help) {
  std::string text = absl::StrCat("_", root.name, "_takes() {\n  case \"$1\" in\n");
  Visit(root.name, root, [&](const std::string& path, const CommandDescription& command) {
    std::vector<std::string> commands;
    std::vector<std::string> flags;
    const auto entry = [&](const std::string& name, const std::string& help) {
      return Quoted(with_help ? absl::StrCat(name, ":", help) : name);
    };
    for (const CommandDescription& below : command.commands) {
      commands.push_back(entry(below.name, below.help));
    }
    for (const FlagDescription& flag : command.flags) {
      for (const std::string& name : flag.names) flags.push_back(entry(name, flag.help));
    }
    absl::StrAppend(&text, "    ", Quoted(path), ")\n      subs=(", absl::StrJoin(commands, " "),
                    ")\n      flags=(", absl::StrJoin(flags, " "),
                    ")\n      files=", command.takes_files ? "yes" : "", " ;;\n");
  });
  return absl::StrCat(text, "  esac\n}\n");
}

// What bash and zsh share: _NAME_find sets `at`, the path of the command that the words so far
// name, and `flag`, the flag that waits for its value. $@: the words before the one to complete.
// _NAME_look sets `kind` and `choices` of the flag $2 of the command $1 or of one above.
constexpr char kWalk[] = R"sh(_NAME_look() {
  local above="$1"
  while :; do
    _NAME_kind "$above $2" && return 0
    [ "$above" = NAME ] && return 1
    above="${above% *}"
  done
}
_NAME_find() {
  local word kind choices
  at=NAME flag=
  shift
  for word in "$@"; do
    if [ -n "$flag" ]; then
      flag=
      continue
    fi
    case "$word" in
      --*=*) ;;
      -*) _NAME_look "$at" "$word" && [ "$kind" != none ] && flag="$word" ;;
      *) _NAME_is_command "$at" "$word" && at="$at $word" ;;
    esac
  done
  return 0
}
# Those of the command $1 and of the ones above, into `all`.
_NAME_all_flags() {
  local above="$1" subs flags files
  all=()
  while :; do
    _NAME_takes "$above"
    all+=("${flags[@]}")
    [ "$above" = NAME ] && return 0
    above="${above% *}"
  done
}
)sh";

constexpr char kBash[] = R"sh(_NAME() {
  local cur="${COMP_WORDS[COMP_CWORD]}" at flag kind choices subs flags files i
  local -a before=() all=()
  # Readline cuts words at "=" and ":"; put them together again.
  for ((i = 0; i < COMP_CWORD; i++)); do
    if ((i > 0)) && [[ ${COMP_WORDS[i]} == [=:]* || ${COMP_WORDS[i - 1]} == : ]]; then
      before[${#before[@]} - 1]+="${COMP_WORDS[i]}"
    else
      before+=("${COMP_WORDS[i]}")
    fi
  done
  [[ $cur == = ]] && cur=
  COMPREPLY=()
  _NAME_find "${before[@]}"
  [[ ${before[${#before[@]} - 1]} == --*= ]] && flag="${before[${#before[@]} - 1]%=}"
  if [[ -n $flag ]]; then
    _NAME_look "$at" "$flag" || return 0
    case "$kind" in
      words) mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$cur") ;;
      files)
        compopt -o filenames 2> /dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        ;;
      directories)
        compopt -o filenames 2> /dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        ;;
    esac
    return 0
  fi
  _NAME_takes "$at"
  if [[ $cur == -* ]]; then
    _NAME_all_flags "$at"
    mapfile -t COMPREPLY < <(compgen -W "${all[*]}" -- "$cur")
  elif ((${#subs[@]})); then
    mapfile -t COMPREPLY < <(compgen -W "${subs[*]}" -- "$cur")
  elif [[ -n $files ]]; then
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
}
complete -F _NAME NAME
)sh";

constexpr char kZsh[] = R"sh(_NAME() {
  local at flag kind choices subs flags files all
  local cur="${words[CURRENT]}"
  _NAME_find "${(@)words[1,CURRENT-1]}"
  if [[ -z $flag && $cur == --*=* ]]; then
    flag="${cur%%=*}"
    compset -P '*='
  fi
  if [[ -n $flag ]]; then
    _NAME_look "$at" "$flag" || return 1
    case "$kind" in
      words) compadd -- ${=choices} ;;
      files) _files ;;
      directories) _files -/ ;;
    esac
    return
  fi
  _NAME_takes "$at"
  if [[ $cur == -* ]]; then
    _NAME_all_flags "$at"
    _describe -o flag all
  elif (( ${#subs} )); then
    _describe command subs
  elif [[ -n $files ]]; then
    _files
  fi
}
if [[ "${funcstack[1]}" == _NAME ]]; then
  _NAME "$@"
else
  compdef _NAME NAME
fi
)sh";

std::string WithName(const char* script, const std::string& name) {
  return absl::StrReplaceAll(script, {{"NAME", name}});
}

std::string IsCommandFunction(const CommandDescription& root) {
  std::vector<std::string> pairs;
  Visit(root.name, root, [&](const std::string& path, const CommandDescription& command) {
    for (const CommandDescription& below : command.commands) {
      pairs.push_back(Quoted(absl::StrCat(path, " ", below.name)));
    }
  });
  return absl::StrCat("_", root.name, "_is_command() {\n  case \"$1 $2\" in\n    ",
                      absl::StrJoin(pairs, "|\\\n    "), ") return 0 ;;\n  esac\n  return 1\n}\n");
}

std::string BashScript(const CommandDescription& root) {
  return absl::StrCat("# Completion of ", root.name, " for bash 4.\n", KindFunction(root),
                      TakesFunction(root, /*with_help=*/false), IsCommandFunction(root),
                      WithName(kWalk, root.name), WithName(kBash, root.name));
}

std::string ZshScript(const CommandDescription& root) {
  return absl::StrCat("#compdef ", root.name, "\n# Completion of ", root.name, " for zsh 5.\n",
                      KindFunction(root), TakesFunction(root, /*with_help=*/true),
                      IsCommandFunction(root), WithName(kWalk, root.name),
                      WithName(kZsh, root.name));
}

// Sets the path of the command that the words name, and says whether it is $argv[1], or below it
// but not one of the others.
constexpr char kFish[] = R"sh(function __NAME_at
    set -l at NAME
    set -l skip 0
    set -l tokens (commandline -opc)
    for token in $tokens[2..-1]
        if test $skip = 1
            set skip 0
        else if string match -q -- '--*=*' $token
            continue
        else if string match -q -- '-*' $token
            set -l path_of $at
            while true
                if contains -- "$path_of $token" $__NAME_valued
                    set skip 1
                    break
                end
                if contains -- "$path_of $token" $__NAME_switches; or test "$path_of" = NAME
                    break
                end
                set path_of (string replace -r ' [^ ]*$' '' -- $path_of)
            end
        else if contains -- "$at $token" $__NAME_commands
            set at "$at $token"
        end
    end
    echo $at
end
function __NAME_is
    test (__NAME_at) = $argv[1]
end
function __NAME_under
    set -l at (__NAME_at)
    test "$at" = $argv[1]; or string match -q -- "$argv[1] *" $at; or return 1
    not contains -- $at $argv[2..-1]
end
complete -c NAME -f
)sh";

std::string FishList(const std::string& name, const std::vector<std::string>& words) {
  std::string text = absl::StrCat("set -g ", name);
  for (const std::string& word : words) absl::StrAppend(&text, " \\\n    ", FishQuoted(word));
  return absl::StrCat(text, "\n");
}

std::string FishFlag(const std::string& program, const std::string& condition,
                     const FlagDescription& flag) {
  std::string text = absl::StrCat("complete -c ", program, " -n ", FishQuoted(condition));
  for (const std::string& name : flag.names) {
    const bool is_long = name.size() > 2 && name[1] == '-';
    absl::StrAppend(&text, is_long ? " -l " : " -s ", name.substr(is_long ? 2 : 1));
  }
  switch (flag.kind) {
    case ValueKind::kNone:
      break;
    case ValueKind::kWords:
      absl::StrAppend(&text, " -x -a ", FishQuoted(absl::StrJoin(flag.words, " ")));
      break;
    case ValueKind::kFiles:
      absl::StrAppend(&text, " -r -F");
      break;
    case ValueKind::kDirectories:
      absl::StrAppend(&text, " -x -a '(__fish_complete_directories)'");
      break;
    case ValueKind::kOther:
      absl::StrAppend(&text, " -x");
      break;
  }
  return absl::StrCat(text, " -d ", FishQuoted(flag.help), "\n");
}

// Paths below `path` that have a flag of one of these names themselves.
std::vector<std::string> Overriding(const CommandDescription& root, const std::string& path,
                                    const FlagDescription& flag) {
  std::vector<std::string> paths;
  Visit(root.name, root, [&](const std::string& other, const CommandDescription& command) {
    if (other.size() <= path.size() || other.compare(0, path.size() + 1, path + " ") != 0) return;
    for (const FlagDescription& own : command.flags) {
      const bool same = std::find_first_of(own.names.begin(), own.names.end(), flag.names.begin(),
                                           flag.names.end()) != own.names.end();
      if (same) paths.push_back(other);
    }
  });
  return paths;
}

std::string FishScript(const CommandDescription& root) {
  std::vector<std::string> commands;
  std::vector<std::string> valued;
  std::vector<std::string> switches;
  std::string lines;
  Visit(root.name, root, [&](const std::string& path, const CommandDescription& command) {
    for (const CommandDescription& below : command.commands) {
      commands.push_back(absl::StrCat(path, " ", below.name));
      absl::StrAppend(&lines, "complete -c ", root.name, " -n ",
                      FishQuoted(absl::StrCat("__", root.name, "_is ", FishQuoted(path))), " -a ",
                      below.name, " -d ", FishQuoted(below.help), "\n");
    }
    for (const FlagDescription& flag : command.flags) {
      for (const std::string& name : flag.names) {
        (flag.kind == ValueKind::kNone ? switches : valued)
            .push_back(absl::StrCat(path, " ", name));
      }
      std::string condition = absl::StrCat("__", root.name, "_under ", FishQuoted(path));
      for (const std::string& other : Overriding(root, path, flag)) {
        absl::StrAppend(&condition, " ", FishQuoted(other));
      }
      absl::StrAppend(&lines, FishFlag(root.name, condition, flag));
    }
    if (command.takes_files) {
      absl::StrAppend(&lines, "complete -c ", root.name, " -n ",
                      FishQuoted(absl::StrCat("__", root.name, "_is ", FishQuoted(path))), " -F\n");
    }
  });
  const std::string prefix = absl::StrCat("__", root.name);
  return absl::StrCat("# Completion of ", root.name, " for fish 3.\n",
                      FishList(prefix + "_commands", commands),
                      FishList(prefix + "_valued", valued),
                      FishList(prefix + "_switches", switches), WithName(kFish, root.name), lines);
}

}  // namespace

std::vector<std::string> CompletionShells() { return {"bash", "zsh", "fish"}; }

absl::StatusOr<std::string> CompletionScript(const CommandDescription& root,
                                             absl::string_view shell) {
  if (shell == "bash") return BashScript(root);
  if (shell == "zsh") return ZshScript(root);
  if (shell == "fish") return FishScript(root);
  return absl::InvalidArgumentError(
      absl::StrCat("no completion for the shell \"", shell, "\": bash, zsh or fish"));
}

}  // namespace dslide
