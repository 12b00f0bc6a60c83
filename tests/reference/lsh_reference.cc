#include "tests/reference/lsh_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "core/base/counter_rng.h"

namespace dslide::reference {
namespace {

using DoubleMatrix = std::vector<std::vector<double>>;

// SimHash.

int64_t BlockWidth(int64_t dim) {
  int64_t n = 16;
  while (n < dim) n *= 2;
  return n;
}

// The sign `i` of stream `stream` of block `block`.
float Sign(const HashSpec& spec, int64_t block, int64_t stream, int64_t i) {
  const uint64_t key = DeriveKey(DeriveKey(DeriveKey(spec.seed, 1), block), stream);
  return (CounterBits(key, i / 64) >> (i % 64)) % 2 == 1 ? -1.0f : 1.0f;
}

// The transform of the two halves, then their sum and difference: distance n / 2 comes last.
std::vector<float> WalshHadamard(const std::vector<float>& x) {
  if (x.size() == 1) return x;
  const auto middle = x.begin() + static_cast<int64_t>(x.size() / 2);
  const std::vector<float> low = WalshHadamard({x.begin(), middle});
  const std::vector<float> high = WalshHadamard({middle, x.end()});
  std::vector<float> out;
  for (size_t i = 0; i < low.size(); ++i) out.push_back(low[i] + high[i]);
  for (size_t i = 0; i < low.size(); ++i) out.push_back(low[i] - high[i]);
  return out;
}

std::vector<uint32_t> SimHashCodes(const HashSpec& spec, const HashVector& vector) {
  const int64_t n = BlockWidth(static_cast<int64_t>(vector.values.size()));
  const int64_t bits = spec.codes_per_table * spec.num_tables;
  std::vector<uint32_t> codes;
  for (int64_t block = 0; block * n < bits; ++block) {
    std::vector<float> y = vector.values;
    y.resize(n, 0.0f);
    for (int64_t round = 0; round < 3; ++round) {
      for (int64_t j = 0; j < n; ++j) y[j] *= Sign(spec, block, round, j);
      y = WalshHadamard(y);
    }
    for (int64_t i = 0; i < n && block * n + i < bits; ++i) {
      float projection = y[i] / static_cast<float>(n);
      projection += Sign(spec, block, 3, i) * vector.extra1;
      projection += Sign(spec, block, 4, i) * vector.extra2;
      codes.push_back(projection >= 0.0f ? 1 : 0);
    }
  }
  return codes;
}

DoubleMatrix Multiply(const DoubleMatrix& a, const DoubleMatrix& b) {
  DoubleMatrix product(a.size(), std::vector<double>(b[0].size(), 0.0));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < b.size(); ++k) {
      for (size_t j = 0; j < b[0].size(); ++j) product[i][j] += a[i][k] * b[k][j];
    }
  }
  return product;
}

// H times the diagonal of signs of one round.
DoubleMatrix HadamardTimesSigns(const HashSpec& spec, int64_t n, int64_t block, int64_t round) {
  DoubleMatrix matrix(n, std::vector<double>(n));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const double h = std::popcount(static_cast<uint64_t>(i & j)) % 2 == 0 ? 1.0 : -1.0;
      matrix[i][j] = h * static_cast<double>(Sign(spec, block, round, j));
    }
  }
  return matrix;
}

// DWTA.

uint64_t Below(uint64_t random, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * bound) >> 64);
}

std::vector<uint32_t> DwtaCodes(const HashSpec& spec, const HashVector& vector) {
  std::vector<float> x = vector.values;
  x.push_back(vector.extra1);
  x.push_back(vector.extra2);
  const auto size = static_cast<int64_t>(x.size());
  const int64_t width = std::min(spec.bin_size, size);
  const int64_t per_permutation = size / width;
  const int64_t bins = spec.codes_per_table * spec.num_tables;
  const uint64_t family = DeriveKey(spec.seed, 2);

  std::vector<std::optional<uint32_t>> own(bins);
  for (int64_t bin = 0; bin < bins; ++bin) {
    std::vector<int64_t> order(size);
    std::iota(order.begin(), order.end(), 0);
    const uint64_t key = DeriveKey(DeriveKey(family, 0), bin / per_permutation);
    for (int64_t i = size - 1, m = 0; i > 0; --i, ++m) {
      std::swap(order[i], order[Below(CounterBits(key, m), i + 1)]);
    }
    for (int64_t j = 0; j < width; ++j) {
      const int64_t start = bin % per_permutation * width;
      const float value = x[order[start + j]];
      if (vector.is_query && value == 0.0f) continue;
      if (!own[bin].has_value() || value > x[order[start + *own[bin]]]) {
        own[bin] = static_cast<uint32_t>(j);
      }
    }
  }
  std::vector<uint32_t> codes;
  for (int64_t bin = 0; bin < bins; ++bin) {
    std::optional<uint32_t> code = own[bin];
    for (int64_t probe = 0; probe < 64 && !code.has_value(); ++probe) {
      code = own[Below(CounterBits(DeriveKey(family, 1), 64 * bin + probe), bins)];
    }
    codes.push_back(code.has_value() ? *code
                                     : CounterBits(DeriveKey(family, 2), bin) % spec.bin_size);
  }
  return codes;
}

int64_t EqualCodes(const HashSpec& spec, const std::vector<uint32_t>& row,
                   absl::Span<const uint32_t> query) {
  const uint32_t radix =
      spec.family == HashFamilyKind::kDwta ? static_cast<uint32_t>(spec.bin_size) : 2;
  int64_t equal = 0;
  for (int64_t t = 0; t < spec.num_tables; ++t) {
    uint32_t left = row[t];
    uint32_t right = query[t];
    for (int64_t k = 0; k < spec.codes_per_table; ++k) {
      equal += left % radix == right % radix ? 1 : 0;
      left /= radix;
      right /= radix;
    }
  }
  return equal;
}

}  // namespace

std::vector<uint32_t> Fingerprints(const HashSpec& spec, const HashVector& vector) {
  const bool dwta = spec.family == HashFamilyKind::kDwta;
  const std::vector<uint32_t> codes = dwta ? DwtaCodes(spec, vector) : SimHashCodes(spec, vector);
  const uint32_t radix = dwta ? static_cast<uint32_t>(spec.bin_size) : 2;
  std::vector<uint32_t> fingerprints(spec.num_tables, 0);
  for (int64_t t = 0; t < spec.num_tables; ++t) {
    for (int64_t k = spec.codes_per_table - 1; k >= 0; --k) {
      fingerprints[t] = fingerprints[t] * radix + codes[t * spec.codes_per_table + k];
    }
  }
  return fingerprints;
}

std::vector<double> DenseSimHashProjections(const HashSpec& spec, const HashVector& vector) {
  const auto dim = static_cast<int64_t>(vector.values.size());
  const int64_t n = BlockWidth(dim);
  const int64_t bits = spec.codes_per_table * spec.num_tables;
  std::vector<double> projections;
  for (int64_t block = 0; block * n < bits; ++block) {
    const DoubleMatrix rounds01 =
        Multiply(HadamardTimesSigns(spec, n, block, 1), HadamardTimesSigns(spec, n, block, 0));
    const DoubleMatrix matrix = Multiply(HadamardTimesSigns(spec, n, block, 2), rounds01);
    for (int64_t i = 0; i < n && block * n + i < bits; ++i) {
      double sum = 0.0;
      for (int64_t j = 0; j < dim; ++j) {
        sum += matrix[i][j] / static_cast<double>(n) * static_cast<double>(vector.values[j]);
      }
      projections.push_back(sum + static_cast<double>(Sign(spec, block, 3, i) * vector.extra1) +
                            static_cast<double>(Sign(spec, block, 4, i) * vector.extra2));
    }
  }
  return projections;
}

std::vector<HashVector> CenteredRows(const HashSpec& spec,
                                     const std::vector<std::vector<float>>& rows,
                                     const std::vector<float>& biases) {
  const size_t count = rows.size();
  std::vector<HashVector> result;
  std::vector<double> squares;
  for (size_t r = 0; r < count; ++r) {
    HashVector row;
    row.is_query = false;
    double square = 0.0;
    for (size_t i = 0; i <= rows[r].size(); ++i) {
      const auto value = [&](size_t other) {
        return static_cast<double>(i < rows[r].size() ? rows[other][i] : biases[other]);
      };
      double mean = 0.0;
      for (size_t other = 0; spec.center && other < count; ++other) mean += value(other);
      const double centered = value(r) - mean / static_cast<double>(count);
      square += centered * centered;
      if (i < rows[r].size()) row.values.push_back(static_cast<float>(centered));
      row.extra1 = static_cast<float>(centered);  // the last one, the bias, stays
    }
    squares.push_back(square);
    result.push_back(std::move(row));
  }
  if (!spec.norm_coordinate || count == 0) return result;
  std::vector<double> sorted = squares;
  std::sort(sorted.begin(), sorted.end());
  const double place = std::ceil(spec.norm_quantile * static_cast<double>(count));
  const double bound = sorted[static_cast<size_t>(std::max(place, 1.0)) - 1];
  for (size_t r = 0; r < count; ++r) {
    result[r].extra2 = static_cast<float>(std::sqrt(std::max(0.0, bound - squares[r])));
  }
  return result;
}

std::vector<LocalRow> RowsSharingABucket(const std::vector<std::vector<uint32_t>>& row_fingerprints,
                                         int64_t table, uint32_t fingerprint) {
  std::vector<LocalRow> rows;
  for (size_t row = 0; row < row_fingerprints.size(); ++row) {
    if (row_fingerprints[row][table] == fingerprint) {
      rows.emplace_back(static_cast<uint32_t>(row));
    }
  }
  return rows;
}

std::vector<bool> Sketch(const HashSpec& spec, absl::Span<const uint32_t> fingerprints,
                         int64_t table) {
  const int64_t own_bits = FingerprintBits(spec);
  const int64_t per_word = 64 / own_bits;
  const int64_t words = (spec.num_tables + per_word - 1) / per_word;
  std::vector<bool> bits;
  const auto append = [&](int64_t first, int64_t word) {
    const int64_t last = std::min((word + 1) * per_word, spec.num_tables);
    for (int64_t t = first; t < last; ++t) {
      for (int64_t k = 0; k < own_bits; ++k) {
        bits.push_back((fingerprints[t] >> k) % 2 == 1);
      }
    }
  };
  const int64_t word = table / per_word;
  append(table + 1, word);
  append((word + 1) % words * per_word, (word + 1) % words);
  bits.resize(64, false);
  return bits;
}

namespace {

// Of the rows read, with their likenesses, those that are ranked. Labels do not count.
std::set<LocalRow> MostAlike(const std::map<LocalRow, int64_t>& likeness,
                             absl::Span<const LocalRow> labels, int64_t wanted,
                             int64_t sketch_bits) {
  for (int64_t least = sketch_bits;; --least) {
    std::set<LocalRow> kept;
    int64_t others = 0;
    for (const auto& [row, bits] : likeness) {
      if (bits < least) continue;
      kept.insert(row);
      others += std::binary_search(labels.begin(), labels.end(), row) ? 0 : 1;
    }
    if (others >= wanted || least == 0) return kept;
  }
}

}  // namespace

std::set<LocalRow> Candidates(const HashSpec& spec,
                              const std::vector<std::vector<uint32_t>>& row_fingerprints,
                              absl::Span<const uint32_t> query, absl::Span<const LocalRow> labels,
                              int64_t budget) {
  // What a word has room for beside a row.
  int64_t sketch_bits = 63;
  while (uint64_t{1} << (64 - sketch_bits) < row_fingerprints.size()) --sketch_bits;
  std::map<LocalRow, int64_t> likeness;
  int64_t reads = 0;
  const int64_t searched = spec.searched_tables == 0 ? spec.num_tables : spec.searched_tables;
  for (int64_t t = 0; t < searched; ++t) {
    const std::vector<LocalRow> bucket = RowsSharingABucket(row_fingerprints, t, query[t]);
    if (bucket.empty()) continue;
    const std::vector<bool> sought = Sketch(spec, query, t);
    uint64_t place = 0;
    if (static_cast<int64_t>(bucket.size()) > spec.bucket_read_cap) {
      place = CounterBits(DeriveKey(DeriveKey(spec.seed, 3), t), query[t]) % bucket.size();
    }
    for (int64_t read = 0;
         read < std::min<int64_t>(spec.bucket_read_cap, static_cast<int64_t>(bucket.size()));
         ++read) {
      const LocalRow row = bucket[place];
      const std::vector<bool> own = Sketch(spec, row_fingerprints[row.value()], t);
      int64_t equal = 0;
      for (int64_t bit = 0; bit < sketch_bits; ++bit) equal += own[bit] == sought[bit] ? 1 : 0;
      likeness[row] = std::max(likeness[row], equal);
      place = (place + 1) % bucket.size();
      ++reads;
    }
  }
  const int64_t wanted = spec.ranked_per_active * std::max<int64_t>(budget, 0);
  const bool all = spec.ranked_per_active == 0 || reads <= wanted;
  return MostAlike(likeness, labels, all ? reads + 1 : wanted, sketch_bits);
}

SelectedRows Select(const HashSpec& spec,
                    const std::vector<std::vector<uint32_t>>& row_fingerprints,
                    absl::Span<const uint32_t> query, absl::Span<const LocalRow> labels,
                    int64_t budget) {
  const std::set<LocalRow> candidates = Candidates(spec, row_fingerprints, query, labels, budget);
  std::vector<std::pair<int64_t, LocalRow>> ranking;  // sorts the best first
  ranking.reserve(candidates.size());
  for (const LocalRow row : candidates) {
    ranking.emplace_back(-EqualCodes(spec, row_fingerprints[row.value()], query), row);
  }
  std::sort(ranking.begin(), ranking.end());

  const auto take = [&](std::set<LocalRow> chosen) {
    for (const auto& [count, row] : ranking) {
      if (static_cast<int64_t>(chosen.size()) >= budget) break;
      chosen.insert(row);
    }
    return chosen;
  };
  const std::set<LocalRow> active = take({labels.begin(), labels.end()});
  const std::set<LocalRow> by_hashing_alone = take({});
  SelectedRows result;
  result.active.assign(active.begin(), active.end());
  for (const LocalRow label : labels) {
    if (by_hashing_alone.count(label) == 0) result.missed_labels.push_back(label);
  }
  return result;
}

std::vector<SelectedRows> SelectTogether(const HashSpec& spec,
                                         const std::vector<std::vector<uint32_t>>& row_fingerprints,
                                         const std::vector<std::vector<uint32_t>>& queries,
                                         const std::vector<std::vector<LocalRow>>& labels,
                                         int64_t budget) {
  const auto batch = static_cast<int64_t>(queries.size());
  const int64_t proposals =
      std::max(spec.proposed_per_sample, batch == 0 ? 0 : (budget + batch - 1) / batch);
  std::set<LocalRow> proposed;
  for (const std::vector<uint32_t>& query : queries) {
    const SelectedRows own = Select(spec, row_fingerprints, query, {}, proposals);
    proposed.insert(own.active.begin(), own.active.end());
  }
  std::set<LocalRow> pool = proposed;
  for (const std::vector<LocalRow>& own : labels) pool.insert(own.begin(), own.end());

  std::vector<SelectedRows> results(queries.size());
  for (size_t q = 0; q < queries.size(); ++q) {
    std::vector<std::pair<int64_t, LocalRow>> ranking;  // sorts the best first
    for (const LocalRow row : pool) {
      const int64_t equal = EqualCodes(spec, row_fingerprints[row.value()], queries[q]);
      if (equal > 0) ranking.emplace_back(-equal, row);
    }
    std::sort(ranking.begin(), ranking.end());
    std::set<LocalRow> active(labels[q].begin(), labels[q].end());
    std::set<LocalRow> by_hashing_alone;
    for (const auto& [equal, row] : ranking) {
      if (static_cast<int64_t>(active.size()) < budget) active.insert(row);
      if (static_cast<int64_t>(by_hashing_alone.size()) < budget) by_hashing_alone.insert(row);
    }
    results[q].active.assign(active.begin(), active.end());
    for (const LocalRow label : labels[q]) {
      if (proposed.count(label) == 0 || by_hashing_alone.count(label) == 0) {
        results[q].missed_labels.push_back(label);
      }
    }
  }
  return results;
}

}  // namespace dslide::reference
