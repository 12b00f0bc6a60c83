// What a client did wrong, each kind told once, and a verdict for each chapter of the course.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace dslide::cli {

enum class Chapter {
  kConnecting,  // deadlines, request ids, the cluster map
  kModels,      // specs as they were announced
  kOwners,      // who owns a row
  kGather,
  kScatter,
  kSequence,  // numbers of changes, generations, the end of a client
  kRecovery,  // lost answers, busy shards, a shard that another process owns
  kFirstRows,
  kTopK,
  kJobs,
  kTraining,
  kDense,    // layers between the embedding and the head
  kDropout,  // of features and of hidden units
  kSigmoid,  // the loss of that name
};
inline constexpr size_t kNumChapters = 14;

// "first-rows".
absl::string_view ChapterName(Chapter chapter);

// The chapters that a client takes.
class ChapterSet {
 public:
  // "gather,scatter"; empty: all. Errors: InvalidArgument that names the known ones.
  static absl::StatusOr<ChapterSet> Parse(absl::string_view names);
  static ChapterSet All();

  bool has(Chapter chapter) const { return taken_[static_cast<size_t>(chapter)]; }
  // Names of those that are not in it.
  std::vector<std::string> LeftOut() const;

 private:
  std::array<bool, kNumChapters> taken_ = {};
};

struct Mistake {
  Chapter chapter = Chapter::kConnecting;
  std::string call = {};      // "EmbedForward"
  std::string where = {};     // "shard 1, step 7, sample 3"
  std::string field = {};     // "packed_row_ids"
  std::string found = {};     // values, or what was done
  std::string expected = {};  // the same
  std::string section = {};   // of docs/understand/wire.md: "training"
};

// "EmbedForward (shard 1, step 7, sample 3): packed_row_ids is ..., must be ...; see ...".
std::string Describe(const Mistake& mistake);

// Thread safety: safe from any thread.
class Verdicts {
 public:
  // `tell` is called with the first mistake of each kind, under a lock; null: nobody is told. What
  // is wrong in a chapter that is not in `chapters` is nobody's business.
  Verdicts(ChapterSet chapters, std::function<void(const Mistake&)> tell)
      : chapters_taken_(chapters), tell_(std::move(tell)) {}

  // The client has done what the chapter judges.
  void Saw(Chapter chapter) ABSL_LOCKS_EXCLUDED(mu_);
  // Mistakes of one chapter, call and field are one kind: the first is kept, the others counted.
  void Add(Mistake mistake) ABSL_LOCKS_EXCLUDED(mu_);

  // Every chapter that the client takes was seen, and nothing was wrong.
  bool Passed() const ABSL_LOCKS_EXCLUDED(mu_);
  // {"passed": false, "chapters": [{"chapter", "verdict": "pass" | "fail" | "not seen" |
  // "left out",
  // "mistakes": [{"call", "where", "field", "found", "expected", "see", "times"}]}]}.
  nlohmann::ordered_json Json() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Told {
    Mistake mistake;
    int64_t times = 1;
  };
  struct ChapterState {
    bool seen = false;
    std::vector<Told> told;
  };

  const ChapterSet chapters_taken_;
  const std::function<void(const Mistake&)> tell_;
  mutable absl::Mutex mu_;
  std::array<ChapterState, kNumChapters> chapters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::cli
