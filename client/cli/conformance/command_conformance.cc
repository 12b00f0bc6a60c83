#include "client/cli/conformance/command_conformance.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/conformance/conformance_server.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/global_options.h"
#include "client/cli/console/interrupt.h"
#include "client/cli/console/stdin_end.h"
#include "client/cli/console/terminal.h"
#include "core/base/status_macros.h"

namespace dslide::cli {
namespace {

constexpr absl::Duration kEndPoll = absl::Milliseconds(50);

struct ConformanceOptions {
  std::string listen = "127.0.0.1:7000";
  std::string course = "conformance-course";
  std::string chapters;
  bool until_stdin_ends = false;
};

void AnnounceCourse(const GlobalOptions& global, const ConformanceOptions& options,
                    const std::string& address) {
  const std::string file = options.course + "/course.json";
  if (global.json()) {
    PrintLine(nlohmann::ordered_json({{"coordinator", address}, {"course", file}}).dump());
    return;
  }
  PrintLine(absl::StrCat("A cluster that checks its client. Coordinator: ", address,
                         " (plaintext)\nWhat the client is to do: ", file, "\n",
                         options.until_stdin_ends ? "The end of standard input" : "Ctrl-C",
                         " ends it and prints the verdicts."));
}

int ReportVerdicts(const GlobalOptions& global, const ChapterSet& chapters,
                   const Verdicts& verdicts) {
  const nlohmann::ordered_json json = verdicts.Json();
  const bool passed = verdicts.Passed();
  if (global.json()) {
    PrintLine(json.dump());
    return passed ? kExitOk : kExitFailure;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& chapter : json["chapters"]) {
    rows.push_back({chapter["chapter"], chapter["verdict"],
                    chapter["mistakes"].empty() ? "" : absl::StrCat(chapter["mistakes"].size())});
  }
  PrintLine(FormatTable({"chapter", "verdict", "kinds of mistakes"}, rows));
  const std::vector<std::string> left_out = chapters.LeftOut();
  PrintLine(absl::StrCat(passed ? "\nThe client passes" : "\nThe client does not pass",
                         left_out.empty() ? "." : ", without what --chapters left out: ",
                         absl::StrJoin(left_out, ", "), left_out.empty() ? "" : "."));
  return passed ? kExitOk : kExitFailure;
}

absl::StatusOr<int> RunConformance(const GlobalOptions& global, const ConformanceOptions& options) {
  ASSIGN_OR_RETURN(const ChapterSet chapters, ChapterSet::Parse(options.chapters));
  RETURN_IF_ERROR(CheckHasTask(chapters));
  const InterruptGuard interrupt;
  // Told as it happens: an author sees it beside what the client does.
  const auto tell = [](const Mistake& mistake) {
    PrintNote(absl::StrCat("WRONG [", ChapterName(mistake.chapter), "] ", Describe(mistake)));
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<ConformanceServer> server,
                   ConformanceServer::Start(options.listen, chapters, tell));
  RETURN_IF_ERROR(WriteCourse(server->course(), chapters, server->address(), options.course));
  AnnounceCourse(global, options, server->address());
  while (!InterruptGuard::Interrupted() && !(options.until_stdin_ends && StdinEnded())) {
    absl::SleepFor(kEndPoll);
  }
  return ReportVerdicts(global, chapters, server->Finish());
}

}  // namespace

void AddConformanceCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand(
      "conformance",
      "Run a cluster that checks a client of your own and says what is wrong with it",
      "It serves a coordinator and three shards in plaintext on this machine, and writes a "
      "course:\n"
      "models to create, rows to read and change, first values to compute, trainings, queries.\n"
      "On the way an answer gets lost, a shard is busy, another changes its owner. Each call is\n"
      "compared with what the product's own client would send; what differs is told at once, with\n"
      "the call, the field, both values and the section of docs/understand/wire.md. At the end "
      "each\n"
      "chapter has a verdict: pass, fail, not seen, or left out by --chapters.\n"
      "Examples:\n"
      "  dslide conformance\n"
      "      In another terminal: your client, with conformance-course/course.json. Then Ctrl-C.\n"
      "  dslide conformance --chapters connecting,models,owners,gather\n"
      "      For a client that only reads rows.\n"
      "  dslide conformance --listen 127.0.0.1:0 --course course --until-stdin-ends -o json\n"
      "      For tests: the first line of the output has the address, the last one the verdicts.\n"
      "Exit codes: 0 every chapter passed, 1 not, 2 wrong flags, 3 cannot listen on an address.\n"
      "The course: docs/contribute/conformance.md");
  auto options = std::make_shared<ConformanceOptions>();  // shared with the callback
  AddOption(command, "--listen", options->listen, "Address of the coordinator, on this machine");
  AddOption(command, "--course", options->course,
            "Directory of the course's files; made when absent")
      .TypeName("DIR");
  AddOption(command, "--chapters", options->chapters,
            "Chapters that the client takes, with commas between them; without it all")
      .TypeName("NAMES");
  command.AddSwitch("--until-stdin-ends", options->until_stdin_ends,
                    "Stop also when standard input ends: with the program at its other end");
  RunWhenChosen(command, context, options, RunConformance);
}

}  // namespace dslide::cli
