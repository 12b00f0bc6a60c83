#include "core/engine/memory/neighbour_index.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/prefetch.h"

namespace dslide {
namespace {

using Term = NeighbourIndex::Scratch::Term;

constexpr uint32_t kSegmentBits = 16;
constexpr uint32_t kSegmentPoints = 1u << kSegmentBits;
// Lists are left unread while everything in them is below this part of the least similarity that
// counts. A larger part reads fewer postings and computes more candidates anew.
constexpr double kUnreadPart = 0.3;
// So many places are looked at in the time that a posting takes.
constexpr int64_t kPlacesPerPosting = 4;
// Beyond so many features rounding could be as large as similarities.
constexpr size_t kMaxPrunedFeatures = size_t{1} << 16;

double LengthOf(PointView point) {
  double squares = 0;
  for (const BFloat16 value : point.values()) {
    squares += static_cast<double>(ToFloat(value)) * static_cast<double>(ToFloat(value));
  }
  return std::sqrt(squares);
}

// How many of the terms have to be read. *rest becomes a bound of the products of the others with
// any point: at most the product of the lengths (Cauchy and Schwarz), at most the sum of the
// largest products.
size_t TermsToRead(absl::Span<const Term> by_weight, double longest, double most, double* rest) {
  double squares = 0;
  double sum = 0;
  size_t read = by_weight.size();
  for (; read > 0; --read) {
    const Term& term = by_weight[read - 1];
    if (term.postings.empty()) continue;
    const double weight = term.weight;
    squares += weight * weight;
    sum += weight * static_cast<double>(ToFloat(term.postings.front().value));
    const double bound = std::min(std::sqrt(squares) * longest, sum);
    if (bound > most) break;
    *rest = bound;
  }
  return read;
}

void AddUp(absl::Span<const Term> terms, float* sums) {
  for (const Term& term : terms) {
    const float weight = term.weight;
    for (const Posting& posting : term.postings) {
      sums[posting.place] += weight * ToFloat(posting.value);
    }
  }
}

// Adds the products of a term that are `least` or more, above 0, and lists the places whose sums
// become `reach` or more by them. Returns how many those are. The term's postings become those that
// were added.
//   places: room for one more than are listed
size_t AddLarge(Term& term, float least, float reach, float* sums, uint16_t* places) {
  const float weight = term.weight;
  const float cut = weight > 0 ? least / weight : std::numeric_limits<float>::infinity();
  size_t reached = 0;
  size_t end = 0;
  for (; end < term.postings.size(); ++end) {
    const Posting posting = term.postings[end];
    const float value = ToFloat(posting.value);
    if (!(value >= cut)) break;
    const float before = sums[posting.place];
    const float sum = before + weight * value;
    sums[posting.place] = sum;
    // Without a branch, which could not be predicted.
    places[reached] = posting.place;
    reached += static_cast<size_t>(sum >= reach) & static_cast<size_t>(before < reach);
  }
  term.postings = term.postings.subspan(0, end);
  return reached;
}

// Hands over points whose sums are large enough, and clears sums: by going over the postings again,
// or over all places where that is less.
class Collector {
 public:
  Collector(SumBounds bounds, uint32_t first, uint32_t left_out, float* sums,
            NeighbourCandidates& candidates)
      : bounds_(bounds), first_(first), left_out_(left_out), sums_(sums), candidates_(candidates) {}

  void OfPostings(absl::Span<const Term> terms) {
    for (const Term& term : terms) {
      for (const Posting& posting : term.postings) {
        const float sum = sums_[posting.place];
        sums_[posting.place] = 0;
        Take(posting.place, sum);
      }
    }
  }

  void OfPlaces(uint32_t places) {
    constexpr uint32_t kBlock = 32;
    for (uint32_t begin = 0; begin < places; begin += kBlock) {
      float* const sums = sums_ + begin;
      // Rounding down can only make more of them be looked at.
      const float cut =
          std::max(std::numeric_limits<float>::denorm_min(),
                   0.999999f * (candidates_.floor() - bounds_.above) / bounds_.factor);
      int some = 0;
      for (uint32_t i = 0; i < kBlock; ++i) some += static_cast<int>(sums[i] >= cut);
      for (uint32_t i = 0; some != 0 && i < kBlock; ++i) Take(begin + i, sums[i]);
      for (uint32_t i = 0; i < kBlock; ++i) sums[i] = 0;
    }
  }

 private:
  float Upper(float sum) const { return sum * bounds_.factor + bounds_.above; }
  void Take(uint32_t place, float sum) {
    // In this order: once there is a floor, most points are below it, which can be predicted.
    if (Upper(sum) < candidates_.floor()) return;
    if (!(sum > 0) || first_ + place == left_out_) return;
    candidates_.Push({Upper(sum), sum - bounds_.below, first_ + place});
  }

  const SumBounds bounds_;
  const uint32_t first_;
  const uint32_t left_out_;
  float* const sums_;
  NeighbourCandidates& candidates_;
};

// The record of a point with 100 features; of a longer one the processor asks for the rest.
void PrefetchRecord(PointView point) { PrefetchLines(point.record(), 600); }

}  // namespace

template <typename Visit>
void NeighbourIndex::VisitIndexed(PointView point, const Visit& visit) {
  const absl::Span<const BFloat16> values = point.values();
  std::vector<float> floats(values.size());
  for (size_t i = 0; i < values.size(); ++i) floats[i] = ToFloat(values[i]);
  absl::Span<const uint8_t> elected;
  if (search_ == NeighbourSearch::kHashed) elected = election_.Elect(point.features(), floats);
  for (size_t i = 0; i < values.size(); ++i) {
    if (floats[i] == 0 || (!elected.empty() && elected[i] == 0)) continue;
    visit(point.features()[i], values[i]);
  }
}

void NeighbourIndex::Add(uint32_t id, PointView point) {
  const uint32_t number = points_.Add(id, point);
  const size_t at = number >> kSegmentBits;
  if (at >= segments_.size()) segments_.push_back(std::make_unique<Segment>());
  Segment& segment = *segments_[at];
  const auto place = static_cast<uint16_t>(number % kSegmentPoints);
  VisitIndexed(point, [&](RowId feature, BFloat16 value) {
    segment.lists.Insert(feature, {place, value});
  });
  for (const BFloat16 value : point.values()) segment.negative |= ToFloat(value) < 0;
  segment.longest = std::max(segment.longest, LengthOf(point));
}

bool NeighbourIndex::Remove(uint32_t id) {
  const uint32_t number = points_.NumberOf(id);
  if (number == IndexedPoints::kNowhere) return false;
  PostingLists& lists = segments_[number >> kSegmentBits]->lists;
  const auto place = static_cast<uint16_t>(number % kSegmentPoints);
  VisitIndexed(points_.At(number), [&](RowId feature, BFloat16 value) {
    lists.Remove(feature, {place, value});
  });
  points_.Remove(id);
  return true;
}

void NeighbourIndex::Clear() {
  points_ = IndexedPoints();
  segments_.clear();
}

int64_t NeighbourIndex::memory_bytes() const {
  int64_t bytes = points_.memory_bytes();
  for (const auto& segment : segments_) bytes += segment->lists.memory_bytes();
  return bytes;
}

NeighbourIndex::Query NeighbourIndex::Prepare(absl::Span<const RowId> features,
                                              absl::Span<const float> values,
                                              Scratch& scratch) const {
  scratch.sums.resize(kSegmentPoints);
  scratch.terms.clear();
  absl::Span<const uint8_t> elected;
  if (search_ == NeighbourSearch::kHashed) elected = scratch.election.Elect(features, values);
  Query query = {};
  double squares = 0;
  for (size_t i = 0; i < features.size(); ++i) {
    squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    query.negative |= values[i] < 0;
    if (values[i] == 0 || (!elected.empty() && elected[i] == 0)) continue;
    scratch.terms.push_back({features[i], values[i], {}});
  }
  if (search_ == NeighbourSearch::kExact) {
    scratch.by_weight = scratch.terms;
    std::sort(scratch.by_weight.begin(), scratch.by_weight.end(), [](const Term& a, const Term& b) {
      return a.weight != b.weight ? a.weight > b.weight : a.feature < b.feature;
    });
  }
  query.length = std::sqrt(squares);
  query.features = features.size();
  // A sum of n rounded products is off by at most n u sum |w v| / (1 - n u), u = 2^-24, and the sum
  // of magnitudes is at most the product of the lengths (Cauchy and Schwarz). Two such sums are
  // compared, and their bounds are rounded four times; n u is below 2^-8 where it matters.
  const auto n = static_cast<double>(features.size());
  query.slack = static_cast<float>((2.1 * n + 8) * 0x1p-24 * query.length);
  query.prunable = features.size() <= kMaxPrunedFeatures && !query.negative;
  return query;
}

void NeighbourIndex::FindLists(const Segment& segment, std::vector<Term>& terms) const {
  // A list is two steps away: all first steps are made before the second ones.
  for (const Term& term : terms) segment.lists.Prefetch(term.feature);
  for (Term& term : terms) {
    term.postings = segment.lists.Of(term.feature);
    PrefetchLines(term.postings.data(),
                  std::min<int64_t>(term.postings.size() * sizeof(Posting), 256));
  }
}

absl::Span<const Term> NeighbourIndex::Plan(const Query& query, const Segment& segment,
                                            Scratch& scratch, SumBounds& bounds) const {
  const bool prunable = query.prunable && !segment.negative;
  const float slack = query.slack * static_cast<float>(segment.longest);
  const float floor = scratch.candidates.floor();
  if (search_ == NeighbourSearch::kExact && prunable && floor > slack) {
    FindLists(segment, scratch.by_weight);
    double rest = 0;
    const size_t read = TermsToRead(scratch.by_weight, segment.longest,
                                    kUnreadPart * static_cast<double>(floor - slack), &rest);
    bounds = {.factor = 1, .above = static_cast<float>(rest) + slack, .below = slack};
    return absl::MakeConstSpan(scratch.by_weight).subspan(0, read);
  }
  // In ascending order: where everything is read, sums are similarities.
  FindLists(segment, scratch.terms);
  if (search_ == NeighbourSearch::kHashed) {
    bounds.factor = 1 / kHashedPart;
    // Products that are not read may be negative: then sums are no bound from below.
    bounds.below = prunable ? slack : std::numeric_limits<float>::infinity();
  }
  return scratch.terms;
}

void NeighbourIndex::SearchSegment(const Query& query, const Segment& segment, uint32_t first,
                                   Scratch& scratch) const {
  SumBounds bounds;
  const absl::Span<const Term> terms = Plan(query, segment, scratch, bounds);
  size_t postings = 0;
  for (const Term& term : terms) postings += term.postings.size();
  AddUp(terms, scratch.sums.data());
  Collector collector(bounds, first, query.left_out, scratch.sums.data(), scratch.candidates);
  const auto places = std::min<int64_t>(points_.numbers() - first, kSegmentPoints);
  if (postings > static_cast<size_t>(places / kPlacesPerPosting)) {
    collector.OfPlaces(static_cast<uint32_t>(places));
  } else {
    collector.OfPostings(terms);
  }
}

void NeighbourIndex::SearchSegmentByImpact(const Query& query, const Segment& segment,
                                           uint32_t first, Scratch& scratch) const {
  FindLists(segment, scratch.terms);
  NeighbourCandidates& candidates = scratch.candidates;
  const float least = LeastProduct(query.length, query.features);
  const float reach = std::max(candidates.floor(), std::numeric_limits<float>::min());
  float* const sums = scratch.sums.data();
  // No sum falls, so each place is there once.
  scratch.places.resize(kSegmentPoints + 1);
  size_t reached = 0;
  for (Term& term : scratch.terms) {
    reached += AddLarge(term, least, reach, sums, scratch.places.data() + reached);
  }
  for (size_t i = 0; i < reached; ++i) {
    const uint32_t place = scratch.places[i];
    const float sum = sums[place];
    if (sum < candidates.floor() || first + place == query.left_out) continue;
    candidates.Push({sum, sum, first + place});
  }
  for (const Term& term : scratch.terms) {
    for (const Posting& posting : term.postings) sums[posting.place] = 0;
  }
}

void NeighbourIndex::Rank(int64_t k, Scratch& scratch) const {
  std::vector<Neighbour>& found = scratch.found;
  const auto candidates = scratch.candidates.Sorted();
  scratch.floor.Start(k);
  // Records lie anywhere in memory, and so do the pointers to them.
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].upper < scratch.floor.value()) break;
    if (i + 2 * kAhead < candidates.size()) {
      points_.Prefetch(candidates[i + 2 * kAhead].number);
      const NeighbourCandidates::Candidate& later = candidates[i + kAhead];
      if (!later.known()) PrefetchRecord(points_.At(later.number));
    }
    const NeighbourCandidates::Candidate& it = candidates[i];
    // A product is not above its bound in an exact search. Bounds that meet are the similarity.
    const float similarity =
        it.known() ? it.upper : std::min(scratch.query.Product(points_.At(it.number)), it.upper);
    if (!(similarity > 0) || similarity < scratch.floor.value()) continue;
    scratch.floor.Add(similarity);
    found.push_back({points_.IdOf(it.number), similarity});
  }
  const auto wanted = std::min(static_cast<size_t>(k), found.size());
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(wanted);
  if (end != found.end()) std::nth_element(found.begin(), end, found.end());
  std::sort(found.begin(), end);
  found.resize(wanted);
}

absl::Span<const Neighbour> NeighbourIndex::Search(absl::Span<const RowId> features,
                                                   absl::Span<const float> values, int64_t k,
                                                   uint32_t left_out, Scratch& scratch) const {
  scratch.found.clear();
  if (k == 0) return {};
  Query query = Prepare(features, values, scratch);
  query.left_out = left_out == kNobody ? kNobody : points_.NumberOf(left_out);
  scratch.candidates.Start(k);
  for (size_t i = 0; i < segments_.size(); ++i) {
    const auto first = static_cast<uint32_t>(i << kSegmentBits);
    if (search_ == NeighbourSearch::kImpact) {
      SearchSegmentByImpact(query, *segments_[i], first, scratch);
    } else {
      SearchSegment(query, *segments_[i], first, scratch);
    }
  }
  scratch.query.Set(features, values);
  Rank(k, scratch);
  scratch.query.Clear(features);
  return scratch.found;
}

}  // namespace dslide
