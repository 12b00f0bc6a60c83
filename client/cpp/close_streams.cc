#include <memory>
#include <thread>
#include <vector>

#include "absl/types/span.h"
#include "client/cpp/shard_stream.h"

namespace dslide {

void CloseStreams(absl::Span<const std::unique_ptr<ShardStream>> streams) {
  std::vector<std::thread> threads;
  for (const auto& stream : streams) {
    threads.emplace_back([&stream] { stream->Close().IgnoreError(); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace dslide
