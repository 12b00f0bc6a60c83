#include "client/cli/conformance/verdicts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace dslide::cli {
namespace {

constexpr std::array<const char*, kNumChapters> kChapterNames = {
    "connecting", "models", "owners", "gather",   "scatter", "sequence", "recovery",
    "first-rows", "top-k",  "jobs",   "training", "dense",   "dropout",  "sigmoid"};

std::string PageOf(const Mistake& mistake) {
  return absl::StrCat("docs/understand/wire.md#", mistake.section);
}

}  // namespace

absl::string_view ChapterName(Chapter chapter) {
  return kChapterNames[static_cast<size_t>(chapter)];
}

ChapterSet ChapterSet::All() {
  ChapterSet all;
  all.taken_.fill(true);
  return all;
}

absl::StatusOr<ChapterSet> ChapterSet::Parse(absl::string_view names) {
  if (names.empty()) return All();
  ChapterSet chosen;
  for (const absl::string_view name : absl::StrSplit(names, ',')) {
    const auto* const found = std::find(kChapterNames.begin(), kChapterNames.end(), name);
    if (found == kChapterNames.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--chapters: there is no chapter \"", name,
                                                     "\"; they are ",
                                                     absl::StrJoin(kChapterNames, ", ")));
    }
    chosen.taken_[static_cast<size_t>(found - kChapterNames.begin())] = true;
  }
  return chosen;
}

std::vector<std::string> ChapterSet::LeftOut() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < kNumChapters; ++i) {
    if (!taken_[i]) names.emplace_back(kChapterNames[i]);
  }
  return names;
}

std::string Describe(const Mistake& mistake) {
  return absl::StrCat(mistake.call, mistake.where.empty() ? "" : " (", mistake.where,
                      mistake.where.empty() ? "" : ")", ": ", mistake.field, " is ", mistake.found,
                      ", must be ", mistake.expected, "; see ", PageOf(mistake));
}

void Verdicts::Saw(Chapter chapter) {
  const absl::MutexLock lock(&mu_);
  chapters_[static_cast<size_t>(chapter)].seen = true;
}

void Verdicts::Add(Mistake mistake) {
  if (!chapters_taken_.has(mistake.chapter)) return;
  const absl::MutexLock lock(&mu_);
  ChapterState& chapter = chapters_[static_cast<size_t>(mistake.chapter)];
  chapter.seen = true;
  const auto same = std::find_if(chapter.told.begin(), chapter.told.end(), [&](const Told& told) {
    return told.mistake.call == mistake.call && told.mistake.field == mistake.field;
  });
  if (same != chapter.told.end()) {
    ++same->times;
    return;
  }
  if (tell_) tell_(mistake);
  chapter.told.push_back({.mistake = std::move(mistake)});
}

bool Verdicts::Passed() const {
  const absl::MutexLock lock(&mu_);
  for (size_t i = 0; i < kNumChapters; ++i) {
    if (!chapters_taken_.has(static_cast<Chapter>(i))) continue;
    if (!chapters_[i].seen || !chapters_[i].told.empty()) return false;
  }
  return true;
}

nlohmann::ordered_json Verdicts::Json() const {
  nlohmann::ordered_json json;
  json["passed"] = Passed();
  json["chapters"] = nlohmann::ordered_json::array();
  const absl::MutexLock lock(&mu_);
  for (size_t i = 0; i < chapters_.size(); ++i) {
    const ChapterState& state = chapters_[i];
    nlohmann::ordered_json chapter;
    chapter["chapter"] = kChapterNames[i];
    chapter["verdict"] = !chapters_taken_.has(static_cast<Chapter>(i)) ? "left out"
                         : !state.told.empty()                         ? "fail"
                         : state.seen                                  ? "pass"
                                                                       : "not seen";
    chapter["mistakes"] = nlohmann::ordered_json::array();
    for (const Told& told : state.told) {
      const Mistake& mistake = told.mistake;
      chapter["mistakes"].push_back({{"call", mistake.call},
                                     {"where", mistake.where},
                                     {"field", mistake.field},
                                     {"found", mistake.found},
                                     {"expected", mistake.expected},
                                     {"see", PageOf(mistake)},
                                     {"times", told.times}});
    }
    json["chapters"].push_back(std::move(chapter));
  }
  return json;
}

}  // namespace dslide::cli
