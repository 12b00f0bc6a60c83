#include "client/cli/commands/command_line.h"

#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/command_bench.h"
#include "client/cli/conformance/command_conformance.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "client/cli/report/command_report.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/engine/math/kernels.h"
#include "core/flags/completion_script.h"
#include "core/system/files/standard_streams.h"
#include "core/system/log.h"
#include "core/system/process/uncaught.h"
#include "services/common/trace/otlp_exporter.h"
#include "services/common/trace/span.h"

namespace dslide::cli {
namespace {

constexpr char kFooter[] = R"(Examples:
  dslide data debian-packages --output data/debian
  dslide train --data data/debian/train.txt --eval data/debian/test.txt --model-dir my-model
  dslide predict --model-dir my-model --text "a web server written in C"
  dslide up --shards 2

A flag can also be set by the variable that its --help names: --model-dir by DSLIDE_MODEL_DIR. A
flag wins; an empty variable counts as unset.

Exit codes: 0 success, 1 failure, 2 wrong flags or input, 3 cannot listen on an address,
4 the cluster cannot be reached, 5 state is lost or damaged, 6 a disk is full, 130 interrupted.
Documentation: docs/start/commands.md)";

int UsageError(const std::string& command, const std::string& text) {
  PrintNote(absl::StrCat(command, ": ", text, "\nSee: ", command, " --help"));
  return kExitUsage;
}

void PrintError(const std::string& command, const absl::Status& error) {
  const std::string reason = ReasonOf(error);
  if (CurrentLogFormat() == LogFormat::kJson) {
    WriteLog(LogLevel::kError, "command failed",
             {{"command", command}, {"reason", reason}, {"error", error.message()}});
  } else {
    PrintNote(absl::StrCat(command, ": ", error.message(),
                           reason.empty() ? "" : absl::StrCat(" [", reason, "]")));
  }
}

// Unwinds, so that temporary directories are removed and embedded shards stopped.
absl::StatusOr<int> RunCaught(const std::function<absl::StatusOr<int>()>& run) {
  try {
    return run();
  } catch (...) {
    return absl::InternalError(DescribeException(std::current_exception()));
  }
}

// Of all commands: it is added last.
void AddCompletionCommand(CommandLine& command_line, Context& context) {
  const CliCommand command = command_line.root().AddSubcommand(
      "completion", "Print a script that completes commands and flags in a shell",
      "Examples:\n"
      "  source <(dslide completion bash)\n"
      "      In this shell; put the line into ~/.bashrc for all of them.\n"
      "  dslide completion bash > ~/.local/share/bash-completion/completions/dslide\n"
      "  dslide completion zsh > \"${fpath[1]}/_dslide\"\n"
      "  dslide completion fish > ~/.config/fish/completions/dslide.fish");
  const auto shell = std::make_shared<std::string>();  // shared with the callback
  command.Add("SHELL", *shell, "bash, zsh or fish").Required().OneOf(CompletionShells());
  command.OnChosen([&command_line, &context, shell] {
    context.run = [&command_line, shell]() -> absl::StatusOr<int> {
      ASSIGN_OR_RETURN(const std::string script, CompletionScript(command_line.Describe(), *shell));
      PrintLine(script);
      return kExitOk;
    };
  });
}

// The exit code when the command line itself decides it.
std::optional<int> EndOf(const Parsed& parsed) {
  switch (parsed.outcome) {
    case Parsed::Outcome::kRun:
      return std::nullopt;
    case Parsed::Outcome::kHelp:
    case Parsed::Outcome::kVersion:
      PrintLine(parsed.text);
      return ExitWithResults(parsed.command, kExitOk, kExitDiskFull);
    case Parsed::Outcome::kError:
      return UsageError(parsed.command, parsed.text);
  }
  return std::nullopt;
}

// Of all that the command asks servers for. Servers have a span for each request instead.
Span BeginCommand(const std::string& command) {
  if (command == "dslide serve" || command == "dslide up") return Span();
  const char* const parent = std::getenv("TRACEPARENT");
  Span span =
      Span::Begin(command, SpanKind::kInternal, ParseTraceparent(parent == nullptr ? "" : parent));
  SetProcessTrace(span.context());
  return span;
}

}  // namespace

int RunCommandLine(const std::vector<std::string>& args) {
  // Its flags are its own.
  if (!args.empty() && args.front() == "bench") return RunBench({args.begin() + 1, args.end()});
  Context context{.args = args};
  CommandLine command_line(
      "dslide", "Trains very wide models on cheap machines with locality-sensitive hashing.",
      VersionLine("dslide"), kFooter);
  const CliCommand app = command_line.root();
  AddGlobalOptions(app, context.global);
  AddTrainCommand(app, context);
  AddTuneCommand(app, context);
  AddEvalCommand(app, context);
  AddReportCommand(app, context);
  AddAppendCommand(app, context);
  AddPredictCommand(app, context);
  AddServeCommand(app, context);
  AddStatusCommand(app, context);
  AddJobCommand(app, context);
  AddModelCommand(app, context);
  AddCheckpointCommand(app, context);
  AddDoctorCommand(app, context);
  AddTopCommand(app, context);
  AddLogCommand(app, context);
  AddPlanCommand(app, context);
  AddUpCommand(app, context);
  AddDataCommand(app, context);
  AddCertsCommand(app, context);
  AddHealthCommand(app, context);
  AddConformanceCommand(app, context);
  AddBenchCommand(app, context);
  AddVersionCommand(app, context);
  AddCompletionCommand(command_line, context);
  const Parsed parsed = command_line.Parse(args);
  if (const std::optional<int> code = EndOf(parsed); code.has_value()) return *code;
  if (const absl::Status log = SetLog(context.global.log_level, context.global.log_format);
      !log.ok()) {
    return UsageError(parsed.command, std::string(log.message()));
  }
  if (!context.run) {
    PrintNote(command_line.Help());
    return kExitUsage;
  }
  if (const absl::Status kernels = CheckKernelEnvironment(); !kernels.ok()) {
    return UsageError(parsed.command, std::string(kernels.message()));
  }
  const auto spans = OtlpExporter::Start(context.global.tracing, "dslide");
  if (!spans.ok()) return UsageError(parsed.command, std::string(spans.status().message()));
  Span span = BeginCommand(parsed.command);
  const absl::StatusOr<int> result = RunCaught(context.run);
  span.End(result.status());
  // Nothing has gone wrong but the output, which is said there.
  if (!result.ok() && !ResultStatus().ok()) {
    return ExitWithResults(parsed.command, kExitOk, kExitDiskFull);
  }
  if (!result.ok()) PrintError(parsed.command, result.status());
  return ExitWithResults(parsed.command, result.ok() ? *result : ExitCodeOf(result.status()),
                         kExitDiskFull);
}

}  // namespace dslide::cli
