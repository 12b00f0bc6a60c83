#include "client/cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/command_bench.h"
#include "client/cli/exit_codes.h"
#include "client/cli/suggest.h"
#include "client/cli/terminal.h"
#include "core/base/log.h"
#include "core/base/reason.h"
#include "core/base/units.h"
#include "core/base/version.h"
#include "core/math/kernels.h"

namespace dslide::cli {
namespace {

constexpr char kFooter[] = R"(Examples:
  dslide data debian-packages --output data/debian
  dslide train --data data/debian/train.txt --eval data/debian/test.txt --model-dir my-model
  dslide predict --model-dir my-model --text "a web server written in C"
  dslide up --shards 2

Every flag can also be set in the environment: --model-dir as DSLIDE_MODEL_DIR. A flag wins.

Exit codes: 0 success, 1 failure, 2 wrong flags or input, 3 cannot listen on an address,
4 the cluster cannot be reached, 5 state is lost or damaged, 130 interrupted.
Documentation: docs/cli.md)";

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
std::string ExplainExtra(const CLI::App& root, const std::string& extra) {
  const CLI::App* chosen = Chosen(&root);
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

int UsageError(const CLI::App& root, const std::string& text) {
  const std::string name = FullName(Chosen(&root));
  PrintNote(absl::StrCat(name, ": ", text, "\nSee: ", name, " --help"));
  return kExitUsage;
}

void AddGlobalOptions(CLI::App& app, GlobalOptions& global) {
  AddOption(app, "-o,--output", global.output, "Form of the result: text or json")
      ->check(CLI::IsMember({"text", "json"}));
  AddOption(app, "--timeout", global.timeout, "Deadline of every call to the cluster, e.g. 30s");
  app.add_flag("-q,--quiet", global.quiet, "No progress on stderr");
  app.add_flag("--insecure", global.insecure,
               "Allow plaintext connections to other machines (trusted networks only)");
  AddOption(app, "--tls-ca", global.tls.ca,
            "PEM file of the authorities of the cluster's certificates; encrypts connections");
  AddOption(app, "--tls-crl-dir", global.tls.crl_dir,
            "Directory of those authorities' lists of revoked certificates");
  AddOption(app, "--tls-cert", global.tls.cert, "PEM file of this client's certificate");
  AddOption(app, "--tls-key", global.tls.key, "PEM file of the certificate's private key");
}

// Parses; the exit code when the command line itself decides it.
std::optional<int> Parse(CLI::App& app, std::vector<std::string> args) {
  std::reverse(args.begin(), args.end());
  try {
    app.parse(std::move(args));
  } catch (const CLI::CallForHelp&) {
    PrintLine(Chosen(&app)->help());
    return kExitOk;
  } catch (const CLI::CallForVersion&) {
    PrintLine(VersionLine("dslide"));
    return kExitOk;
  } catch (const CLI::ExtrasError& error) {
    const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
    return UsageError(app, extras.empty() ? error.what() : ExplainExtra(app, extras.front()));
  } catch (const CLI::ParseError& error) {
    // A misspelt flag is the likely reason for one that is missing: say that first.
    const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
    return UsageError(app, extras.empty() ? error.what() : ExplainExtra(app, extras.front()));
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<absl::Duration> GlobalOptions::Timeout() const {
  absl::StatusOr<absl::Duration> parsed = ParseDuration(timeout);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--timeout: ", parsed.status().message()));
  }
  if (*parsed <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--timeout 0: a call needs a deadline above 0");
  }
  return parsed;
}

CLI::App& AddSubcommand(CLI::App& app, const std::string& name, const std::string& help,
                        const std::string& examples) {
  CLI::App* sub = app.add_subcommand(name, help);
  sub->fallthrough();
  sub->footer(examples);
  return *sub;
}

int RunCommandLine(const std::vector<std::string>& args) {
  // Its flags are its own.
  if (!args.empty() && args.front() == "bench") return RunBench({args.begin() + 1, args.end()});
  Context context;
  CLI::App app("Trains very wide models on cheap machines with locality-sensitive hashing.",
               "dslide");
  app.footer(kFooter);
  app.set_version_flag("--version", VersionLine("dslide"));
  AddGlobalOptions(app, context.global);
  AddTrainCommand(app, context);
  AddEvalCommand(app, context);
  AddPredictCommand(app, context);
  AddStatusCommand(app, context);
  AddCheckpointCommand(app, context);
  AddDoctorCommand(app, context);
  AddTopCommand(app, context);
  AddLogCommand(app, context);
  AddPlanCommand(app, context);
  AddUpCommand(app, context);
  AddDataCommand(app, context);
  AddCertsCommand(app, context);
  AddHealthCommand(app, context);
  AddBenchCommand(app, context);
  AddVersionCommand(app, context);
  if (const std::optional<int> code = Parse(app, args); code.has_value()) return *code;
  if (!context.run) {
    PrintNote(Chosen(&app)->help());
    return kExitUsage;
  }
  if (const absl::Status kernels = CheckKernelEnvironment(); !kernels.ok()) {
    return UsageError(app, std::string(kernels.message()));
  }
  // Services inside this process have nothing to say to people while all goes well.
  SetMinLogLevel(LogLevel::kWarning);
  const absl::StatusOr<int> result = context.run();
  if (result.ok()) return *result;
  const std::string reason = ReasonOf(result.status());
  PrintNote(absl::StrCat(FullName(Chosen(&app)), ": ", result.status().message(),
                         reason.empty() ? "" : absl::StrCat(" [", reason, "]")));
  return ExitCodeOf(result.status());
}

}  // namespace dslide::cli
