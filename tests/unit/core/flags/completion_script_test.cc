#include "core/flags/completion_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/flags/command_line.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CompletionScriptTest : public ::testing::Test {
 protected:
  CompletionScriptTest() : line_("tool", "Does something", "1", "") {
    const CliCommand root = line_.root();
    root.Add("-o,--output", output_, "Form").OneOf({"text", "json"});
    const CliCommand make = root.AddSubcommand("make", "Doesn't wait: \"makes\"");
    make.Add("--model-dir", output_, "Where");
    make.Add("--count", count_, "How many").Range(int64_t{1}, int64_t{9});
    make.AddSwitch("--yes", yes_, "Do it");
    make.Add("FILE", output_, "What");
    root.AddSubcommand("secret", "Is not shown").Hide();
  }

  CommandLine line_;
  std::string output_;
  int64_t count_ = 0;
  bool yes_ = false;
};

TEST_F(CompletionScriptTest, TheTreeIsThatOfTheHelp) {
  const CommandDescription tool = line_.Describe();
  EXPECT_EQ(tool.name, "tool");
  ASSERT_EQ(tool.commands.size(), 1U) << "hidden ones are not there";
  const CommandDescription& make = tool.commands[0];
  EXPECT_EQ(make.name, "make");
  EXPECT_TRUE(make.takes_files);
  const auto kind = [](const CommandDescription& command, const std::string& name) {
    for (const FlagDescription& flag : command.flags) {
      if (flag.names.back() == name) return flag.kind;
    }
    ADD_FAILURE() << name;
    return ValueKind::kOther;
  };
  EXPECT_EQ(kind(tool, "--output"), ValueKind::kWords);
  EXPECT_EQ(kind(make, "--model-dir"), ValueKind::kDirectories);
  EXPECT_EQ(kind(make, "--count"), ValueKind::kOther);
  EXPECT_EQ(kind(make, "--yes"), ValueKind::kNone);
  for (const FlagDescription& flag : tool.flags) {
    if (flag.names.back() != "--output") continue;
    EXPECT_THAT(flag.names, ElementsAre("-o", "--output"));
    EXPECT_THAT(flag.words, ElementsAre("text", "json"));
  }
}

TEST_F(CompletionScriptTest, EveryShellGetsTheNamesAndQuotesTheTexts) {
  for (const std::string& shell : CompletionShells()) {
    const auto script = CompletionScript(line_.Describe(), shell);
    ASSERT_TRUE(script.ok()) << script.status();
    EXPECT_THAT(*script, HasSubstr("make"));
    EXPECT_THAT(*script, HasSubstr("text json"));
    EXPECT_THAT(*script, Not(HasSubstr("secret")));
    EXPECT_THAT(*script, Not(HasSubstr("NAME")));
    EXPECT_THAT(*script, Not(HasSubstr("Doesn't"))) << "a quote that nobody closes";
  }
  EXPECT_TRUE(absl::IsInvalidArgument(CompletionScript(line_.Describe(), "tcsh").status()));
}

}  // namespace
}  // namespace dslide
