// What a client did wrong, each kind told once, and a verdict for each chapter of the course.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
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
};
inline constexpr size_t kNumChapters = 11;

// "first-rows".
absl::string_view ChapterName(Chapter chapter);

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
  // `tell` is called with the first mistake of each kind, under a lock; null: nobody is told.
  explicit Verdicts(std::function<void(const Mistake&)> tell) : tell_(std::move(tell)) {}

  // The client has done what the chapter judges.
  void Saw(Chapter chapter) ABSL_LOCKS_EXCLUDED(mu_);
  // Mistakes of one chapter, call and field are one kind: the first is kept, the others counted.
  void Add(Mistake mistake) ABSL_LOCKS_EXCLUDED(mu_);

  // Every chapter was seen, and nothing was wrong.
  bool Passed() const ABSL_LOCKS_EXCLUDED(mu_);
  // {"passed": false, "chapters": [{"chapter", "verdict": "pass" | "fail" | "not seen",
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

  const std::function<void(const Mistake&)> tell_;
  mutable absl::Mutex mu_;
  std::array<ChapterState, kNumChapters> chapters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::cli
