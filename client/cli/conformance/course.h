// What a client is asked to do by `dslide conformance`: models, rows, queries, a training. The same
// every time, so that a mistake comes again.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/cli/conformance/verdicts.h"
#include "core/base/ids.h"
#include "core/protocol/replies.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// Shares of the slots of the course's shards: unequal, so that nobody owns a row by its number.
inline constexpr double kCourseShards[] = {1.0, 2.0, 1.0};
inline constexpr int64_t kCourseDim = 12;  // of all rows but those of the networks
inline constexpr int64_t kCourseTopK = kCourseDim;

// Rows of the table of answers: what a client has found out is what it assigns to them.
inline constexpr uint32_t kGatherAnswers = 0;
inline constexpr uint32_t kFirstRowAnswers = 100;
inline constexpr uint32_t kTopKAnswers = 200;

struct CourseNet {
  Chapter chapter = Chapter::kTraining;  // what it is about
  ModelSpec spec;
  std::string job;
};

struct Course {
  ModelSpec rows;               // tables "features" and "labels"
  ModelSpec answers;            // table "answers", of zeros
  std::vector<CourseNet> nets;  // two for the training, one for each further chapter
  std::string points;           // sparse text, for all nets
  // Features to read, in any order and some of them twice: answers kGatherAnswers + i.
  std::vector<RowId> gather;
  // Labels to add to, one scatter each, in any order and some of them twice; biases are zeros.
  std::vector<RowBlock> scatters;
  // Features whose first values are to be computed: answers kFirstRowAnswers + i.
  std::vector<RowId> first_rows;
  // [n, kCourseDim]: queries of labels, after the scatters; the ids of each one's kCourseTopK best
  // are answer kTopKAnswers + i.
  std::vector<float> queries;

  int64_t num_queries() const { return static_cast<int64_t>(queries.size()) / kCourseDim; }
  // Null when the course has no such model.
  const ModelSpec* FindModel(absl::string_view name) const;
};

Course MakeCourse();

// Errors: InvalidArgument when none of the chapters has a task, which names those that have.
absl::Status CheckHasTask(const ChapterSet& chapters);

// Writes course.json, which says what is to be done for these chapters, and the files that it
// names: the points and the specs of the nets. Errors: those of the system.
absl::Status WriteCourse(const Course& course, const ChapterSet& chapters,
                         const std::string& coordinator, const std::string& directory);

}  // namespace dslide::cli
