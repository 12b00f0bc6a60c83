#include "bench/neighbours/word_points.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/counter_rng.h"

namespace dslide::bench {
namespace {

constexpr uint64_t kPointKey = 1;
constexpr uint64_t kTopicKey = 2;
constexpr double kTopics = 20000;
constexpr double kTopicWords = 100;
constexpr int kTextWords = 30;
// Of a text's words, this part are of its topics.
constexpr float kTopicPart = 0.5f;

// A rank in [0, size) with probability about 1 / (rank + 1).
uint64_t DrawRank(double size, CounterRng& rng) {
  return static_cast<uint64_t>(std::exp(rng.NextUniform() * std::log(size)) - 1);
}

uint32_t WordOfTopic(uint64_t topic, uint64_t rank) {
  CounterRng rng(DeriveKey(DeriveKey(kTopicKey, topic), rank));
  return static_cast<uint32_t>(DrawRank(kWords, rng));
}

}  // namespace

void AppendWordPoints(int64_t first, int64_t count, SparseBatch& batch) {
  for (int64_t point = first; point < first + count; ++point) {
    CounterRng rng(DeriveKey(kPointKey, static_cast<uint64_t>(point)));
    const uint64_t topics[] = {DrawRank(kTopics, rng), DrawRank(kTopics, rng)};
    std::map<uint32_t, float> words;
    for (int i = 0; i < kTextWords; ++i) {
      const bool of_topic = rng.NextUniform() < kTopicPart;
      const uint32_t word = of_topic
                                ? WordOfTopic(topics[rng.NextBelow(2)], DrawRank(kTopicWords, rng))
                                : static_cast<uint32_t>(DrawRank(kWords, rng));
      words[word] += 1;
    }
    for (const auto& [word, times] : words) {
      batch.features.push_back(RowId(word));
      batch.values.push_back(times);
    }
    batch.FinishSample();
  }
}

}  // namespace dslide::bench
