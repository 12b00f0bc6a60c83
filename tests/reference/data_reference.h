// Readers of the data formats, written from their description alone: slow, whole in memory, one
// thread, no shared code with core/data.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dslide::reference {

// One point of the sparse text format.
struct SparsePoint {
  std::vector<uint32_t> labels;        // ascending
  std::map<uint32_t, float> features;  // id -> value
};

struct SparseFile {
  int64_t points = 0;
  int64_t features = 0;
  int64_t labels = 0;
  std::vector<SparsePoint> samples;  // [points]
};

// Nothing when the text is malformed anywhere.
std::optional<SparseFile> ParseSparseFile(const std::string& text);

// One point of the word-neighbour task.
struct WordSample {
  std::string word;
  std::vector<std::string> neighbours;  // distinct, by vocabulary id
};

struct WordTask {
  std::vector<std::string> vocabulary;  // by id
  std::vector<WordSample> samples;
};

WordTask MakeWordTask(const std::string& text, int64_t window, int64_t min_count,
                      int64_t max_vocabulary);

// The rows of comma-separated values. Nothing when the text is malformed anywhere.
std::optional<std::vector<std::vector<std::string>>> ParseCsv(const std::string& text,
                                                              char delimiter, bool has_quotes);

}  // namespace dslide::reference
