#include "client/cli/conformance/rows_check.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "client/cpp/row_slices.h"
#include "core/base/bfloat16.h"
#include "core/engine/rows/row_init.h"
#include "core/wire/arrays/array_codec.h"
#include "core/wire/row_codec.h"

namespace dslide::cli {
namespace {

constexpr char kBulk[] = "scatter-and-gather-in-chunks";
constexpr char kPrediction[] = "prediction";
constexpr int kShards = static_cast<int>(std::size(kCourseShards));
constexpr size_t kNoQuery = static_cast<size_t>(-1);

const TableSpec* FindTable(const Course& course, const std::string& model,
                           const std::string& table) {
  const ModelSpec* const spec = course.FindModel(model);
  return spec == nullptr ? nullptr : spec->FindTable(table);
}

std::vector<RowId> Ascending(std::vector<RowId> rows) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

// The query that a row of a request is, in the type in which it travels.
size_t QueryOf(const Course& course, absl::Span<const float> row, bool bf16) {
  for (int64_t query = 0; query < course.num_queries(); ++query) {
    bool same = true;
    for (int64_t c = 0; same && c < kCourseDim; ++c) {
      const float wanted = course.queries[query * kCourseDim + c];
      same = row[c] == (bf16 ? ToFloat(ToBFloat16(wanted)) : wanted);
    }
    if (same) return static_cast<size_t>(query);
  }
  return kNoQuery;
}

}  // namespace

RowsCheck::RowsCheck(const Course& course, const CourseSlots& slots, uint64_t topology_version,
                     Verdicts& verdicts)
    : course_(course),
      slots_(slots),
      topology_version_(topology_version),
      verdicts_(verdicts),
      scatters_(kShards) {}

void RowsCheck::Tell(const Place& place, std::string field, std::string found,
                     std::string expected) {
  verdicts_.Add({.chapter = place.chapter,
                 .call = place.call,
                 .where = absl::StrCat("shard ", place.shard),
                 .field = std::move(field),
                 .found = std::move(found),
                 .expected = std::move(expected),
                 .section = place.section});
}

void RowsCheck::Gather(int shard, const v1::GatherRequest& request) {
  const absl::MutexLock lock(&mu_);
  const Place place{
      .chapter = Chapter::kGather, .call = "Gather", .shard = shard, .section = kBulk};
  const TableSpec* const table = FindTable(course_, request.model(), request.table());
  if (table == nullptr || request.has_fingerprints()) return;
  if (request.topology_version() != topology_version_) {
    Tell(place, "topology_version", absl::StrCat(request.topology_version()),
         absl::StrCat(topology_version_, ", that of the cluster map by which rows are sliced"));
  }
  const auto rows = wire::DecodeAscendingRowIds("rows.row_ids", request.rows().row_ids(),
                                                wire::Count::AtMost(wire::kMaxBulkRows));
  if (!rows.ok()) {
    Tell(place, "rows.row_ids", std::string(rows.status().message()),
         "u32, little-endian, strictly ascending: sorted, equal ids once");
    return;
  }
  slots_.CheckOwner(
      *table, shard, *rows,
      {.call = "Gather", .where = absl::StrCat("shard ", shard), .field = "rows.row_ids"},
      verdicts_);
  if (request.model() != course_.rows.name || request.table() != "features") return;
  verdicts_.Saw(Chapter::kGather);
  const std::vector<RowId> wanted = Ascending(course_.gather);
  for (const RowId row : *rows) {
    if (!std::binary_search(wanted.begin(), wanted.end(), row)) {
      Tell(place, "rows.row_ids", absl::StrCat("row ", row.value()),
           absl::StrCat("of ", ListOf(wanted), ", those that the course asks for"));
      return;
    }
    gathered_.insert(row);
  }
}

std::optional<RowBlock> RowsCheck::Joined(const Place& place,
                                          absl::Span<const v1::ScatterRequest> messages) {
  RowBlock joined;
  for (const v1::ScatterRequest& message : messages) {
    auto block =
        wire::DecodeRowBlock("rows", message.rows(), wire::kMaxBulkRows, wire::Floats::kBounded);
    if (!block.ok()) {
      Tell(place, "rows", std::string(block.status().message()),
           "ids strictly ascending (sorted, equal ones added up), as many values, a bias for each "
           "row of a head");
      return std::nullopt;
    }
    if (!joined.rows.empty() && !block->rows.empty() && block->rows.front() <= joined.rows.back()) {
      Tell(place, "rows.row_ids",
           absl::StrCat(block->rows.front().value(), " in a message behind ",
                        joined.rows.back().value()),
           "ids that ascend strictly over the whole call");
      return std::nullopt;
    }
    joined.dim = block->dim;
    joined.rows.insert(joined.rows.end(), block->rows.begin(), block->rows.end());
    joined.values.insert(joined.values.end(), block->values.begin(), block->values.end());
    joined.biases.insert(joined.biases.end(), block->biases.begin(), block->biases.end());
  }
  return joined;
}

void RowsCheck::Scatter(int shard, absl::Span<const v1::ScatterRequest> messages) {
  const absl::MutexLock lock(&mu_);
  const Place place{
      .chapter = Chapter::kScatter, .call = "Scatter", .shard = shard, .section = kBulk};
  const v1::ScatterRequest& first = messages.front();
  const TableSpec* const table = FindTable(course_, first.envelope().model(), first.table());
  if (table == nullptr) return;
  verdicts_.Saw(Chapter::kScatter);
  const std::optional<RowBlock> found = Joined(place, messages);
  if (!found.has_value()) return;
  slots_.CheckOwner(
      *table, shard, found->rows,
      {.call = "Scatter", .where = absl::StrCat("shard ", shard), .field = "rows.row_ids"},
      verdicts_);
  if (first.total_rows() != static_cast<int64_t>(found->rows.size())) {
    Tell(place, "total_rows", absl::StrCat(first.total_rows()),
         absl::StrCat(found->rows.size(),
                      ", the rows of all messages of the call: without it a "
                      "call that was cut short cannot be told from a whole one"));
  }
  if (first.envelope().model() == course_.answers.name) {
    CheckAnswers(shard, first.mode(), *found);
  } else if (first.envelope().model() == course_.rows.name && first.table() == "labels") {
    CheckChange(place, messages, *found);
  }
}

void RowsCheck::CheckChange(const Place& place, absl::Span<const v1::ScatterRequest> messages,
                            const RowBlock& found) {
  const size_t number = scatters_[place.shard]++;
  if (number >= course_.scatters.size()) {
    Tell(place, "rows", absl::StrCat("scatter ", number + 1, " to table labels on this shard"),
         absl::StrCat(course_.scatters.size(), " scatters, one for each task of the course"));
    return;
  }
  const SlotMap& map = slots_.of(course_.rows.tables[1]);
  const auto parts = SliceBlock(map, course_.scatters[number], /*sum_duplicates=*/true);
  if (!parts.ok()) return;
  const RowBlock& wanted = (*parts)[place.shard];
  const std::string task = absl::StrCat("scatter ", number + 1, ": ");
  if (messages.front().mode() != v1::SCATTER_MODE_ADD) {
    Tell(place, "mode", task + v1::ScatterMode_Name(messages.front().mode()), "SCATTER_MODE_ADD");
  }
  if (found.rows != wanted.rows) {
    Tell(place, "rows.row_ids", task + ListOf(found.rows),
         ListOf(wanted.rows) + ", this shard's rows of the task");
    return;
  }
  for (size_t i = 0; i < found.values.size(); ++i) {
    if (found.values[i] == wanted.values[i]) continue;
    Tell(place, "rows.values",
         absl::StrCat(task, NumberOf(found.values[i]), " in column ", i % kCourseDim, " of row ",
                      found.rows[i / kCourseDim].value()),
         absl::StrCat(NumberOf(wanted.values[i]),
                      ": the values of equal ids of the task are added up"));
    return;
  }
}

void RowsCheck::CheckAnswers(int shard, v1::ScatterMode mode, const RowBlock& found) {
  if (mode != v1::SCATTER_MODE_ASSIGN) {
    Tell({.chapter = Chapter::kScatter, .call = "Scatter", .shard = shard, .section = kBulk},
         "mode", v1::ScatterMode_Name(mode), "SCATTER_MODE_ASSIGN for answers");
  }
  if (found.dim != kCourseDim) return;  // the shard refuses it
  for (size_t i = 0; i < found.rows.size(); ++i) {
    CheckAnswer(shard, found.rows[i].value(),
                absl::MakeConstSpan(found.values).subspan(i * kCourseDim, kCourseDim));
  }
}

void RowsCheck::CheckAnswer(int shard, uint32_t row, absl::Span<const float> found) {
  answered_.insert(row);
  std::vector<float> wanted;
  Place place{.shard = shard};
  std::string of;
  if (row >= kTopKAnswers) {
    place = {Chapter::kTopK, "the answer of top_k", shard, kPrediction};
    of = absl::StrCat("query ", row - kTopKAnswers);
    wanted = BestOf(row - kTopKAnswers);
  } else if (row >= kFirstRowAnswers && row - kFirstRowAnswers < course_.first_rows.size()) {
    place = {Chapter::kFirstRows, "the answer of first_rows", shard, "first-values-of-rows"};
    const RowId asked = course_.first_rows[row - kFirstRowAnswers];
    of = absl::StrCat("row ", asked.value(), " of table features");
    wanted = FirstRow(asked);
  } else if (row < course_.gather.size()) {
    place = {Chapter::kGather, "the answer of gather", shard, kBulk};
    of = absl::StrCat("row ", course_.gather[row].value(), " of table features");
    wanted = FirstRow(course_.gather[row]);
  }
  if (wanted.empty()) return;
  verdicts_.Saw(place.chapter);
  const auto differs = std::mismatch(found.begin(), found.end(), wanted.begin());
  if (differs.first == found.end()) return;
  Tell(place, "the answer's row",
       absl::StrCat(NumberOf(*differs.first), " in column ", differs.first - found.begin(),
                    " of answer ", row, " (", of, ")"),
       NumberOf(*differs.second));
}

std::vector<float> RowsCheck::FirstRow(RowId row) const {
  std::vector<float> weights(kCourseDim);
  RowInit(course_.rows.tables[0], course_.rows.seed).Fill(row, absl::MakeSpan(weights));
  return weights;
}

void RowsCheck::TopK(int shard, const v1::TopKRequest& request, const v1::TopKResponse& response) {
  const absl::MutexLock lock(&mu_);
  if (request.model() != course_.rows.name) return;
  verdicts_.Saw(Chapter::kTopK);
  const Place place{
      .chapter = Chapter::kTopK, .call = "TopK", .shard = shard, .section = kPrediction};
  if (request.mode() != v1::TOP_K_MODE_EXACT) {
    Tell(place, "mode", v1::TopKMode_Name(request.mode()), "TOP_K_MODE_EXACT");
  }
  if (request.k() != kCourseTopK) {
    Tell(place, "k", absl::StrCat(request.k()),
         absl::StrCat(kCourseTopK, " of every shard: the best of all may be on one"));
    return;
  }
  const auto command = wire::DecodeTopKRequest(request);
  if (!command.ok() || command->dim != kCourseDim) return;  // the shard refuses it
  const auto answer = wire::DecodeTopKResponse(response, command->batch, command->k);
  if (!answer.ok()) return;
  const bool bf16 = request.hidden().element_type() == v1::ELEMENT_TYPE_BF16;
  for (int64_t i = 0; i < command->batch; ++i) {
    const auto row = absl::MakeConstSpan(command->hidden).subspan(i * kCourseDim, kCourseDim);
    const size_t query = QueryOf(course_, row, bf16);
    if (query == kNoQuery) {
      Tell(place, "hidden", absl::StrCat("row ", i, ", which is none of the queries"),
           "the course's queries, row-major, little-endian");
      return;
    }
    TopKReply one;
    one.k = kCourseTopK;
    const auto from = i * kCourseTopK;
    one.scored.rows.assign(answer->scored.rows.begin() + from,
                           answer->scored.rows.begin() + from + kCourseTopK);
    one.scored.logits.assign(answer->scored.logits.begin() + from,
                             answer->scored.logits.begin() + from + kCourseTopK);
    best_[{query, shard}] = std::move(one);
  }
}

std::vector<float> RowsCheck::BestOf(size_t query) {
  if (query >= static_cast<size_t>(course_.num_queries())) return {};
  std::vector<TopKReply> parts;
  for (int shard = 0; shard < kShards; ++shard) {
    const auto found = best_.find({query, shard});
    if (found == best_.end()) {
      Tell({.chapter = Chapter::kTopK, .call = "TopK", .shard = shard, .section = kPrediction},
           "hidden", absl::StrCat("without query ", query, ", of which there is an answer"),
           "every query on every shard");
      return {};
    }
    parts.push_back(found->second);
  }
  const auto merged = MergeTopK(parts, 1, kCourseTopK);
  std::vector<float> ids;
  if (!merged.ok()) return ids;
  for (const RowId row : merged->scored.rows) ids.push_back(static_cast<float>(row.value()));
  return ids;
}

void RowsCheck::Finish() {
  const absl::MutexLock lock(&mu_);
  const SlotMap& map = slots_.of(course_.rows.tables[0]);
  for (const RowId row : course_.gather) {
    if (gathered_.empty() || gathered_.contains(row)) continue;
    Tell({.chapter = Chapter::kGather,
          .call = "Gather",
          .shard = map.OwnerOf(row).value(),
          .section = kBulk},
         "rows.row_ids", absl::StrCat("without row ", row.value()),
         "all rows that the course asks for");
    break;
  }
  if (answered_.empty()) return;
  const std::pair<uint32_t, size_t> wanted[] = {{kGatherAnswers, course_.gather.size()},
                                                {kFirstRowAnswers, course_.first_rows.size()},
                                                {kTopKAnswers, course_.num_queries()}};
  for (const auto& range : wanted) {
    const auto from = answered_.lower_bound(range.first);
    const auto until = answered_.lower_bound(range.first + static_cast<uint32_t>(range.second));
    const auto there = static_cast<size_t>(std::distance(from, until));
    if (there == 0 || there == range.second) continue;
    Tell({.chapter = Chapter::kScatter, .call = "Scatter", .section = kBulk}, "answers",
         absl::StrCat(there, " rows from ", range.first, " on"),
         absl::StrCat(range.second, ", one for each row or query of the task"));
  }
}

}  // namespace dslide::cli
