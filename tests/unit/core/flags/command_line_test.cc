#include "core/flags/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() : line_("program", "Does something", "1.2.3 (abc)", "Examples:\n  program") {
    const CliCommand root = line_.root();
    root.Add("--rate", rate_, "Per second").Range(0.5, 2.0);
    root.Add("--count", count_, "How many").Positive();
    root.Add("--sizes", sizes_, "Several").Delimiter(',');
    run_ = std::make_unique<CliCommand>(root.AddSubcommand("run", "Runs"));
    run_->OnChosen([this] { ++runs_; });
  }

  CommandLine line_;
  std::unique_ptr<CliCommand> run_;
  double rate_ = 1.0;
  int64_t count_ = 1;
  int64_t steps_ = 0;
  std::vector<int64_t> sizes_;
  int runs_ = 0;
};

TEST_F(CommandLineTest, SetsVariablesAndCallsTheChosenCommand) {
  const Parsed parsed = line_.Parse({"run", "--rate", "0.75", "--count=3", "--sizes", "4,5,6"});
  EXPECT_EQ(parsed.outcome, Parsed::Outcome::kRun) << parsed.text;
  EXPECT_EQ(parsed.command, "program run");
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(rate_, 0.75);
  EXPECT_EQ(count_, 3);
  EXPECT_THAT(sizes_, ElementsAre(4, 5, 6));
}

TEST_F(CommandLineTest, RefusesValuesOutOfRange) {
  Parsed parsed = line_.Parse({"--rate", "2.5"});
  EXPECT_EQ(parsed.outcome, Parsed::Outcome::kError);
  EXPECT_THAT(parsed.text, AllOf(HasSubstr("--rate"), HasSubstr("2.5")));
  parsed = line_.Parse({"--count", "0"});
  EXPECT_EQ(parsed.outcome, Parsed::Outcome::kError);
  EXPECT_THAT(parsed.text, HasSubstr("--count"));
  EXPECT_EQ(runs_, 0);
}

TEST_F(CommandLineTest, NumbersAreDecimalAndFitTheirVariable) {
  EXPECT_EQ(line_.Parse({"--count", "010", "--sizes", "08,-09"}).outcome, Parsed::Outcome::kRun);
  EXPECT_EQ(count_, 10);
  EXPECT_THAT(sizes_, ElementsAre(8, -9));
  for (const char* const bad : {"0x10", "1e3", "1.0", "", "ten", "99999999999999999999"}) {
    const Parsed parsed = line_.Parse({"--count", bad});
    EXPECT_EQ(parsed.outcome, Parsed::Outcome::kError) << bad;
    EXPECT_THAT(parsed.text, AllOf(HasSubstr("--count: "), HasSubstr(bad)));
  }
  for (const char* const bad : {"nan", "0x1p0", "1e999", "1,5"}) {
    EXPECT_EQ(line_.Parse({"--rate", bad}).outcome, Parsed::Outcome::kError) << bad;
  }
  EXPECT_EQ(line_.Parse({"--count", "-9999999999999999999"}).text,
            "--count: must be at least -9223372036854775808, not -9999999999999999999");
  EXPECT_EQ(line_.Parse({"--count", "0"}).text, "--count: must be above 0, not 0");
  EXPECT_EQ(line_.Parse({"--rate", "3"}).text, "--rate: must be in [0.5, 2], not 3");
}

TEST_F(CommandLineTest, AnEmptyVariableCountsAsUnsetAndAWrongOneIsNamed) {
  line_.root().Add("--depth", count_, "How deep").Environment("COMMAND_LINE_TEST_DEPTH");
  setenv("COMMAND_LINE_TEST_DEPTH", "", 1);
  EXPECT_EQ(line_.Parse({}).outcome, Parsed::Outcome::kRun);
  setenv("COMMAND_LINE_TEST_DEPTH", "deep", 1);
  EXPECT_EQ(line_.Parse({}).text,
            "--depth: \"deep\" is not a whole number (from COMMAND_LINE_TEST_DEPTH)");
  EXPECT_EQ(line_.Parse({"--depth=flat"}).text, "--depth: \"flat\" is not a whole number");
  const CliCommand walk = line_.root().AddSubcommand("walk", "Walks");
  walk.Add("--steps", steps_, "How far").Environment("COMMAND_LINE_TEST_STEPS").Required();
  setenv("COMMAND_LINE_TEST_DEPTH", "7", 1);
  setenv("COMMAND_LINE_TEST_STEPS", "some", 1);
  EXPECT_EQ(line_.Parse({"walk"}).text,
            "--steps: \"some\" is not a whole number (from COMMAND_LINE_TEST_STEPS)");
  setenv("COMMAND_LINE_TEST_STEPS", "010", 1);
  EXPECT_EQ(line_.Parse({"walk"}).outcome, Parsed::Outcome::kRun);
  EXPECT_EQ(steps_, 10);
  EXPECT_EQ(count_, 7);
  unsetenv("COMMAND_LINE_TEST_STEPS");
  unsetenv("COMMAND_LINE_TEST_DEPTH");
}

TEST_F(CommandLineTest, TellsHelpAndVersion) {
  const Parsed version = line_.Parse({"--version"});
  EXPECT_EQ(version.outcome, Parsed::Outcome::kVersion);
  EXPECT_EQ(version.text, "1.2.3 (abc)");
  const Parsed help = line_.Parse({"--help"});
  EXPECT_EQ(help.outcome, Parsed::Outcome::kHelp);
  EXPECT_THAT(help.text, AllOf(HasSubstr("Does something"), HasSubstr("--rate")));
}

TEST_F(CommandLineTest, OffersTheNearestName) {
  EXPECT_THAT(line_.Parse({"--rte", "1"}).text,
              AllOf(HasSubstr("unknown option --rte"), HasSubstr("did you mean --rate?")));
  EXPECT_THAT(line_.Parse({"runn"}).text,
              AllOf(HasSubstr("unknown subcommand \"runn\""), HasSubstr("did you mean run?")));
}

TEST_F(CommandLineTest, RefusesArgumentsThatACommandDoesNotTake) {
  CommandLine plain("plain", "Takes nothing", "1");
  EXPECT_THAT(plain.Parse({"surprise"}).text, HasSubstr("unexpected argument \"surprise\""));
  // Nor does it take the name of another command.
  line_.root().AddSubcommand("stop", "Stops");
  for (const char* const second : {"stop", "run"}) {
    const Parsed parsed = line_.Parse({"run", "--rate", "1", second});
    EXPECT_EQ(parsed.outcome, Parsed::Outcome::kError) << second;
    EXPECT_THAT(parsed.text, HasSubstr("unexpected argument"));
  }
}

}  // namespace
}  // namespace dslide
