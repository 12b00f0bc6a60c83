// Bytes and messages between this client and the servers, by method and direction.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dslide {

class Metrics;

// The methods that are told apart; the control plane's small calls are one.
enum class WireMethod { kStep, kRead, kGather, kScatter, kTopK, kShardControl, kCoordinator };
inline constexpr size_t kWireMethods = 7;
const char* WireMethodName(WireMethod method);

struct WireTraffic {
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
  int64_t messages_sent = 0;
  int64_t messages_received = 0;
};

// Counts a message as its serialized size plus the 5 bytes of gRPC's length prefix; HTTP/2 frames
// (9 bytes per 16 KiB), headers and TCP are not counted.
//
// Thread safety: safe from any thread; relaxed atomics, the numbers of one message may be seen one
// before the other.
class WireCounters {
 public:
  static constexpr int64_t kPrefixBytes = 5;

  void AddSent(WireMethod method, size_t serialized_bytes);
  void AddReceived(WireMethod method, size_t serialized_bytes);

  WireTraffic Of(WireMethod method) const;
  WireTraffic Total() const;

  // Shows the counts as dslide_<service>_{sent,received}_{bytes,messages}_total{method=...}.
  // `metrics` must outlive this object, or RemoveCallbacks(this) be called first.
  void Export(Metrics& metrics, const char* service) const;

 private:
  struct Cell {
    std::atomic<int64_t> bytes_sent{0};
    std::atomic<int64_t> bytes_received{0};
    std::atomic<int64_t> messages_sent{0};
    std::atomic<int64_t> messages_received{0};
  };
  std::array<Cell, kWireMethods> cells_;
};

}  // namespace dslide
