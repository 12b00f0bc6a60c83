// docs/operate/errors.md lists every reason word that the code knows.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(std::string(DSLIDE_SOURCE_DIR "/") + path);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(ErrorsDocTest, ListsEveryReasonWord) {
  const std::string page = ReadFile("docs/operate/errors.md");
  const std::regex word("= \"([A-Z_]+)\";");
  int words = 0;
  for (const char* header :
       {"core/protocol/reason_words.h", "core/protocol/coordinator_reason_words.h",
        "core/protocol/access_reason_words.h"}) {
    const std::string text = ReadFile(header);
    for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it) {
      ++words;
      EXPECT_NE(page.find(absl::StrCat("`", (*it)[1].str(), "`")), std::string::npos)
          << header << ": docs/operate/errors.md does not explain " << (*it)[1];
    }
  }
  EXPECT_GT(words, 40);
}

}  // namespace
}  // namespace dslide
