#include "bench/common/machine.h"

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

namespace dslide::bench {
namespace {

TEST(ProcessorNameTest, IsTheFirstModelName) {
  EXPECT_EQ(ProcessorName("processor\t: 0\nmodel\t\t: 207\nmodel name\t: A CPU @ 2 GHz\n"
                          "model name\t: Other\n"),
            "A CPU @ 2 GHz");
  EXPECT_EQ(ProcessorName("model name\t:\nprocessor: 1\n"), "unknown");
  EXPECT_EQ(ProcessorName(""), "unknown");
}

TEST(DescribeMachineTest, HasWhatEveryFigureIsReadWith) {
  const nlohmann::ordered_json machine = DescribeMachine();
  for (const char* field :
       {"commit", "cpu", "processors", "memory_bytes", "instruction_set", "date"}) {
    EXPECT_TRUE(machine.contains(field)) << field;
  }
  EXPECT_GE(machine["processors"], 1);
  EXPECT_EQ(machine["date"].get<std::string>().size(),
            std::string("2026-01-01T00:00:00+00:00").size());
}

}  // namespace
}  // namespace dslide::bench
