#include "core/engine/data/sparse_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Reads an id below `bound` (at most 2^31) at `at` and returns where it ends; `at` when there is
// none.
const char* ReadId(const char* at, const char* end, int64_t bound, uint32_t* id) {
  const char* p = at;
  int64_t value = 0;
  while (p != end && IsDigit(*p)) {
    value = value * 10 + (*p - '0');
    if (value >= bound) return at;
    ++p;
  }
  *id = static_cast<uint32_t>(value);
  return p;
}

// Numbers of up to 7 digits with at most 10 of them after the point: both the digits and the power
// of ten are exact floats, so one correctly rounded division gives what from_chars() would.
bool ParseShortFloat(absl::string_view text, float* value) {
  static constexpr float kPowersOfTen[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f,
                                           1e6f, 1e7f, 1e8f, 1e9f, 1e10f};
  if (text.empty() || text.size() > 12) return false;
  uint32_t digits = 0;
  int after_point = -1;
  int count = 0;
  for (const char c : text) {
    if (c == '.' && after_point < 0) {
      after_point = 0;
    } else if (IsDigit(c)) {
      digits = digits * 10 + static_cast<uint32_t>(c - '0');
      if (digits >= (1u << 24)) return false;
      ++count;
      if (after_point >= 0) ++after_point;
    } else {
      return false;
    }
  }
  if (count == 0 || after_point > 10) return false;
  *value = static_cast<float>(digits) / kPowersOfTen[std::max(after_point, 0)];
  return true;
}

// The power of ten of the first digit that is not 0. Requires a well-formed decimal number.
int64_t DecimalMagnitude(absl::string_view text) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  const absl::string_view mantissa = text.substr(0, e);
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  const size_t first = std::min(mantissa.find_first_of("123456789"), mantissa.size());
  int64_t exponent = 0;
  bool negative = false;
  for (const char c : text.substr(std::min(e + 1, text.size()))) {
    if (c == '-') negative = true;
    if (IsDigit(c)) exponent = std::min(kHuge, exponent * 10 + (c - '0'));
  }
  return static_cast<int64_t>(point) - static_cast<int64_t>(first) +
         (negative ? -exponent : exponent);
}

}  // namespace

bool ParseFloat(absl::string_view text, float* value) {
  if (ParseShortFloat(text, value)) return true;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, *value);
  if (error == std::errc::result_out_of_range && stop == end) {
    *value = 0.0f;
    return DecimalMagnitude(text) < 0;
  }
  return error == std::errc() && stop == end && std::isfinite(*value);
}

// Where the parser stands in a line, and whether ids have ascended so far.
struct SparseLineParser::Cursor {
  const char* begin;
  const char* at;
  const char* end;
  bool ascending = true;

  // The text from `from` up to the next blank (or one of `stops`).
  absl::string_view Piece(const char* from, absl::string_view stops = "") const {
    const char* p = from;
    while (p != end && !IsBlank(*p) && stops.find(*p) == absl::string_view::npos) ++p;
    return absl::string_view(from, static_cast<size_t>(p - from));
  }
  int64_t Column(const char* place) const { return place - begin + 1; }
};

bool SparseLineParser::ParseLabels(Cursor* cursor, SparseBatch* batch, LineError* error) const {
  const size_t first = batch->labels.size();
  while (true) {
    const char* start = cursor->at;
    uint32_t id = 0;
    const char* stop = ReadId(start, cursor->end, num_labels_, &id);
    const bool ended = stop == cursor->end || IsBlank(*stop);
    if (stop == start || !(ended || *stop == ',')) {
      error->column = cursor->Column(start);
      const absl::string_view piece = cursor->Piece(start, ",");
      error->found = piece.empty() ? "nothing" : QuoteFound(piece);
      error->expected = absl::StrCat("a label id in [0, ", num_labels_, ")");
      if (piece.find(':') != absl::string_view::npos) {
        error->expected += " (the line of a point without labels begins with a blank)";
      }
      return false;
    }
    const bool is_first = batch->labels.size() == first;
    if (!is_first && batch->labels.back().value() >= id) cursor->ascending = false;
    batch->labels.push_back(RowId(id));
    cursor->at = stop;
    if (ended) return true;
    ++cursor->at;  // the comma
  }
}

bool SparseLineParser::ParseFeature(Cursor* cursor, SparseBatch* batch, LineError* error) const {
  const char* start = cursor->at;
  uint32_t id = 0;
  const char* colon = ReadId(start, cursor->end, num_features_, &id);
  if (colon == start || colon == cursor->end || *colon != ':') {
    error->column = cursor->Column(start);
    error->found = QuoteFound(cursor->Piece(start));
    error->expected = absl::StrCat("feature:value with a feature id in [0, ", num_features_, ")");
    return false;
  }
  const absl::string_view text = cursor->Piece(colon + 1);
  float value = 0.0f;
  if (!ParseFloat(text, &value)) {
    error->column = cursor->Column(colon + 1);
    error->found = text.empty() ? "nothing" : QuoteFound(text);
    error->expected = absl::StrCat("a finite decimal number as the value of feature ", id);
    return false;
  }
  const bool is_first =
      static_cast<int64_t>(batch->features.size()) == batch->feature_offsets.back();
  if (!is_first && batch->features.back().value() >= id) cursor->ascending = false;
  batch->features.push_back(RowId(id));
  batch->values.push_back(value);
  cursor->at = text.data() + text.size();
  return true;
}

bool SparseLineParser::Parse(absl::string_view line, SparseBatch* batch, LineError* error) const {
  const int64_t first_feature = batch->feature_offsets.back();
  const int64_t first_label = batch->label_offsets.back();
  Cursor cursor{line.data(), line.data(), line.data() + line.size()};
  bool good = true;
  if (line.empty()) {
    *error = LineError{1, "an empty line", "a point"};
    good = false;
  } else if (!IsBlank(*cursor.at)) {
    good = ParseLabels(&cursor, batch, error);
  }
  while (good) {
    while (cursor.at != cursor.end && IsBlank(*cursor.at)) ++cursor.at;
    if (cursor.at == cursor.end) break;
    good = ParseFeature(&cursor, batch, error);
  }
  if (good && !cursor.ascending) good = SortSample(line, first_feature, first_label, batch, error);
  if (!good) {
    batch->features.resize(static_cast<size_t>(first_feature));
    batch->values.resize(static_cast<size_t>(first_feature));
    batch->labels.resize(static_cast<size_t>(first_label));
    return false;
  }
  batch->FinishSample();
  return true;
}

namespace {

// Finds the second mention of an id in a line that is known to be well-formed otherwise. Slow: runs
// once, for the error message.
void DescribeRepeat(absl::string_view line, LineError* error) {
  absl::flat_hash_set<int64_t> labels;
  absl::flat_hash_set<int64_t> features;
  bool in_labels = !IsBlank(line[0]);
  size_t at = 0;
  while (at < line.size()) {
    if (IsBlank(line[at])) {
      in_labels = false;
      ++at;
      continue;
    }
    size_t stop = line.find_first_of(in_labels ? ", \t" : " \t", at);
    stop = std::min(stop, line.size());
    int64_t id = 0;
    std::from_chars(line.data() + at, line.data() + stop, id);
    if (!(in_labels ? labels : features).insert(id).second) {
      error->column = static_cast<int64_t>(at) + 1;
      error->found = absl::StrCat(in_labels ? "label " : "feature ", id, " for the second time");
      error->expected =
          absl::StrCat("each ", in_labels ? "label" : "feature", " at most once in a line");
      return;
    }
    at = stop < line.size() && line[stop] == ',' ? stop + 1 : stop;
  }
}

}  // namespace

bool SparseLineParser::SortSample(absl::string_view line, int64_t first_feature,
                                  int64_t first_label, SparseBatch* batch, LineError* error) const {
  std::sort(batch->labels.begin() + first_label, batch->labels.end());
  std::vector<std::pair<RowId, float>> inputs;
  inputs.reserve(batch->features.size() - static_cast<size_t>(first_feature));
  for (size_t i = static_cast<size_t>(first_feature); i < batch->features.size(); ++i) {
    inputs.emplace_back(batch->features[i], batch->values[i]);
  }
  std::sort(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    batch->features[static_cast<size_t>(first_feature) + i] = inputs[i].first;
    batch->values[static_cast<size_t>(first_feature) + i] = inputs[i].second;
  }
  const bool repeats = std::adjacent_find(batch->labels.begin() + first_label,
                                          batch->labels.end()) != batch->labels.end() ||
                       std::adjacent_find(batch->features.begin() + first_feature,
                                          batch->features.end()) != batch->features.end();
  if (repeats) DescribeRepeat(line, error);
  return !repeats;
}

}  // namespace dslide
