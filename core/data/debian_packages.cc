#include "core/data/debian_packages.h"

#include <dirent.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/data/content_hash.h"
#include "core/data/data_file.h"
#include "core/data/file_output.h"
#include "core/data/package_index.h"

namespace dslide {
namespace {

// Marks a package's name in a text. The words of names are features of their own: "python3" in a
// name says what a package is, in a description what it is about.
constexpr absl::string_view kNameMark = "name:";

// Words with ids by falling number of packages, then alphabetically.
struct Ranking {
  std::vector<std::string> names;
  absl::flat_hash_map<std::string, uint32_t> ids;
};

using WordCounts = absl::flat_hash_map<std::string, int64_t>;

// Keeps names with a count of at most `max_count`, then the `max_size` most frequent.
Ranking Rank(const WordCounts& counts, int64_t max_count, int64_t max_size) {
  std::vector<std::pair<int64_t, std::string>> ranked;
  for (const auto& [name, count] : counts) {
    if (count <= max_count) ranked.emplace_back(-count, name);
  }
  std::sort(ranked.begin(), ranked.end());
  if (static_cast<int64_t>(ranked.size()) > max_size) {
    ranked.resize(static_cast<size_t>(max_size));
  }
  Ranking ranking;
  for (auto& [negative_count, name] : ranked) {
    ranking.ids.emplace(name, static_cast<uint32_t>(ranking.names.size()));
    ranking.names.push_back(std::move(name));
  }
  return ranking;
}

// Whether a package is for testing: by its name alone, so that it stays so in a later index.
bool IsTest(const std::string& name, int64_t one_in) {
  return HashContent(0, name) % static_cast<uint64_t>(one_in) == 0;
}

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

// A package as the data set sees it.
struct Point {
  std::vector<std::string> words;  // of description and name, repeats kept
  std::vector<std::string> labels;
  bool is_test = false;
};

std::vector<Point> MakePoints(std::vector<PackageParagraph> packages, int64_t test_one_in) {
  std::vector<Point> points(packages.size());
  for (size_t i = 0; i < packages.size(); ++i) {
    points[i].words =
        DescriptionWords(absl::StrCat(packages[i].description, " ", kNameMark, packages[i].name));
    points[i].labels = std::move(packages[i].dependencies);
    points[i].is_test = IsTest(packages[i].name, test_one_in);
  }
  return points;
}

// Drops labels that are too frequent, then points without a label.
Ranking RankLabels(double max_fraction, DebianPackagesReport* report, std::vector<Point>* points) {
  WordCounts counts;
  for (const Point& point : *points) {
    for (const std::string& label : point.labels) ++counts[label];
  }
  const int64_t max_count =
      static_cast<int64_t>(max_fraction * static_cast<double>(points->size()));
  Ranking labels = Rank(counts, max_count, static_cast<int64_t>(counts.size()));
  report->labels_left_out =
      static_cast<int64_t>(counts.size()) - static_cast<int64_t>(labels.names.size());
  for (Point& point : *points) {
    std::erase_if(point.labels, [&](const std::string& l) { return !labels.ids.contains(l); });
  }
  std::erase_if(*points, [](const Point& point) { return point.labels.empty(); });
  return labels;
}

// The vocabulary is the training part's: a test word that no training package has teaches nothing.
Ranking RankWords(int64_t max_features, const std::vector<Point>& points) {
  WordCounts counts;
  for (const Point& point : points) {
    if (point.is_test) continue;
    const absl::flat_hash_set<absl::string_view> distinct(point.words.begin(), point.words.end());
    for (const absl::string_view word : distinct) ++counts[word];
  }
  return Rank(counts, static_cast<int64_t>(points.size()), max_features);
}

// One line of the sparse text format and how many ids it holds.
struct EncodedPoint {
  std::string line;
  int64_t features = 0;
  int64_t labels = 0;
};

EncodedPoint Encode(const Point& point, const Ranking& words, const Ranking& labels) {
  std::vector<uint32_t> label_ids;
  for (const std::string& label : point.labels) label_ids.push_back(labels.ids.at(label));
  std::sort(label_ids.begin(), label_ids.end());
  std::vector<uint32_t> word_ids;
  for (const std::string& word : point.words) {
    const auto found = words.ids.find(word);
    if (found != words.ids.end()) word_ids.push_back(found->second);
  }
  std::sort(word_ids.begin(), word_ids.end());

  EncodedPoint encoded;
  for (const uint32_t id : label_ids) {
    absl::StrAppend(&encoded.line, encoded.labels++ == 0 ? "" : ",", id);
  }
  for (size_t i = 0; i < word_ids.size();) {
    size_t next = i;
    while (next < word_ids.size() && word_ids[next] == word_ids[i]) ++next;
    absl::StrAppend(&encoded.line, " ", word_ids[i], ":", next - i);
    ++encoded.features;
    i = next;
  }
  encoded.line += '\n';
  return encoded;
}

absl::Status WriteNames(const std::string& path, const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  for (const std::string& name : names) RETURN_IF_ERROR(out.Append(absl::StrCat(name, "\n")));
  return out.Commit();
}

absl::Status WritePoints(const std::string& path, const std::vector<EncodedPoint>& points,
                         const DebianPackagesReport& report) {
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  RETURN_IF_ERROR(
      out.Append(absl::StrCat(points.size(), " ", report.features, " ", report.labels, "\n")));
  for (const EncodedPoint& point : points) RETURN_IF_ERROR(out.Append(point.line));
  return out.Commit();
}

absl::Status WriteReadme(const std::string& path, const std::vector<std::string>& index_files,
                         const DebianPackagesOptions& options, const DebianPackagesReport& report) {
  std::string text = absl::StrFormat(
      "debian-packages: words of a package's description -> the packages it needs\n\n"
      "A point is a package of the apt index. Its features are the words of its short description\n"
      "and, marked with name:, of its name (value = how often the word occurs); its labels are "
      "the\n"
      "packages that it\n"
      "Depends on or Recommends: the first of alternatives, without version and architecture.\n"
      "Names that no package of the index bears (virtual ones) are labels too. Left out: labels "
      "on\n"
      "more than %g %% of the packages, then packages without a label or without a known word.\n"
      "One package in %d, chosen by a hash of its name, is for testing; the %d most frequent "
      "words\n"
      "of the others are the features. Ids are by falling frequency, then alphabetical.\n\n"
      "train.txt, test.txt: sparse text (points features labels; label,... feature:value ...)\n"
      "features.txt, labels.txt: one name a line, id 0 first\n\n",
      options.max_label_fraction * 100.0, options.test_one_in, options.max_features);
  absl::StrAppendFormat(
      &text,
      "packages in the index   %d\ntraining points         %d\ntest points             %d\n"
      "features                %d\nlabels                  %d\nlabels left out         %d\n"
      "features per point      %.2f\nlabels per point        %.2f\n\nMade from:\n",
      report.packages, report.train_points, report.test_points, report.features, report.labels,
      report.labels_left_out, report.features_per_point, report.labels_per_point);
  for (const std::string& file : index_files) absl::StrAppend(&text, "  ", file, "\n");
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  RETURN_IF_ERROR(out.Append(text));
  return out.Commit();
}

absl::Status CheckPackageOptions(const DebianPackagesOptions& options) {
  if (options.output_dir.empty()) {
    return absl::InvalidArgumentError("no output directory for the Debian package set");
  }
  if (options.max_features < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_features ", options.max_features, " is below 1"));
  }
  if (!(options.max_label_fraction > 0.0 && options.max_label_fraction <= 1.0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_label_fraction ", options.max_label_fraction, " is outside (0, 1]"));
  }
  if (options.test_one_in < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("test_one_in ", options.test_one_in, " is below 2"));
  }
  return absl::OkStatus();
}

absl::Status WriteSets(const DebianPackagesOptions& options, const std::vector<Point>& points,
                       const Ranking& words, const Ranking& labels, DebianPackagesReport* report) {
  std::vector<EncodedPoint> encoded(points.size());
  ParallelFor(options.parallelism, static_cast<int64_t>(points.size()), 256, [&](int64_t i, int) {
    encoded[static_cast<size_t>(i)] = Encode(points[static_cast<size_t>(i)], words, labels);
  });
  std::vector<EncodedPoint> train;
  std::vector<EncodedPoint> test;
  int64_t feature_total = 0;
  int64_t label_total = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    if (encoded[i].features == 0) continue;
    feature_total += encoded[i].features;
    label_total += encoded[i].labels;
    (points[i].is_test ? test : train).push_back(std::move(encoded[i]));
  }
  report->train_points = static_cast<int64_t>(train.size());
  report->test_points = static_cast<int64_t>(test.size());
  if (train.empty() || test.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the index in ", options.lists_dir, " has too few packages: ", train.size(),
                     " for training and ", test.size(), " for testing"));
  }
  const double total = static_cast<double>(train.size() + test.size());
  report->features_per_point = static_cast<double>(feature_total) / total;
  report->labels_per_point = static_cast<double>(label_total) / total;
  RETURN_IF_ERROR(WriteNames(options.output_dir + "/features.txt", words.names));
  RETURN_IF_ERROR(WriteNames(options.output_dir + "/labels.txt", labels.names));
  RETURN_IF_ERROR(WritePoints(options.output_dir + "/train.txt", train, *report));
  return WritePoints(options.output_dir + "/test.txt", test, *report);
}

}  // namespace

absl::StatusOr<DebianPackagesReport> BuildDebianPackages(const DebianPackagesOptions& options) {
  RETURN_IF_ERROR(CheckPackageOptions(options));
  ASSIGN_OR_RETURN(const std::vector<std::string> index_files, ListPackageIndex(options.lists_dir));
  ASSIGN_OR_RETURN(std::vector<PackageParagraph> packages,
                   ReadPackageIndex(options.lists_dir, index_files, options.parallelism));
  std::error_code error;
  std::filesystem::create_directories(options.output_dir, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the directory ", options.output_dir, ": ", error.message()));
  }
  DebianPackagesReport report;
  report.index_files = static_cast<int64_t>(index_files.size());
  report.packages = static_cast<int64_t>(packages.size());
  std::vector<Point> points = MakePoints(std::move(packages), options.test_one_in);
  const Ranking labels = RankLabels(options.max_label_fraction, &report, &points);
  const Ranking words = RankWords(options.max_features, points);
  report.features = static_cast<int64_t>(words.names.size());
  report.labels = static_cast<int64_t>(labels.names.size());
  RETURN_IF_ERROR(WriteSets(options, points, words, labels, &report));
  RETURN_IF_ERROR(WriteReadme(options.output_dir + "/README.txt", index_files, options, report));
  return report;
}

bool HasDebianPackageIndex(const std::string& lists_dir) {
  return ListPackageIndex(lists_dir).ok();
}

std::vector<std::string> DescriptionWords(absl::string_view text) {
  std::vector<std::string> words;
  for (absl::string_view token : absl::StrSplit(text, absl::ByAnyChar(" \t\r\n"))) {
    const bool is_name = absl::ConsumePrefix(&token, kNameMark);
    AppendWords(token, is_name ? kNameMark : "", &words);
  }
  return words;
}

}  // namespace dslide
