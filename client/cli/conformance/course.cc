#include "client/cli/conformance/course.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/spec/model_spec_json.h"
#include "services/common/files/durable_files.h"

namespace dslide::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kCourseSeed = 20261127;
constexpr int64_t kFeatures = 500;
constexpr int64_t kLabels = 300;
constexpr int64_t kPoints = 300;
constexpr int kScatters = 4;

TableSpec CourseTable(const char* name, TableRole role, int64_t rows, int64_t dim, int64_t slots) {
  TableSpec table;
  table.name = name;
  table.role = role;
  table.rows = rows;
  table.dim = dim;
  table.num_slots = slots;
  return table;
}

ModelSpec RowsModel() {
  ModelSpec model;
  model.name = "course-rows";
  model.seed = 4711;
  model.tables = {CourseTable("features", TableRole::kEmbedding, 5000, kCourseDim, 61),
                  CourseTable("labels", TableRole::kHead, 4000, kCourseDim, 128)};
  model.tables[1].init.kind = InitKind::kUniform;
  return model;
}

ModelSpec AnswersModel() {
  ModelSpec model;
  model.name = "course-answers";
  model.tables = {CourseTable("answers", TableRole::kEmbedding, 300, kCourseDim, 16)};
  model.tables[0].init.kind = InitKind::kZero;
  return model;
}

CourseNet Net(const char* name, HashFamilyKind family, ActivationType activations) {
  CourseNet net;
  ModelSpec& spec = net.spec;
  spec.name = name;
  spec.seed = 97;
  spec.activations = activations;
  spec.tables = {CourseTable("input", TableRole::kEmbedding, kFeatures + 1, 16, 1024),
                 CourseTable("labels", TableRole::kHead, kLabels, 16, 128)};
  spec.tables[0].bias_row = true;
  for (TableSpec& table : spec.tables) {
    table.optimizer.learning_rate = 0.02;
    table.optimizer.schedule.warmup_steps = 8;
  }
  HeadSpec& head = spec.tables[1].head;
  head.max_active = 60;
  head.tail_rows = 32;
  head.hash.family = family;
  spec.training.batch_size = 32;
  spec.training.in_flight_steps = 1;
  spec.training.max_epochs = 2;
  spec.training.chunk_samples = 64;
  spec.training.validation_fraction = 0.0;
  spec.training.patience_epochs = 0;
  spec.training.order_seed = 1234567890123;
  net.job = absl::StrCat("train-", name);
  return net;
}

// Two layers between the embedding and the head; only what the head is given is rounded.
CourseNet DenseNet() {
  CourseNet net = Net("course-dense", HashFamilyKind::kSimHash, ActivationType::kBf16);
  net.chapter = Chapter::kDense;
  std::vector<TableSpec>& tables = net.spec.tables;
  TableSpec first = CourseTable("first", TableRole::kDense, 12, 16, 16);
  first.optimizer = tables[0].optimizer;
  TableSpec second = CourseTable("second", TableRole::kDense, 16, 12, 16);
  second.optimizer = tables[0].optimizer;
  second.optimizer.learning_rate = 0.01;
  tables.insert(tables.begin() + 1, {first, second});
  return net;
}

CourseNet DropoutNet() {
  CourseNet net = Net("course-dropout", HashFamilyKind::kSimHash, ActivationType::kF32);
  net.chapter = Chapter::kDropout;
  net.spec.training.input_dropout = 0.2;
  net.spec.training.hidden_dropout = 0.3;
  return net;
}

// Every row is active: nothing is hashed.
CourseNet SigmoidNet() {
  CourseNet net = Net("course-sigmoid", HashFamilyKind::kSimHash, ActivationType::kBf16);
  net.chapter = Chapter::kSigmoid;
  net.spec.tables[1].head.loss = HeadLoss::kSigmoid;
  net.spec.tables[1].head.max_active = 0;
  net.spec.tables[1].head.tail_rows = 0;
  return net;
}

std::vector<RowId> SomeRows(CounterRng& rng, int count, uint64_t rows) {
  std::vector<RowId> ids;
  for (int i = 0; i < count; ++i) ids.emplace_back(static_cast<uint32_t>(rng.NextBelow(rows)));
  return ids;
}

RowBlock SomeChanges(CounterRng& rng, uint64_t rows) {
  RowBlock block;
  block.dim = kCourseDim;
  block.rows = SomeRows(rng, 60, rows);
  block.rows.insert(block.rows.end(), block.rows.begin(), block.rows.begin() + 6);
  for (size_t i = 0; i < block.rows.size() * kCourseDim; ++i) {
    // Sums of a few are exact, in whatever order they are added.
    block.values.push_back(static_cast<float>(static_cast<int64_t>(rng.NextBelow(17)) - 8));
  }
  block.biases.assign(block.rows.size(), 0.0f);
  return block;
}

// Labels follow from the features, so that there is something to learn.
std::string Points(CounterRng& rng) {
  std::string text = absl::StrCat(kPoints, " ", kFeatures, " ", kLabels, "\n");
  for (int64_t point = 0; point < kPoints; ++point) {
    std::vector<uint64_t> features;
    uint64_t feature = rng.NextBelow(40);
    while (feature < kFeatures) {
      features.push_back(feature);
      feature += 1 + rng.NextBelow(90);
    }
    const uint64_t label = features.front() % 40;
    absl::StrAppend(&text, label);
    for (uint64_t more = rng.NextBelow(3), next = label; more > 0; --more) {
      next += 1 + rng.NextBelow(100);
      absl::StrAppend(&text, ",", next);
    }
    for (const uint64_t id : features) {
      absl::StrAppend(&text, " ", id, ":", 1 + rng.NextBelow(7), ".", rng.NextBelow(2) * 5);
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

Json Ids(absl::Span<const RowId> rows) {
  Json ids = Json::array();
  for (const RowId row : rows) ids.push_back(row.value());
  return ids;
}

Json Matrix(absl::Span<const float> values) {
  Json rows = Json::array();
  for (size_t first = 0; first < values.size(); first += kCourseDim) {
    const auto row = values.subspan(first, kCourseDim);
    rows.push_back(std::vector<float>(row.begin(), row.end()));
  }
  return rows;
}

Json Task(const char* what, const ModelSpec& model, size_t table) {
  return {{"do", what}, {"model", model.name}, {"table", model.tables[table].name}};
}

Json Tasks(const Course& course, const ChapterSet& chapters) {
  Json tasks = Json::array();
  const auto add = [&](Chapter chapter, Json task) {
    if (chapters.has(chapter)) tasks.push_back(std::move(task));
  };
  const auto answers = [&](uint32_t first) -> Json {
    return {{"model", course.answers.name}, {"table", "answers"}, {"first_row", first}};
  };
  Json task = Task("gather", course.rows, 0);
  task["rows"] = Ids(course.gather);
  task["answers"] = answers(kGatherAnswers);
  add(Chapter::kGather, std::move(task));
  for (const RowBlock& scatter : course.scatters) {
    task = Task("scatter", course.rows, 1);
    task["mode"] = "add";
    task["rows"] = Ids(scatter.rows);
    task["values"] = Matrix(scatter.values);
    add(Chapter::kScatter, std::move(task));
  }
  task = Task("first_rows", course.rows, 0);
  task["rows"] = Ids(course.first_rows);
  task["answers"] = answers(kFirstRowAnswers);
  add(Chapter::kFirstRows, std::move(task));
  for (const CourseNet& net : course.nets) {
    add(net.chapter, {{"do", "train"},
                      {"model", net.spec.name},
                      {"job", net.job},
                      {"spec", net.spec.name + ".json"},
                      {"points", "points.txt"}});
  }
  task = Task("top_k", course.rows, 1);
  task["mode"] = "exact";
  task["k"] = kCourseTopK;
  task["queries"] = Matrix(course.queries);
  task["answers"] = answers(kTopKAnswers);
  add(Chapter::kTopK, std::move(task));
  return tasks;
}

}  // namespace

const ModelSpec* Course::FindModel(absl::string_view name) const {
  if (name == rows.name) return &rows;
  if (name == answers.name) return &answers;
  for (const CourseNet& net : nets) {
    if (name == net.spec.name) return &net.spec;
  }
  return nullptr;
}

Course MakeCourse() {
  CounterRng rng(kCourseSeed);
  Course course;
  course.rows = RowsModel();
  course.answers = AnswersModel();
  course.nets = {Net("course-simhash", HashFamilyKind::kSimHash, ActivationType::kBf16),
                 Net("course-dwta", HashFamilyKind::kDwta, ActivationType::kF32), DenseNet(),
                 DropoutNet(), SigmoidNet()};
  course.points = Points(rng);
  course.gather = SomeRows(rng, 40, 5000);
  course.gather.insert(course.gather.end(), course.gather.begin(), course.gather.begin() + 4);
  for (int i = 0; i < kScatters; ++i) course.scatters.push_back(SomeChanges(rng, 4000));
  course.first_rows = SomeRows(rng, 40, 5000);
  for (int64_t i = 0; i < 6 * kCourseDim; ++i) {
    course.queries.push_back(static_cast<float>(static_cast<int64_t>(rng.NextBelow(65)) - 32) / 16);
  }
  return course;
}

absl::Status CheckHasTask(const ChapterSet& chapters) {
  constexpr Chapter kWithTasks[] = {Chapter::kGather,  Chapter::kScatter,  Chapter::kFirstRows,
                                    Chapter::kTopK,    Chapter::kTraining, Chapter::kDense,
                                    Chapter::kDropout, Chapter::kSigmoid};
  std::string names;
  for (const Chapter chapter : kWithTasks) {
    if (chapters.has(chapter)) return absl::OkStatus();
    absl::StrAppend(&names, names.empty() ? "" : ", ", ChapterName(chapter));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--chapters: these look at what a client does for others; add at least one of ", names));
}

absl::Status WriteCourse(const Course& course, const ChapterSet& chapters,
                         const std::string& coordinator, const std::string& directory) {
  Json json;
  json["coordinator"] = coordinator;
  json["models"] = {Json::parse(ModelSpecToJson(course.rows)),
                    Json::parse(ModelSpecToJson(course.answers))};
  json["tasks"] = Tasks(course, chapters);
  RETURN_IF_ERROR(MakeDirectory(directory));
  RETURN_IF_ERROR(ReplaceFile(directory + "/points.txt", course.points));
  for (const CourseNet& net : course.nets) {
    if (!chapters.has(net.chapter)) continue;
    RETURN_IF_ERROR(ReplaceFile(absl::StrCat(directory, "/", net.spec.name, ".json"),
                                ModelSpecToJson(net.spec)));
  }
  // Last: who waits for it finds the others.
  return ReplaceFile(directory + "/course.json", json.dump(1) + "\n");
}

}  // namespace dslide::cli
