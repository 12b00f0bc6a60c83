#include "core/engine/data/sources/debian_set.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"
#include "core/engine/data/text/description_words.h"
#include "core/engine/data/text/tokenizer_json.h"
#include "core/system/content_hash.h"

namespace dslide {
namespace {

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

// Drops labels that the plan leaves out, then points without a label.
Ranking RankLabels(const DebianSetPlan& plan, DebianSetReport* report,
                   std::vector<DescribedPoint>* points) {
  WordCounts counts;
  for (const DescribedPoint& point : *points) {
    if (plan.labels_of_training && point.is_test) continue;
    for (const std::string& label : point.labels) ++counts[label];
  }
  Ranking labels = Rank(counts, plan.max_label_points, static_cast<int64_t>(counts.size()));
  report->labels_left_out =
      static_cast<int64_t>(counts.size()) - static_cast<int64_t>(labels.names.size());
  for (DescribedPoint& point : *points) {
    std::erase_if(point.labels, [&](const std::string& l) { return !labels.ids.contains(l); });
  }
  std::erase_if(*points, [](const DescribedPoint& point) { return point.labels.empty(); });
  return labels;
}

// The vocabulary is the training part's: a test word that no training package has teaches nothing.
Ranking RankWords(int64_t max_features, const std::vector<DescribedPoint>& points) {
  WordCounts counts;
  for (const DescribedPoint& point : points) {
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

EncodedPoint Encode(const DescribedPoint& point, const Ranking& words, const Ranking& labels) {
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

absl::Status WriteText(const std::string& path, absl::string_view text) {
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  RETURN_IF_ERROR(out.Append(text));
  return out.Commit();
}

absl::Status WriteNames(const std::string& path, const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  for (const std::string& name : names) RETURN_IF_ERROR(out.Append(absl::StrCat(name, "\n")));
  return out.Commit();
}

absl::Status WritePoints(const std::string& path, const std::vector<EncodedPoint>& points,
                         const DebianSetReport& report) {
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  RETURN_IF_ERROR(
      out.Append(absl::StrCat(points.size(), " ", report.features, " ", report.labels, "\n")));
  for (const EncodedPoint& point : points) RETURN_IF_ERROR(out.Append(point.line));
  return out.Commit();
}

absl::Status WriteReadme(const std::string& path, const DebianSetPlan& plan,
                         const DebianSetReport& report) {
  std::string text = plan.about;
  if (plan.groups) {
    absl::StrAppend(&text, "groups.txt: one line a training point, its source package\n");
  }
  absl::StrAppendFormat(
      &text,
      "\npackages in the index   %d\ntraining points         %d\ntest points             %d\n"
      "features                %d\nlabels                  %d\nlabels left out         %d\n"
      "features per point      %.2f\nlabels per point        %.2f\n\nMade from:\n",
      report.packages, report.train_points, report.test_points, report.features, report.labels,
      report.labels_left_out, report.features_per_point, report.labels_per_point);
  for (const std::string& file : plan.made_from) absl::StrAppend(&text, "  ", file, "\n");
  return WriteText(path, text);
}

// Splits the points that have a known word into the files.
absl::Status WriteParts(const DebianSetOptions& options, const DebianSetPlan& plan,
                        const std::vector<DescribedPoint>& points, const Ranking& words,
                        const Ranking& labels, DebianSetReport* report) {
  std::vector<EncodedPoint> encoded(points.size());
  ParallelFor(options.parallelism, static_cast<int64_t>(points.size()), 256, [&](int64_t i, int) {
    encoded[static_cast<size_t>(i)] = Encode(points[static_cast<size_t>(i)], words, labels);
  });
  std::vector<EncodedPoint> train;
  std::vector<EncodedPoint> test;
  std::vector<std::string> groups;
  int64_t feature_total = 0;
  int64_t label_total = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    if (encoded[i].features == 0) continue;
    feature_total += encoded[i].features;
    label_total += encoded[i].labels;
    if (!points[i].is_test) groups.push_back(points[i].source);
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
  report->groups = plan.groups;
  RETURN_IF_ERROR(WriteNames(options.output_dir + "/features.txt", words.names));
  RETURN_IF_ERROR(WriteNames(options.output_dir + "/labels.txt", labels.names));
  RETURN_IF_ERROR(WriteText(absl::StrCat(options.output_dir, "/", kTokenizerFile),
                            TokenizerToJson({.kind = TokenizerKind::kDescriptions})));
  if (plan.groups) RETURN_IF_ERROR(WriteNames(options.output_dir + "/groups.txt", groups));
  RETURN_IF_ERROR(WritePoints(options.output_dir + "/train.txt", train, *report));
  return WritePoints(options.output_dir + "/test.txt", test, *report);
}

}  // namespace

DescribedPoint DescribePackage(const PackageParagraph& package) {
  DescribedPoint point;
  point.words = DescriptionWords(absl::StrCat(package.description, " ", kNameMark, package.name));
  point.source = package.source;
  return point;
}

bool IsTestName(absl::string_view name, int64_t one_in) {
  return HashContent(0, name) % static_cast<uint64_t>(one_in) == 0;
}

absl::Status WriteDebianSet(const DebianSetOptions& options, const DebianSetPlan& plan,
                            std::vector<DescribedPoint> points, DebianSetReport* report) {
  std::error_code error;
  std::filesystem::create_directories(options.output_dir, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the directory ", options.output_dir, ": ", error.message()));
  }
  const Ranking labels = RankLabels(plan, report, &points);
  const Ranking words = RankWords(options.max_features, points);
  report->features = static_cast<int64_t>(words.names.size());
  report->labels = static_cast<int64_t>(labels.names.size());
  RETURN_IF_ERROR(WriteParts(options, plan, points, words, labels, report));
  return WriteReadme(options.output_dir + "/README.txt", plan, *report);
}

absl::Status CheckDebianSetOptions(const DebianSetOptions& options) {
  if (options.output_dir.empty()) {
    return absl::InvalidArgumentError("no output directory for the Debian package set");
  }
  if (options.max_features < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_features ", options.max_features, " is below 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckTestOneIn(int64_t test_one_in) {
  if (test_one_in >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("test_one_in ", test_one_in, " is below 2"));
}

absl::Status CheckLabelFraction(double max_label_fraction) {
  if (max_label_fraction > 0.0 && max_label_fraction <= 1.0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("max_label_fraction ", max_label_fraction, " is outside (0, 1]"));
}

}  // namespace dslide
