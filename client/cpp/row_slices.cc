#include "client/cpp/row_slices.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/model/top_k.h"

namespace dslide {
namespace {

size_t ShardIndex(const SlotMap& slots, RowId row) {
  return static_cast<size_t>(slots.OwnerOf(row).value());
}

absl::Status CheckExplicit(const ExplicitRows<RowId>& rows) {
  const size_t n = rows.rows.size();
  const auto fits = [n](const std::vector<float>& values) {
    return values.empty() || values.size() == n;
  };
  const std::vector<uint32_t>& offsets = rows.offsets;
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != n ||
      !std::is_sorted(offsets.begin(), offsets.end()) || !fits(rows.logit_offsets) ||
      !fits(rows.weights)) {
    return absl::InvalidArgumentError(
        absl::StrCat(n, " explicit rows have ", rows.logit_offsets.size(), " logit offsets and ",
                     rows.weights.size(), " weights, each must be 0 or ", n,
                     ", and the samples' offsets must ascend from 0 to ", n));
  }
  for (size_t sample = 0; sample + 1 < offsets.size(); ++sample) {
    for (uint32_t i = offsets[sample] + 1; i < offsets[sample + 1]; ++i) {
      if (rows.rows[i - 1] < rows.rows[i]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("row ", rows.rows[i].value(), " comes after row ", rows.rows[i - 1].value(),
                       " of the same sample: sort a sample's rows and name each once"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

RowSlices SliceRows(const SlotMap& slots, absl::Span<const RowId> wanted) {
  RowSlices out;
  out.rows.resize(static_cast<size_t>(slots.num_shards()));
  out.shard_of.resize(wanted.size());
  out.index_of.resize(wanted.size());
  std::vector<uint32_t> order(wanted.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return wanted[a] < wanted[b]; });
  for (const uint32_t i : order) {
    const size_t shard = ShardIndex(slots, wanted[i]);
    std::vector<RowId>& rows = out.rows[shard];
    if (rows.empty() || rows.back() != wanted[i]) rows.push_back(wanted[i]);
    out.shard_of[i] = static_cast<uint32_t>(shard);
    out.index_of[i] = static_cast<uint32_t>(rows.size() - 1);
  }
  return out;
}

std::vector<RaggedSlice> SliceRagged(const SlotMap& slots, absl::Span<const int64_t> offsets,
                                     absl::Span<const RowId> rows, absl::Span<const float> values) {
  std::vector<RaggedSlice> slices(static_cast<size_t>(slots.num_shards()));
  const size_t batch = offsets.size() - 1;
  const size_t expected = rows.size() / slices.size() + rows.size() / 8 + 16;
  for (RaggedSlice& slice : slices) {
    slice.offsets.reserve(batch + 1);
    slice.rows.reserve(expected);
    if (!values.empty()) slice.values.reserve(expected);
  }
  for (size_t sample = 0; sample < batch; ++sample) {
    for (int64_t i = offsets[sample]; i < offsets[sample + 1]; ++i) {
      const auto at = static_cast<size_t>(i);
      RaggedSlice& slice = slices[ShardIndex(slots, rows[at])];
      slice.rows.push_back(rows[at]);
      if (!values.empty()) slice.values.push_back(values[at]);
    }
    for (RaggedSlice& slice : slices) {
      slice.offsets.push_back(static_cast<uint32_t>(slice.rows.size()));
    }
  }
  return slices;
}

absl::StatusOr<std::vector<ExplicitRows<RowId>>> SliceExplicit(const SlotMap& slots,
                                                               const ExplicitRows<RowId>& rows) {
  RETURN_IF_ERROR(CheckExplicit(rows));
  std::vector<ExplicitRows<RowId>> parts(static_cast<size_t>(slots.num_shards()));
  for (ExplicitRows<RowId>& part : parts) part.offsets.assign(1, 0);
  for (size_t sample = 0; sample + 1 < rows.offsets.size(); ++sample) {
    for (uint32_t i = rows.offsets[sample]; i < rows.offsets[sample + 1]; ++i) {
      ExplicitRows<RowId>& part = parts[ShardIndex(slots, rows.rows[i])];
      part.rows.push_back(rows.rows[i]);
      if (!rows.logit_offsets.empty()) part.logit_offsets.push_back(rows.logit_offsets[i]);
      if (!rows.weights.empty()) part.weights.push_back(rows.weights[i]);
    }
    for (ExplicitRows<RowId>& part : parts) {
      part.offsets.push_back(static_cast<uint32_t>(part.rows.size()));
    }
  }
  return parts;
}

absl::StatusOr<std::vector<RowBlock>> SliceBlock(const SlotMap& slots, const RowBlock& block,
                                                 bool sum_duplicates) {
  const size_t n = block.rows.size();
  const auto dim = static_cast<size_t>(block.dim);
  if (block.dim < 1 || block.values.size() != n * dim ||
      (!block.biases.empty() && block.biases.size() != n)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a block of ", n, " rows of ", block.dim, " floats has ", block.values.size(),
        " values and ", block.biases.size(), " biases; expected ", n * dim, " and 0 or ", n));
  }
  std::vector<RowBlock> parts(static_cast<size_t>(slots.num_shards()));
  for (RowBlock& part : parts) part.dim = block.dim;
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  // Stable: duplicates are added in the caller's order.
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return block.rows[a] < block.rows[b]; });
  for (const uint32_t i : order) {
    const RowId row = block.rows[i];
    RowBlock& part = parts[ShardIndex(slots, row)];
    const float* values = block.values.data() + i * dim;
    if (part.rows.empty() || part.rows.back() != row) {
      part.rows.push_back(row);
      part.values.insert(part.values.end(), values, values + dim);
      if (!block.biases.empty()) part.biases.push_back(block.biases[i]);
      continue;
    }
    if (!sum_duplicates) {
      return absl::InvalidArgumentError(absl::StrCat(
          "row ", row.value(), " is assigned twice in one request: keep one of its values"));
    }
    float* sum = part.values.data() + (part.rows.size() - 1) * dim;
    for (size_t c = 0; c < dim; ++c) sum[c] += values[c];
    if (!block.biases.empty()) part.biases.back() += block.biases[i];
  }
  return parts;
}

std::vector<std::vector<uint32_t>> FirstPlaces(const RowSlices& slices) {
  std::vector<std::vector<uint32_t>> places;
  for (const std::vector<RowId>& rows : slices.rows) places.emplace_back(rows.size());
  for (size_t i = slices.shard_of.size(); i-- > 0;) {
    places[slices.shard_of[i]][slices.index_of[i]] = static_cast<uint32_t>(i);
  }
  return places;
}

void CopyRepeats(const RowSlices& slices, absl::Span<const std::vector<uint32_t>> first_places,
                 RowBlock& block) {
  const auto dim = static_cast<size_t>(block.dim);
  for (size_t i = 0; i < block.rows.size(); ++i) {
    const size_t first = first_places[slices.shard_of[i]][slices.index_of[i]];
    if (first == i) continue;
    std::copy_n(block.values.data() + first * dim, dim, block.values.data() + i * dim);
    if (!block.biases.empty()) block.biases[i] = block.biases[first];
  }
}

absl::StatusOr<TopKReply> MergeTopK(absl::Span<const TopKReply> parts, int64_t batch, int64_t k) {
  TopKReply merged;
  merged.k = k;
  merged.scored.rows.assign(static_cast<size_t>(batch * k), kNoRow);
  merged.scored.logits.assign(static_cast<size_t>(batch * k),
                              -std::numeric_limits<float>::infinity());
  merged.scored.by_query.resize(static_cast<size_t>(batch));
  bool by_query = true;  // shards of earlier versions do not say it
  for (const TopKReply& part : parts) {
    const auto size = static_cast<size_t>(batch * part.k);
    if (part.scored.rows.size() != size || part.scored.logits.size() != size) {
      return absl::InternalError(absl::StrCat("a top-k answer has ", part.scored.rows.size(),
                                              " rows instead of ", batch, " x ", part.k));
    }
    merged.scored.scored_rows += part.scored.scored_rows;
    by_query = by_query && static_cast<int64_t>(part.scored.by_query.size()) == batch;
    for (size_t q = 0; by_query && q < part.scored.by_query.size(); ++q) {
      merged.scored.by_query[q] += part.scored.by_query[q];
    }
    merged.scored.exact = merged.scored.exact && part.scored.exact;
    merged.given = merged.given || part.given;
  }
  if (!by_query) merged.scored.by_query.clear();
  std::vector<std::pair<float, RowId>> best;
  for (int64_t q = 0; q < batch; ++q) {
    best.clear();
    for (const TopKReply& part : parts) {
      for (int64_t i = q * part.k; i < (q + 1) * part.k; ++i) {
        const auto at = static_cast<size_t>(i);
        if (part.scored.rows[at] == kNoRow) continue;
        best.emplace_back(part.scored.logits[at], part.scored.rows[at]);
      }
    }
    const size_t keep = std::min(best.size(), static_cast<size_t>(k));
    std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(keep), best.end(),
                      [](const auto& a, const auto& b) {
                        return a.first != b.first ? a.first > b.first : a.second < b.second;
                      });
    for (size_t i = 0; i < keep; ++i) {
      merged.scored.logits[static_cast<size_t>(q * k) + i] = best[i].first;
      merged.scored.rows[static_cast<size_t>(q * k) + i] = best[i].second;
    }
  }
  return merged;
}

}  // namespace dslide
