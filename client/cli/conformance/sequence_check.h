// Whether a client numbers its changes as it must, says Hello and good-bye, and sends again
// unchanged what has no answer.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "client/cli/conformance/verdicts.h"
#include "dslide/v1/common.pb.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::cli {

// A change of rows, or an operation of a step, as it arrived.
struct Mutation {
  int shard = 0;
  absl::string_view call;  // "Scatter", "HeadForward"
  const v1::RequestEnvelope& envelope;
  absl::string_view content;  // all but the envelope, as bytes
  uint64_t generation = 0;    // of the shard now
};

enum class Freshness {
  kNew,       // the client's next one: its content is to be looked at
  kRepeated,  // was here before
  kWrong,     // told of here; what it contains is not the next thing that the client does
};

// Thread safety: safe from any thread.
class SequenceCheck {
 public:
  // `verdicts` outlives it.
  SequenceCheck(uint64_t topology_version, Verdicts& verdicts)
      : topology_version_(topology_version), verdicts_(verdicts) {}

  // A greeting that the shard has answered.
  void Greeted(int shard, const v1::HelloRequest& request, uint64_t generation)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Closed(int shard, const v1::CloseClientRequest& request) ABSL_LOCKS_EXCLUDED(mu_);
  Freshness Look(const Mutation& mutation) ABSL_LOCKS_EXCLUDED(mu_);
  // The answer is on its way to the client: a success or an error that uses the number up.
  void Answered(int shard, const std::string& client, uint64_t sequence) ABSL_LOCKS_EXCLUDED(mu_);
  // The shard has applied it, and the client is never told.
  void Lost(int shard, const std::string& client, uint64_t sequence) ABSL_LOCKS_EXCLUDED(mu_);
  // The client is done: what was to come has come.
  void Finish() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Line {  // of one client at one shard
    std::string job;
    bool closed = false;
    uint64_t generation = 0;  // as the last greeting was answered
    uint64_t highest = 0;
    uint64_t answered = 0;  // the highest
    std::optional<uint64_t> lost;
    uint64_t stale = 0;                       // was refused for its generation since then
    std::map<uint64_t, std::string> content;  // by sequence
  };
  using Key = std::pair<std::string, int>;  // client, shard

  void CheckEnvelope(const Mutation& mutation, Line& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CheckGeneration(const Mutation& mutation, Line& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether an answer that was lost is asked for as it must be; tells where it is not.
  bool Recovers(const Mutation& mutation, Line& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Freshness Number(const Mutation& mutation, Line& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t topology_version_;
  Verdicts& verdicts_;
  absl::Mutex mu_;
  std::map<Key, Line> lines_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::cli
