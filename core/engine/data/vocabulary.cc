#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/data_file.h"
#include "core/engine/data/file_output.h"
#include "core/engine/data/name_list.h"
#include "core/engine/data/parse_error.h"
#include "core/engine/data/text_dataset.h"

namespace dslide {

Vocabulary::Vocabulary(std::vector<Word> words) : words_(std::move(words)) {
  ids_.reserve(words_.size());
  for (size_t id = 0; id < words_.size(); ++id) {
    ids_.emplace(words_[id].text, static_cast<uint32_t>(id));
  }
}

int64_t Vocabulary::Find(absl::string_view word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? -1 : static_cast<int64_t>(found->second);
}

std::string Vocabulary::ToText() const {
  std::string text;
  for (const Word& word : words_) absl::StrAppend(&text, word.count, "\t", word.text, "\n");
  return text;
}

absl::Status Vocabulary::Save(const std::string& path) const {
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  RETURN_IF_ERROR(out.Append(ToText()));
  return out.Commit();
}

absl::StatusOr<std::shared_ptr<const Vocabulary>> Vocabulary::Load(const std::string& path) {
  ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path));
  return FromText(file.bytes(), path);
}

absl::StatusOr<std::shared_ptr<const Vocabulary>> Vocabulary::FromText(absl::string_view content,
                                                                       const std::string& origin) {
  LineReader reader(content);
  std::vector<Word> words;
  absl::flat_hash_map<absl::string_view, int64_t> seen;  // word -> its line
  absl::string_view line;
  while (reader.Next(&line)) {
    const int64_t line_number = reader.line_number();
    const size_t tab = std::min(line.find('\t'), line.size());
    const absl::string_view text = line.substr(std::min(tab + 1, line.size()));
    const int64_t text_column = static_cast<int64_t>(line.size() - text.size()) + 1;
    Word word{std::string(text), 0};
    const auto parsed = std::from_chars(line.data(), line.data() + tab, word.count);
    if (parsed.ec != std::errc() || parsed.ptr != line.data() + tab || word.count < 0) {
      return ParseError(origin, line_number,
                        {1, QuoteFound(line), "count<TAB>word with a whole number as the count"});
    }
    if (text.empty() || text.find_first_of(" \t\r\v\f") != absl::string_view::npos) {
      return ParseError(origin, line_number,
                        {text_column, QuoteFound(text), "a word without white space"});
    }
    if (const auto [first, is_new] = seen.emplace(text, line_number); !is_new) {
      return ParseError(origin, line_number,
                        {text_column, QuoteFound(text),
                         absl::StrCat("a word that is not yet on line ", first->second)});
    }
    words.push_back(std::move(word));
  }
  if (words.empty()) {
    return ParseError(origin, 1, {1, "the end of the file", "at least one line count<TAB>word"});
  }
  return std::make_shared<const Vocabulary>(std::move(words));
}

}  // namespace dslide
