#include "client/cli/console/shell_word.h"

#include <gtest/gtest.h>

namespace dslide::cli {
namespace {

TEST(ShellWordTest, QuotesWhatAShellWouldCutOrReplace) {
  EXPECT_EQ(ShellWord("data/train-1.txt"), "data/train-1.txt");
  EXPECT_EQ(ShellWord("a b"), "'a b'");
  EXPECT_EQ(ShellWord("$HOME;*"), "'$HOME;*'");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord(""), "''");
}

}  // namespace
}  // namespace dslide::cli
