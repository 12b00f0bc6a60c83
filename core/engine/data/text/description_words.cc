#include "core/engine/data/text/description_words.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace dslide {
namespace {

// Appends `prefix` + word for each word of a text without white space.
void AppendWords(absl::string_view text, absl::string_view prefix,
                 std::vector<std::string>* words) {
  std::string word;
  const auto finish = [&] {
    while (!word.empty() && word.back() == '.') word.pop_back();
    const size_t start = word.find_first_not_of('.');
    if (start != std::string::npos) words->push_back(absl::StrCat(prefix, word.substr(start)));
    word.clear();
  };
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool in_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '.';
    if (in_word) {
      word += c;
    } else {
      finish();
    }
  }
  finish();
}

}  // namespace

std::vector<std::string> DescriptionWords(absl::string_view text) {
  std::vector<std::string> words;
  for (absl::string_view token : absl::StrSplit(text, absl::ByAnyChar(" \t\r\n"))) {
    const bool is_name = absl::ConsumePrefix(&token, kNameMark);
    AppendWords(token, is_name ? kNameMark : "", &words);
  }
  return words;
}

}  // namespace dslide
