#include "core/flags/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
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
}

}  // namespace
}  // namespace dslide
