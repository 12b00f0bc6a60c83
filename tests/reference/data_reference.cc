#include "tests/reference/data_reference.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>

namespace dslide::reference {
namespace {

std::vector<std::string> Split(const std::string& text, const std::string& separators) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (separators.find(c) != std::string::npos) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::vector<std::string> SplitNonEmpty(const std::string& text, const std::string& separators) {
  std::vector<std::string> parts = Split(text, separators);
  std::erase(parts, "");
  return parts;
}

bool AllDigits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

std::optional<int64_t> ParseWhole(std::string text, int64_t low, int64_t high) {
  if (!AllDigits(text)) return std::nullopt;
  text.erase(0, std::min(text.find_first_not_of('0'), text.size() - 1));
  if (text.size() > 17) return std::nullopt;
  const int64_t value = std::stoll(text);
  if (value < low || value > high) return std::nullopt;
  return value;
}

std::optional<float> ParseNumber(const std::string& text) {
  const bool negative = !text.empty() && text[0] == '-';
  const std::string magnitude = text.substr(negative ? 1 : 0);
  const size_t e = std::min(magnitude.find_first_of("eE"), magnitude.size());
  std::string mantissa = magnitude.substr(0, e);
  if (std::count(mantissa.begin(), mantissa.end(), '.') > 1) return std::nullopt;
  std::erase(mantissa, '.');
  if (!AllDigits(mantissa)) return std::nullopt;
  if (e < magnitude.size()) {
    std::string exponent = magnitude.substr(e + 1);
    if (!exponent.empty() && (exponent[0] == '-' || exponent[0] == '+')) exponent.erase(0, 1);
    if (!AllDigits(exponent)) return std::nullopt;
  }
  const float value = std::strtof(text.c_str(), nullptr);
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<SparsePoint> ParsePoint(const std::string& line, int64_t features, int64_t labels) {
  if (line.empty()) return std::nullopt;
  SparsePoint point;
  std::vector<std::string> pieces = SplitNonEmpty(line, " \t");
  if (line[0] != ' ' && line[0] != '\t') {
    std::set<uint32_t> distinct;
    const std::vector<std::string> ids = Split(pieces[0], ",");
    for (const std::string& id : ids) {
      const std::optional<int64_t> label = ParseWhole(id, 0, labels - 1);
      if (!label || !distinct.insert(static_cast<uint32_t>(*label)).second) return std::nullopt;
    }
    point.labels.assign(distinct.begin(), distinct.end());
    pieces.erase(pieces.begin());
  }
  for (const std::string& piece : pieces) {
    const size_t colon = piece.find(':');
    if (colon == std::string::npos) return std::nullopt;
    const std::optional<int64_t> id = ParseWhole(piece.substr(0, colon), 0, features - 1);
    const std::optional<float> value = ParseNumber(piece.substr(colon + 1));
    if (!id || !value) return std::nullopt;
    if (!point.features.emplace(static_cast<uint32_t>(*id), *value).second) return std::nullopt;
  }
  return point;
}

bool IsBlank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

}  // namespace

std::optional<SparseFile> ParseSparseFile(const std::string& text) {
  std::string trimmed = text;
  while (!trimmed.empty() && (trimmed.back() == '\n' || trimmed.back() == '\r')) trimmed.pop_back();
  std::vector<std::string> lines = Split(trimmed, "\n");
  for (std::string& line : lines) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
  }
  const std::vector<std::string> header = SplitNonEmpty(lines[0], " \t");
  if (header.size() != 3) return std::nullopt;
  const std::optional<int64_t> points = ParseWhole(header[0], 1, int64_t{1} << 48);
  const std::optional<int64_t> features = ParseWhole(header[1], 1, int64_t{1} << 31);
  const std::optional<int64_t> labels = ParseWhole(header[2], 1, int64_t{1} << 31);
  if (!points || !features || !labels) return std::nullopt;
  lines.erase(lines.begin());
  if (static_cast<int64_t>(lines.size()) < *points) return std::nullopt;
  SparseFile file{*points, *features, *labels, {}};
  for (int64_t i = 0; i < static_cast<int64_t>(lines.size()); ++i) {
    const std::string& line = lines[static_cast<size_t>(i)];
    if (i >= *points) {
      if (!IsBlank(line)) return std::nullopt;
      continue;
    }
    std::optional<SparsePoint> point = ParsePoint(line, *features, *labels);
    if (!point) return std::nullopt;
    file.samples.push_back(*std::move(point));
  }
  return file;
}

WordTask MakeWordTask(const std::string& text, int64_t window, int64_t min_count,
                      int64_t max_vocabulary) {
  std::map<std::string, int64_t> counts;
  for (const std::string& word : SplitNonEmpty(text, " \t\n\v\f\r")) ++counts[word];
  std::vector<std::pair<int64_t, std::string>> ranked;
  for (const auto& [word, count] : counts) {
    if (count >= min_count) ranked.emplace_back(-count, word);
  }
  std::sort(ranked.begin(), ranked.end());
  WordTask task;
  std::map<std::string, int64_t> ids;
  for (const auto& [negative_count, word] : ranked) {
    if (static_cast<int64_t>(task.vocabulary.size()) == max_vocabulary) break;
    ids[word] = static_cast<int64_t>(task.vocabulary.size());
    task.vocabulary.push_back(word);
  }
  for (const std::string& line : Split(text, "\n")) {
    std::vector<std::string> kept = SplitNonEmpty(line, " \t\v\f\r");
    std::erase_if(kept, [&](const std::string& word) { return ids.count(word) == 0; });
    const int64_t n = static_cast<int64_t>(kept.size());
    for (int64_t i = 0; i < n; ++i) {
      std::set<int64_t> near;
      for (int64_t j = std::max<int64_t>(0, i - window); j <= std::min(n - 1, i + window); ++j) {
        if (j != i) near.insert(ids[kept[static_cast<size_t>(j)]]);
      }
      WordSample sample{kept[static_cast<size_t>(i)], {}};
      for (const int64_t id : near) {
        sample.neighbours.push_back(task.vocabulary[static_cast<size_t>(id)]);
      }
      task.samples.push_back(std::move(sample));
    }
  }
  return task;
}

std::optional<std::vector<std::vector<std::string>>> ParseCsv(const std::string& text,
                                                              char delimiter, bool has_quotes) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string field;
  enum { kStart, kPlain, kQuoted, kClosed } state = kStart;
  for (size_t i = 0; i <= text.size(); ++i) {
    const bool is_end = i == text.size();
    if (is_end && state == kQuoted) return std::nullopt;
    const bool is_crlf = !is_end && text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    const bool ends_line = is_end || text[i] == '\n' || is_crlf;
    if (state == kQuoted) {
      if (text[i] == '"') {
        state = kClosed;
      } else {
        field += text[i];
      }
    } else if (ends_line) {
      if (state != kStart || !row.empty()) {
        row.push_back(field);
        rows.push_back(row);
      }
      row.clear();
      field.clear();
      state = kStart;
      if (is_crlf) ++i;
    } else if (text[i] == delimiter) {
      row.push_back(field);
      field.clear();
      state = kStart;
    } else if (has_quotes && text[i] == '"') {
      if (state == kPlain) return std::nullopt;
      if (state == kClosed) field += '"';
      state = kQuoted;
    } else if (text[i] == '\r' || state == kClosed) {
      return std::nullopt;
    } else {
      field += text[i];
      state = kPlain;
    }
  }
  return rows;
}

}  // namespace dslide::reference
