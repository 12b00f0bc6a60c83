#include "client/cpp/wire_counters.h"

#include "absl/strings/str_cat.h"
#include "core/net/metrics/metrics.h"

namespace dslide {

const char* WireMethodName(WireMethod method) {
  switch (method) {
    case WireMethod::kStep:
      return "Step";
    case WireMethod::kRead:
      return "Read";
    case WireMethod::kGather:
      return "Gather";
    case WireMethod::kScatter:
      return "Scatter";
    case WireMethod::kTopK:
      return "TopK";
    case WireMethod::kShardControl:
      return "shard-control";
    case WireMethod::kCoordinator:
      return "coordinator";
  }
  return "unknown";
}

void WireCounters::AddSent(WireMethod method, size_t serialized_bytes) {
  Cell& cell = cells_[static_cast<size_t>(method)];
  cell.bytes_sent.fetch_add(static_cast<int64_t>(serialized_bytes) + kPrefixBytes,
                            std::memory_order_relaxed);
  cell.messages_sent.fetch_add(1, std::memory_order_relaxed);
}

void WireCounters::AddReceived(WireMethod method, size_t serialized_bytes) {
  Cell& cell = cells_[static_cast<size_t>(method)];
  cell.bytes_received.fetch_add(static_cast<int64_t>(serialized_bytes) + kPrefixBytes,
                                std::memory_order_relaxed);
  cell.messages_received.fetch_add(1, std::memory_order_relaxed);
}

WireTraffic WireCounters::Of(WireMethod method) const {
  const Cell& cell = cells_[static_cast<size_t>(method)];
  WireTraffic traffic;
  traffic.bytes_sent = cell.bytes_sent.load(std::memory_order_relaxed);
  traffic.bytes_received = cell.bytes_received.load(std::memory_order_relaxed);
  traffic.messages_sent = cell.messages_sent.load(std::memory_order_relaxed);
  traffic.messages_received = cell.messages_received.load(std::memory_order_relaxed);
  return traffic;
}

WireTraffic WireCounters::Total() const {
  WireTraffic total;
  for (size_t m = 0; m < kWireMethods; ++m) {
    const WireTraffic part = Of(static_cast<WireMethod>(m));
    total.bytes_sent += part.bytes_sent;
    total.bytes_received += part.bytes_received;
    total.messages_sent += part.messages_sent;
    total.messages_received += part.messages_received;
  }
  return total;
}

void WireCounters::Export(Metrics& metrics, const char* service) const {
  for (size_t m = 0; m < kWireMethods; ++m) {
    const auto method = static_cast<WireMethod>(m);
    const MetricLabels labels = {{"method", WireMethodName(method)}};
    const std::string prefix = absl::StrCat("dslide_", service, "_");
    metrics.AddCounterCallback(this, prefix + "sent_bytes_total",
                               "Bytes of the messages sent, with gRPC's length prefix.", labels,
                               [this, method] { return double(Of(method).bytes_sent); });
    metrics.AddCounterCallback(this, prefix + "received_bytes_total",
                               "Bytes of the messages received, with gRPC's length prefix.", labels,
                               [this, method] { return double(Of(method).bytes_received); });
    metrics.AddCounterCallback(this, prefix + "sent_messages_total", "Messages sent.", labels,
                               [this, method] { return double(Of(method).messages_sent); });
    metrics.AddCounterCallback(this, prefix + "received_messages_total", "Messages received.",
                               labels,
                               [this, method] { return double(Of(method).messages_received); });
  }
}

}  // namespace dslide
