#include "client/cli/commands/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "core/flags/suggest.h"

namespace dslide::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Outcome RunDslide(const std::vector<std::string>& args) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = RunCommandLine(args);
  outcome.err = testing::internal::GetCapturedStderr();
  outcome.out = testing::internal::GetCapturedStdout();
  return outcome;
}

class CommandLineTest : public ::testing::Test {
 protected:
  ~CommandLineTest() override { std::filesystem::remove_all(folder_); }

  // A file that vanishes with the test's directory.
  std::string File(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / name) << content;
    return (folder_ / name).string();
  }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / absl::StrCat("command_line.", getpid());
};

TEST_F(CommandLineTest, WithoutASubcommandItShowsHelpAndFails) {
  const Outcome outcome = RunDslide({});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, HasSubstr("Subcommands"));
}

TEST_F(CommandLineTest, EveryLevelHasHelpWithExamples) {
  const std::vector<std::vector<std::string>> levels = {{},
                                                        {"train"},
                                                        {"eval"},
                                                        {"predict"},
                                                        {"status"},
                                                        {"plan"},
                                                        {"up"},
                                                        {"certs"},
                                                        {"certs", "dev"},
                                                        {"health"},
                                                        {"data"},
                                                        {"data", "gen"},
                                                        {"data", "info"},
                                                        {"data", "debian-packages"},
                                                        {"data", "debian-files"},
                                                        {"data", "debian-next"},
                                                        {"version"}};
  for (std::vector<std::string> level : levels) {
    level.push_back("--help");
    const Outcome outcome = RunDslide(level);
    EXPECT_EQ(outcome.code, kExitOk) << level[0];
    EXPECT_THAT(outcome.out, HasSubstr("Examples:")) << level[0];
    EXPECT_THAT(outcome.err, IsEmpty()) << level[0];
  }
}

TEST_F(CommandLineTest, AMisspeltSubcommandIsAUsageErrorWithASuggestion) {
  const Outcome outcome = RunDslide({"trian"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("unknown subcommand \"trian\""),
                                 HasSubstr("did you mean train?"), HasSubstr("--help")));
  EXPECT_THAT(RunDslide({"data", "inof", "x"}).err, HasSubstr("did you mean info?"));
}

TEST_F(CommandLineTest, AMisspeltFlagIsToldBeforeAMissingOne) {
  const Outcome outcome = RunDslide({"train", "--bach-size", "3"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("dslide train: unknown option --bach-size"),
                                 HasSubstr("did you mean --batch-size?")));
}

TEST_F(CommandLineTest, WrongValuesAreUsageErrorsThatNameTheFlag) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"train"}, "--data is required"},
      {{"train", "--data", "x", "--seed", "abc"}, "--seed"},
      {{"train", "--data", "x", "--transform", "cubic"}, "--transform"},
      {{"train", "--data", "x", "--steps", "-1"}, "--steps"},
      {{"train", "--data", "x", "--shards", "0"}, "--shards"},
      {{"train", "--data", "x", "--resume"}, "--resume"},
      {{"predict", "--model-dir", "x", "-k", "0"}, "-k"},
      {{"predict", "--text", "x"}, "--model-dir"},
      {{"predict", "--model-dir", "x", "--text", "a", "--data", "b"}, "--text and --data"},
      {{"eval", "--data", "x"}, "--model-dir"},
      {{"eval", "--data", "x", "--cutoffs", "1,0"}, "--cutoffs 0"},
      {{"train", "--data", "x", "--cutoffs", "2000"}, "--cutoffs 2000"},
      {{"train", "--data", "x", "--propensity-b", "0"}, "--propensity-b"},
      {{"up", "--shards", "0"}, "--shards"},
      {{"up", "--listen", "192.0.2.1:7000"}, "--listen"},
      {{"status", "--timeout", "soon"}, "--timeout"},
      {{"status", "-o", "xml"}, "-o"},
      {{"data", "debian-files", "--output", "x", "--max-names", "0"}, "max_names 0"},
      {{"data", "debian-next", "--output", "x"}, "--next-lists"},
      {{"data", "debian-next", "--output", "x", "--fetch", "a b"}, "--fetch a b"},
      {{"data", "gen", "--output", "x", "--labels", "0"}, "labels"},
  };
  for (const auto& [args, text] : wrong) {
    const Outcome outcome = RunDslide(args);
    EXPECT_EQ(outcome.code, kExitUsage) << args[0] << " " << args.back();
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

TEST_F(CommandLineTest, AMissingOrMalformedFileIsAUsageErrorWithItsPlace) {
  EXPECT_EQ(RunDslide({"data", "info", "/nonexistent.txt"}).code, kExitUsage);
  const std::string path = File("bad.txt", "2 3 4\n0 1:1\n1 0:x\n");
  const Outcome outcome = RunDslide({"train", "--data", path});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr(absl::StrCat(path, ":3:5")));
}

TEST_F(CommandLineTest, AnUnknownFieldOfAModelSpecIsAUsageError) {
  const std::string data = File("ok.txt", "2 3 4\n0 1:1\n1 0:1\n");
  const std::string spec = File("spec.json", R"({"name": "m", "tabels": []})");
  const Outcome outcome = RunDslide({"train", "--data", data, "--model", spec});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("spec.json"), HasSubstr("tabels")));
}

TEST_F(CommandLineTest, AnUnreachableClusterHasItsOwnCodeWithinTheTimeout) {
  const Outcome outcome =
      RunDslide({"status", "--cluster", "unix:/nonexistent/dslide.sock", "--timeout", "300ms"});
  EXPECT_EQ(outcome.code, kExitUnreachable);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("coordinator at unix:/nonexistent/dslide.sock"),
                    HasSubstr("dslide-coordinator --listen unix:/nonexistent/dslide.sock")));
}

TEST_F(CommandLineTest, PlaintextToAnotherMachineIsRefused) {
  const Outcome outcome = RunDslide({"status", "--cluster", "192.0.2.1:7000"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("--insecure"));
}

TEST_F(CommandLineTest, FlagsMayComeFromTheEnvironmentAndAFlagWins) {
  setenv("DSLIDE_OUTPUT", "json", 1);
  const Outcome from_environment = RunDslide({"version"});
  const Outcome from_flag = RunDslide({"version", "-o", "text"});
  unsetenv("DSLIDE_OUTPUT");
  EXPECT_TRUE(nlohmann::json::parse(from_environment.out).contains("revision"));
  EXPECT_THAT(from_flag.out, HasSubstr("dslide 0."));
}

TEST_F(CommandLineTest, GlobalFlagsMayFollowTheSubcommand) {
  EXPECT_TRUE(nlohmann::json::parse(RunDslide({"version", "-o", "json"}).out).contains("version"));
  EXPECT_TRUE(nlohmann::json::parse(RunDslide({"-o", "json", "version"}).out).contains("version"));
}

TEST_F(CommandLineTest, InfoDescribesAFile) {
  const std::string path = File("info.txt", "3 10 4\n0,3 1:1 2:1\n 5:1\n1 0:2\n");
  const Outcome outcome = RunDslide({"data", "info", path, "-o", "json"});
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["points"], 3);
  EXPECT_EQ(json["features"], 10);
  EXPECT_EQ(json["labels"], 4);
  EXPECT_EQ(json["points_without_labels"], 1);
}

TEST_F(CommandLineTest, InfoTellsTheAccuracyOfTheMostFrequentLabels) {
  // The guesses are 3, 0, 2, 1, 4 for each of the 4 points; the first 1, 3 and 5 hit 3, 5 and 5
  // times.
  const std::string path = File("baseline.txt", "4 10 5\n0,3 1:1\n3 5:1\n 0:2\n2,3 1:1\n");
  const Outcome json_outcome = RunDslide({"data", "info", path, "-o", "json"});
  ASSERT_EQ(json_outcome.code, kExitOk) << json_outcome.err;
  const auto json = nlohmann::json::parse(json_outcome.out);
  EXPECT_DOUBLE_EQ(json["most_frequent_p_at_1"], 1.0);
  EXPECT_DOUBLE_EQ(json["most_frequent_p_at_3"], 5.0 / 9);
  EXPECT_DOUBLE_EQ(json["most_frequent_p_at_5"], 5.0 / 15);
  EXPECT_THAT(RunDslide({"data", "info", path}).out,
              HasSubstr("most frequent labels: P@1 1.0000   P@3 0.5556   P@5 0.3333"));
}

TEST(SuggestTest, FindsNearWordsOnly) {
  const std::vector<std::string> known = {"train", "eval", "predict", "status"};
  EXPECT_EQ(Suggest("trian", known), "train");
  EXPECT_EQ(Suggest("predcit", known), "predict");
  EXPECT_EQ(Suggest("pred", known), "predict");
  EXPECT_EQ(Suggest("xyzzy", known), "");
  EXPECT_EQ(Suggest("", known), "");
}

TEST(SuggestTest, CountsASwapAsOneEdit) {
  EXPECT_EQ(EditDistance("ab", "ba"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("", "abc"), 3);
}

TEST(ExitCodeTest, FollowsWhatTheUserShouldDo) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), kExitOk);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), kExitUsage);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), kExitUsage);
  EXPECT_EQ(ExitCodeOf(absl::AlreadyExistsError("")), kExitCannotListen);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), kExitUnreachable);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("")), kExitUnreachable);
  EXPECT_EQ(ExitCodeOf(absl::DataLossError("")), kExitDataLoss);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("")), kExitFailure);
}

TEST(TerminalTest, AlignsTables) {
  EXPECT_EQ(FormatTable({"name", "n"}, {{"a", "5"}, {"long name", "1,234"}}),
            "name       n\n"
            "a              5\n"
            "long name  1,234");
}

TEST(TerminalTest, WritesNumbersForPeople) {
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(1000), "1,000");
  EXPECT_EQ(WithThousands(-1234567), "-1,234,567");
  EXPECT_EQ(ReadableBytes(12), "12 B");
  EXPECT_EQ(ReadableBytes(1500), "1.5 kB");
  EXPECT_EQ(ReadableBytes(168e9), "168 GB");
}

}  // namespace
}  // namespace dslide::cli
