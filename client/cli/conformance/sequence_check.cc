#include "client/cli/conformance/sequence_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace dslide::cli {
namespace {

constexpr char kIdentity[] = "identity-and-sequence";

// One mistake of a mutation: where it was is the same for all of them.
class MistakeAt {
 public:
  MistakeAt(const Mutation& mutation, Verdicts& verdicts)
      : mutation_(mutation), verdicts_(verdicts) {}

  void Tell(Chapter chapter, absl::string_view field, std::string found, std::string expected) {
    verdicts_.Add({.chapter = chapter,
                   .call = std::string(mutation_.call),
                   .where = absl::StrCat("shard ", mutation_.shard, ", sequence ",
                                         mutation_.envelope.sequence()),
                   .field = std::string(field),
                   .found = std::move(found),
                   .expected = std::move(expected),
                   .section = kIdentity});
  }

 private:
  const Mutation& mutation_;
  Verdicts& verdicts_;
};

}  // namespace

void SequenceCheck::Greeted(int shard, const v1::HelloRequest& request, uint64_t generation) {
  const absl::MutexLock lock(&mu_);
  verdicts_.Saw(Chapter::kSequence);
  Line& line = lines_[{request.client_id(), shard}];
  line.job = request.job();
  line.generation = generation;
  line.stale = 0;
  if (request.acknowledged_sequence() > line.answered) {
    verdicts_.Add({.chapter = Chapter::kSequence,
                   .call = "Hello",
                   .where = absl::StrCat("shard ", shard),
                   .field = "acknowledged_sequence",
                   .found = absl::StrCat(request.acknowledged_sequence()),
                   .expected = absl::StrCat(line.answered, ", the highest that was answered"),
                   .section = kIdentity});
  }
}

void SequenceCheck::Closed(int shard, const v1::CloseClientRequest& request) {
  const absl::MutexLock lock(&mu_);
  const auto found = lines_.find({request.client_id(), shard});
  if (found == lines_.end()) return;
  found->second.closed = true;
  if (request.job() == found->second.job) return;
  verdicts_.Add({.chapter = Chapter::kSequence,
                 .call = "CloseClient",
                 .where = absl::StrCat("shard ", shard),
                 .field = "job",
                 .found = absl::StrCat("\"", request.job(), "\""),
                 .expected = absl::StrCat("\"", found->second.job, "\", that of the Hello"),
                 .section = kIdentity});
}

void SequenceCheck::CheckEnvelope(const Mutation& mutation, Line& line) {
  MistakeAt mistake(mutation, verdicts_);
  const v1::RequestEnvelope& envelope = mutation.envelope;
  if (envelope.job() != line.job) {
    mistake.Tell(Chapter::kSequence, "envelope.job", absl::StrCat("\"", envelope.job(), "\""),
                 absl::StrCat("\"", line.job, "\", that of the Hello"));
  }
  if (envelope.topology_version() != topology_version_) {
    mistake.Tell(Chapter::kSequence, "envelope.topology_version",
                 absl::StrCat(envelope.topology_version()),
                 absl::StrCat(topology_version_, ", that of the cluster map"));
  }
  const uint64_t first = envelope.first_incomplete();
  if (first == 0 || first > envelope.sequence()) {
    mistake.Tell(Chapter::kSequence, "envelope.first_incomplete", absl::StrCat(first),
                 absl::StrCat("from 1 to the sequence, ", envelope.sequence()));
  }
}

void SequenceCheck::CheckGeneration(const Mutation& mutation, Line& line) {
  const v1::RequestEnvelope& envelope = mutation.envelope;
  if (envelope.generation() == mutation.generation) return;
  MistakeAt mistake(mutation, verdicts_);
  const std::string now = absl::StrCat(mutation.generation, ", that of the answer to Hello");
  if (envelope.generation() != line.generation) {
    mistake.Tell(Chapter::kSequence, "envelope.generation", absl::StrCat(envelope.generation()),
                 now);
    return;
  }
  // Another process owns the shard since; the first refusal tells the client.
  if (line.stale == envelope.sequence()) {
    mistake.Tell(Chapter::kRecovery, "envelope.generation",
                 absl::StrCat(envelope.generation(), " again after STALE_GENERATION"),
                 absl::StrCat(mutation.generation,
                              ": say Hello to the shard's new owner, then send the same again"));
  }
  line.stale = envelope.sequence();
}

bool SequenceCheck::Recovers(const Mutation& mutation, Line& line) {
  if (!line.lost.has_value()) return true;
  const uint64_t lost = *line.lost;
  const uint64_t sequence = mutation.envelope.sequence();
  if (sequence < lost) return true;
  line.lost.reset();
  verdicts_.Saw(Chapter::kRecovery);
  if (sequence == lost) return true;  // whether it is unchanged is looked at with all repetitions
  MistakeAt mistake(mutation, verdicts_);
  const bool same = line.content[lost] == mutation.content;
  mistake.Tell(Chapter::kRecovery, "envelope.sequence",
               same ? absl::StrCat(sequence, " with the content of ", lost,
                                   ", whose answer was lost: it would be applied twice")
                    : absl::StrCat(sequence, " although ", lost, " has no answer"),
               absl::StrCat(lost, ": what has no answer is sent again unchanged, oldest first"));
  line.highest = std::max(line.highest, sequence);
  line.content[sequence] = std::string(mutation.content);
  return false;
}

Freshness SequenceCheck::Number(const Mutation& mutation, Line& line) {
  MistakeAt mistake(mutation, verdicts_);
  const uint64_t sequence = mutation.envelope.sequence();
  const auto before = line.content.find(sequence);
  if (before != line.content.end()) {
    if (before->second == mutation.content) return Freshness::kRepeated;
    mistake.Tell(Chapter::kSequence, "envelope.sequence",
                 absl::StrCat(sequence, ", which came before with another content"),
                 absl::StrCat(line.highest + 1,
                              ": a number belongs to one content, and a repetition is unchanged"));
    return Freshness::kWrong;
  }
  const uint64_t next = line.highest + 1;
  line.content[sequence] = std::string(mutation.content);
  if (sequence != next) {
    mistake.Tell(Chapter::kSequence, "envelope.sequence", absl::StrCat(sequence),
                 absl::StrCat(next,
                              ": this client's changes on this shard count 1, 2, 3, ... "
                              "without gaps"));
    line.highest = std::max(line.highest, sequence);
    return Freshness::kWrong;
  }
  line.highest = sequence;
  return Freshness::kNew;
}

Freshness SequenceCheck::Look(const Mutation& mutation) {
  const absl::MutexLock lock(&mu_);
  verdicts_.Saw(Chapter::kSequence);
  MistakeAt mistake(mutation, verdicts_);
  const std::string& client = mutation.envelope.client_id();
  const auto found = lines_.find({client, mutation.shard});
  if (found == lines_.end()) {
    mistake.Tell(Chapter::kSequence, "envelope.client_id",
                 absl::StrCat(client.size(), " bytes that the shard has not been greeted with"),
                 "the 16 bytes of a Hello to this shard");
    return Freshness::kWrong;
  }
  Line& line = found->second;
  CheckEnvelope(mutation, line);
  CheckGeneration(mutation, line);
  if (!Recovers(mutation, line)) return Freshness::kWrong;
  return Number(mutation, line);
}

void SequenceCheck::Answered(int shard, const std::string& client, uint64_t sequence) {
  const absl::MutexLock lock(&mu_);
  const auto found = lines_.find({client, shard});
  if (found == lines_.end()) return;
  found->second.answered = std::max(found->second.answered, sequence);
}

void SequenceCheck::Lost(int shard, const std::string& client, uint64_t sequence) {
  const absl::MutexLock lock(&mu_);
  const auto found = lines_.find({client, shard});
  if (found != lines_.end()) found->second.lost = sequence;
}

void SequenceCheck::Finish() {
  const absl::MutexLock lock(&mu_);
  for (const auto& [key, line] : lines_) {
    const std::string where = absl::StrCat("shard ", key.second, ", job ", line.job);
    if (line.lost.has_value()) {
      verdicts_.Add({.chapter = Chapter::kRecovery,
                     .call = "a change of rows",
                     .where = where,
                     .field = "envelope.sequence",
                     .found = "never sent again",
                     .expected = absl::StrCat(*line.lost, ", whose answer was lost, once more"),
                     .section = kIdentity});
    }
    if (line.stale != 0) {
      verdicts_.Add({.chapter = Chapter::kRecovery,
                     .call = "Hello",
                     .where = where,
                     .field = "generation",
                     .found = "not asked for after STALE_GENERATION",
                     .expected = "one Hello to the shard's new owner, then the same again with "
                                 "its generation",
                     .section = kIdentity});
    }
    if (line.closed) continue;
    verdicts_.Add({.chapter = Chapter::kSequence,
                   .call = "CloseClient",
                   .where = where,
                   .field = "client_id",
                   .found = "never sent",
                   .expected = "one call on each shard that was greeted, at the end",
                   .section = kIdentity});
  }
}

}  // namespace dslide::cli
