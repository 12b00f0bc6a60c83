#include "bench/neighbours/search_growth.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/statistics.h"
#include "bench/neighbours/point_scan.h"
#include "core/base/counter_rng.h"

namespace dslide::bench {
namespace {

using Json = nlohmann::ordered_json;

double ThreadMicroseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

// The first points with their values weighed, and their records.
struct WeighedPoints {
  std::vector<std::vector<float>> values;
  std::vector<std::string> records;
};

WeighedPoints Weigh(const SparseBatch& points, int64_t count) {
  std::vector<double> idf;
  for (int64_t i = 0; i < count; ++i) {
    for (const RowId feature : points.FeaturesOf(i)) {
      if (feature.value() >= idf.size()) idf.resize(size_t{feature.value()} + 1);
      ++idf[feature.value()];
    }
  }
  for (double& value : idf) value = std::log((static_cast<double>(count) + 1) / (value + 1));
  WeighedPoints weighed;
  for (int64_t i = 0; i < count; ++i) {
    const auto features = points.FeaturesOf(i);
    std::vector<float> values;
    double squares = 0;
    for (size_t f = 0; f < features.size(); ++f) {
      const double value = (1 + std::log(points.ValuesOf(i)[f])) * idf[features[f].value()];
      values.push_back(static_cast<float>(value));
      squares += value * value;
    }
    for (float& value : values) value /= static_cast<float>(std::sqrt(std::max(squares, 1e-30)));
    weighed.records.push_back(EncodePoint(features, values, {}));
    weighed.values.push_back(std::move(values));
  }
  return weighed;
}

// One way of searching, with what was measured of it.
struct Way {
  Way(const char* its_name, NeighbourSearch search) : name(its_name), index(search) {}
  const char* name;
  NeighbourIndex index;
  double add_us = 0;
  std::vector<double> us;  // a query, by round
  int64_t found = 0;       // of the true neighbours, in one round
  int64_t differing = 0;
};

int64_t CountCommon(absl::Span<const Neighbour> truth, absl::Span<const Neighbour> found) {
  std::vector<uint32_t> ids;
  for (const Neighbour& neighbour : found) ids.push_back(neighbour.point);
  std::sort(ids.begin(), ids.end());
  return std::count_if(truth.begin(), truth.end(), [&](const Neighbour& it) {
    return std::binary_search(ids.begin(), ids.end(), it.point);
  });
}

std::vector<uint32_t> DrawQueries(int64_t count, int64_t queries) {
  std::vector<uint32_t> drawn;
  CounterRng rng(static_cast<uint64_t>(count));
  for (int64_t i = 0; i < queries; ++i) {
    drawn.push_back(static_cast<uint32_t>(rng.NextBelow(static_cast<uint64_t>(count))));
  }
  return drawn;
}

void AddAll(const WeighedPoints& weighed, int64_t count, Way& way) {
  const double start = ThreadMicroseconds();
  for (int64_t i = 0; i < count; ++i) {
    way.index.Add(static_cast<uint32_t>(i),
                  PointView(weighed.records[static_cast<size_t>(i)].data()));
  }
  way.add_us = (ThreadMicroseconds() - start) / static_cast<double>(count);
}

// One round of one way. `truth`: of each query.
void SearchAll(const SparseBatch& points, const WeighedPoints& weighed,
               absl::Span<const uint32_t> queries, int64_t k,
               absl::Span<const std::vector<Neighbour>> truth, Way& way) {
  NeighbourIndex::Scratch scratch;
  double spent = 0;
  way.found = way.differing = 0;
  for (size_t q = 0; q < queries.size(); ++q) {
    const double before = ThreadMicroseconds();
    const auto found = way.index.Search(points.FeaturesOf(queries[q]), weighed.values[queries[q]],
                                        k, queries[q], scratch);
    spent += ThreadMicroseconds() - before;
    way.found += CountCommon(truth[q], found);
    way.differing += found == absl::MakeConstSpan(truth[q]) ? 0 : 1;
  }
  way.us.push_back(spent / static_cast<double>(queries.size()));
}

Json WayToJson(const Way& way, int64_t true_neighbours) {
  return {{"us", Median(way.us)},
          {"spread", Spread(way.us)},
          {"bytes", way.index.memory_bytes()},
          {"add_us", way.add_us},
          {"recall", static_cast<double>(way.found) /
                         static_cast<double>(std::max<int64_t>(true_neighbours, 1))},
          {"differing", way.differing}};
}

}  // namespace

Json MeasureSearches(const SparseBatch& points, int64_t count, const SearchGrowthOptions& options) {
  const WeighedPoints weighed = Weigh(points, count);
  PointScan scan;
  for (const std::string& record : weighed.records) scan.Add(PointView(record.data()));
  std::vector<std::unique_ptr<Way>> ways;
  ways.push_back(std::make_unique<Way>("exact", NeighbourSearch::kExact));
  ways.push_back(std::make_unique<Way>("impact", NeighbourSearch::kImpact));
  ways.push_back(std::make_unique<Way>("hashed", NeighbourSearch::kHashed));
  for (const auto& way : ways) AddAll(weighed, count, *way);
  const std::vector<uint32_t> queries = DrawQueries(count, options.queries);
  std::vector<double> scan_us;
  std::vector<std::vector<Neighbour>> truth(queries.size());
  for (int64_t round = 0; round < options.rounds; ++round) {
    const double start = ThreadMicroseconds();
    for (size_t q = 0; q < queries.size(); ++q) {
      truth[q] = scan.Search(points.FeaturesOf(queries[q]), weighed.values[queries[q]], options.k,
                             queries[q]);
    }
    scan_us.push_back((ThreadMicroseconds() - start) / static_cast<double>(queries.size()));
    for (const auto& way : ways) SearchAll(points, weighed, queries, options.k, truth, *way);
  }
  int64_t true_neighbours = 0;
  for (const auto& mine : truth) true_neighbours += static_cast<int64_t>(mine.size());
  Json json;
  json["points"] = count;
  json["features_per_point"] =
      static_cast<double>(points.feature_offsets[count]) / static_cast<double>(count);
  json["scan"] = {
      {"us", Median(scan_us)}, {"spread", Spread(scan_us)}, {"bytes", scan.memory_bytes()}};
  for (const auto& way : ways) json[way->name] = WayToJson(*way, true_neighbours);
  return json;
}

}  // namespace dslide::bench
