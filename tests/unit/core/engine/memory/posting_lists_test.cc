#include "core/engine/memory/posting_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

using PlacesAndValues = std::vector<std::pair<uint32_t, float>>;

PlacesAndValues ListOf(const PostingLists& lists, uint32_t feature) {
  PlacesAndValues read;
  for (const Posting& posting : lists.Of(RowId(feature))) {
    read.emplace_back(posting.place, ToFloat(posting.value));
  }
  return read;
}

TEST(PostingLists, HaveTheLargestValueFirst) {
  PostingLists lists;
  PlacesAndValues expected;
  CounterRng rng(5);
  for (uint32_t place = 0; place < 500; ++place) {
    const BFloat16 value = ToBFloat16(static_cast<float>(rng.NextBelow(40)) / 8 - 2.05f);
    lists.Insert(RowId(3), {static_cast<uint16_t>(place * 131), value});
    expected.emplace_back(place * 131, ToFloat(value));
  }
  const auto before = [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  std::sort(expected.begin(), expected.end(), before);
  EXPECT_EQ(ListOf(lists, 3), expected);
  EXPECT_TRUE(lists.Of(RowId(2)).empty());
  EXPECT_TRUE(lists.Of(RowId(4)).empty());
  for (int i = 0; i < 250; ++i) {
    const auto gone =
        expected.begin() + static_cast<std::ptrdiff_t>(rng.NextBelow(expected.size()));
    lists.Remove(RowId(3), {static_cast<uint16_t>(gone->first), ToBFloat16(gone->second)});
    expected.erase(gone);
  }
  EXPECT_EQ(ListOf(lists, 3), expected);
}

TEST(PostingLists, APostingTakesLittleMoreThanFourBytes) {
  PostingLists lists;
  for (uint32_t place = 0; place < 50000; ++place) {
    lists.Insert(RowId(0), {static_cast<uint16_t>(place), ToBFloat16(1)});
  }
  EXPECT_LT(lists.memory_bytes(), 50000 * 4 * 5 / 4 + 100);
}

}  // namespace
}  // namespace dslide
