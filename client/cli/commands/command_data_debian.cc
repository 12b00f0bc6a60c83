#include "client/cli/commands/command_data_debian.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/cluster/apt_fetch.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/shell_word.h"
#include "client/cli/console/terminal.h"
#include "client/cli/train/data_source.h"
#include "core/base/status_macros.h"
#include "core/engine/data/sources/debian_files.h"
#include "core/engine/data/sources/debian_next.h"
#include "core/engine/data/sources/debian_packages.h"

namespace dslide::cli {
namespace {

void PrintReport(const GlobalOptions& global, const std::string& directory,
                 const DebianSetReport& report) {
  if (global.json()) {
    nlohmann::ordered_json json;
    json["directory"] = directory;
    json["index_files"] = report.index_files;
    json["packages"] = report.packages;
    json["train_points"] = report.train_points;
    json["test_points"] = report.test_points;
    json["features"] = report.features;
    json["labels"] = report.labels;
    json["labels_left_out"] = report.labels_left_out;
    json["features_per_point"] = report.features_per_point;
    json["labels_per_point"] = report.labels_per_point;
    PrintLine(json.dump());
    return;
  }
  PrintLine(absl::StrFormat(
      "Read %s packages from %d index files: %s training and %s test points, %s features, %s "
      "labels (%s too frequent, left out).",
      WithThousands(report.packages), report.index_files, WithThousands(report.train_points),
      WithThousands(report.test_points), WithThousands(report.features),
      WithThousands(report.labels), WithThousands(report.labels_left_out)));
  const auto file = [&](const char* name) { return ShellWord(absl::StrCat(directory, name)); };
  PrintLine(absl::StrCat("Train on it with:\n  dslide train --data ", file("/train.txt"),
                         " --eval ", file("/test.txt"),
                         report.groups ? " --validation-group " + file("/groups.txt") : "",
                         " --model-dir my-model"));
}

void SayFetching(const GlobalOptions& global, const AptFetch& fetch) {
  if (global.quiet) return;
  PrintNote(absl::StrCat("Fetching Debian's lists into ", fetch.lists_dir,
                         fetch.contents ? " (60 MB)" : " (15 MB)"));
}

void AddSetOptions(CliCommand command, DebianSetOptions& options, int64_t& threads) {
  command.Add("--output", options.output_dir, "Directory to write to").Required();
  AddOption(command, "--max-features", options.max_features, "Words kept at most");
  AddThreads(command, threads, "0: all of the machine");
}

// --- debian-packages
// ------------------------------------------------------------------------------

struct PackagesCommand {
  DebianPackagesOptions builder;
  int64_t threads = 0;
};

absl::StatusOr<int> RunDebianPackages(const GlobalOptions& global, PackagesCommand command) {
  command.builder.parallelism = ThreadsOrAll(command.threads);
  ASSIGN_OR_RETURN(const DebianSetReport report, BuildDebianPackages(command.builder));
  PrintReport(global, command.builder.output_dir, report);
  return kExitOk;
}

void AddDebianPackages(CliCommand data, Context& context) {
  const CliCommand command = data.AddSubcommand(
      "debian-packages",
      "Make a data set from this machine's package index: words of a description -> dependencies",
      "Examples:\n  dslide data debian-packages --output data/debian");
  auto options = std::make_shared<PackagesCommand>();  // shared with the callback
  DebianPackagesOptions& builder = options->builder;
  AddSetOptions(command, builder, options->threads);
  AddOption(command, "--lists", builder.lists_dir, "Directory of the package index");
  AddOption(command, "--max-label-fraction", builder.max_label_fraction,
            "Labels on more than this part of the packages are left out");
  AddOption(command, "--test-one-in", builder.test_one_in, "One package in so many is for testing");
  RunWhenChosen(command, context, options, RunDebianPackages);
}

// --- debian-files
// ---------------------------------------------------------------------------------

struct FilesCommand {
  DebianFilesOptions builder;
  std::string lists;  // "": those of the machine, or with `fetch` a folder of the output
  bool fetch = false;
  int64_t threads = 0;
};

absl::StatusOr<int> RunDebianFiles(const GlobalOptions& global, FilesCommand command) {
  DebianFilesOptions& builder = command.builder;
  builder.parallelism = ThreadsOrAll(command.threads);
  if (!command.lists.empty()) builder.lists_dir = command.lists;
  RETURN_IF_ERROR(CheckDebianFilesOptions(builder));
  if (command.fetch) {
    if (command.lists.empty()) builder.lists_dir = builder.output_dir + "/lists";
    const AptFetch fetch = {.lists_dir = builder.lists_dir, .contents = true};
    SayFetching(global, fetch);
    RETURN_IF_ERROR(FetchAptLists(fetch));
  }
  ASSIGN_OR_RETURN(const DebianSetReport report, BuildDebianFiles(builder));
  PrintReport(global, builder.output_dir, report);
  return kExitOk;
}

void AddDebianFiles(CliCommand data, Context& context) {
  const CliCommand command = data.AddSubcommand(
      "debian-files",
      "Make a very wide data set from apt's indices: words of a description -> names of files",
      "Examples:\n"
      "  dslide data debian-files --output data/debian-files --fetch\n"
      "  dslide data debian-files --output data/debian-files --lists data/debian-files/lists");
  auto options = std::make_shared<FilesCommand>();  // shared with the callback
  DebianFilesOptions& builder = options->builder;
  AddSetOptions(command, builder, options->threads);
  AddOption(command, "--lists", options->lists,
            "Directory of the package and Contents indices; /var/lib/apt/lists if not given");
  command.AddSwitch("--fetch", options->fetch,
                    "First fetch both with apt-get (no root needed) into --lists, or OUTPUT/lists");
  AddOption(command, "--min-packages", builder.min_packages,
            "Names that fewer packages ship are left out");
  AddOption(command, "--max-packages", builder.max_packages,
            "Names that more packages ship are left out");
  AddOption(command, "--max-names", builder.max_names, "Names of one package at most");
  AddOption(command, "--test-one-in", builder.test_one_in,
            "The packages of one source package in so many are for testing");
  RunWhenChosen(command, context, options, RunDebianFiles);
}

// --- debian-next
// ----------------------------------------------------------------------------------

struct NextCommand {
  DebianNextOptions builder;
  std::string release;
  int64_t threads = 0;
};

absl::StatusOr<int> RunDebianNext(const GlobalOptions& global, NextCommand command) {
  DebianNextOptions& builder = command.builder;
  builder.parallelism = ThreadsOrAll(command.threads);
  if (!command.release.empty() && builder.next_lists_dir.empty()) {
    builder.next_lists_dir = builder.output_dir + "/lists";
  }
  if (builder.next_lists_dir.empty()) {
    return absl::InvalidArgumentError(
        "name the later release's lists with --next-lists DIR, or fetch them: --fetch trixie");
  }
  RETURN_IF_ERROR(CheckDebianNextOptions(builder));
  if (!command.release.empty()) {
    const AptFetch fetch = {.lists_dir = builder.next_lists_dir, .release = command.release};
    SayFetching(global, fetch);
    RETURN_IF_ERROR(FetchAptLists(fetch));
  }
  ASSIGN_OR_RETURN(const DebianSetReport report, BuildDebianNext(builder));
  PrintReport(global, builder.output_dir, report);
  return kExitOk;
}

void AddDebianNext(CliCommand data, Context& context) {
  const CliCommand command = data.AddSubcommand(
      "debian-next", "As debian-packages, tested on the packages that are new in a later release",
      "Examples:\n"
      "  dslide data debian-next --output data/debian-next --fetch trixie\n"
      "  dslide data debian-next --output data/debian-next --lists bookworm --next-lists trixie");
  auto options = std::make_shared<NextCommand>();  // shared with the callback
  DebianNextOptions& builder = options->builder;
  AddSetOptions(command, builder, options->threads);
  AddOption(command, "--lists", builder.lists_dir, "Directory of the earlier release's index");
  AddOption(command, "--next-lists", builder.next_lists_dir,
            "Directory of the later release's index");
  AddOption(command, "--fetch", options->release,
            "First fetch that release with apt-get (no root needed) into --next-lists, or "
            "OUTPUT/lists");
  AddOption(command, "--max-label-fraction", builder.max_label_fraction,
            "Labels on more than this part of the earlier packages are left out");
  RunWhenChosen(command, context, options, RunDebianNext);
}

}  // namespace

void AddDebianCommands(CliCommand data, Context& context) {
  AddDebianPackages(data, context);
  AddDebianFiles(data, context);
  AddDebianNext(data, context);
}

}  // namespace dslide::cli
