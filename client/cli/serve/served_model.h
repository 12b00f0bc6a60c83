// The model that a server answers for: opened, asked, and opened anew when it or its cluster has
// changed.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cli/console/global_options.h"
#include "client/cli/serve/predict_batcher.h"
#include "client/cli/train/model_session.h"
#include "client/cli/train/prediction_text.h"
#include "core/base/clock.h"
#include "core/net/metrics/metrics.h"

namespace dslide::cli {

// What is known of a model while it stays as it is. All but the session's Rank...() may be used by
// any thread.
struct OpenModel {
  explicit OpenModel(std::unique_ptr<ModelSession> opened)
      : session(std::move(opened)), texts(EncoderOf(session->model())) {}

  const std::unique_ptr<ModelSession> session;
  const absl::StatusOr<TextEncoder> texts;  // not OK where features have no names

  const StoredModel& model() const { return session->model(); }
  bool has_memory() const { return session->components() != nullptr; }
  // Columns of hidden vectors; 0: it takes none.
  int64_t hidden_dim() const;
  bool hashes() const;
  int64_t num_labels() const;
  int64_t num_features() const;
};

struct ServedModelOptions {
  ModelOptions model;
  // How often a model of a cluster is looked at, for changes of what was read of it at the start.
  absl::Duration refresh = absl::Seconds(10);
  // How long a cluster and its model may take to be there. 0: they must be.
  absl::Duration patience = absl::ZeroDuration();
  // Hears whether the model can be asked, when that or its reason changes. From any thread.
  std::function<void(const absl::Status& health)> on_health = nullptr;
};

// Rows are read when they are asked for, so training shows at once. What a model with a memory
// derives from its records, and the names, are read when it is opened: a change of records or of
// the spec opens it anew, beside the queries that run.
//
// Thread safety: safe from any thread, Rank() from one.
class ServedModel {
 public:
  ServedModel(const GlobalOptions& global, ServedModelOptions options, Metrics& metrics,
              const Clock& clock = SteadyClock());
  ~ServedModel();
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  // Opens the model. That of a directory is open when this returns; that of a cluster is waited
  // for on a thread of its own, which tells `opened` when it is there, or why it is no longer
  // waited for. `opened` may be null. Called once. Errors: those of ModelSession::Open().
  absl::Status Start(std::function<void(const absl::Status&)> opened);

  // Shared with whoever prepares queries for it; null before it is open.
  std::shared_ptr<const OpenModel> current() const;

  // As RankQueries, for an open model. A cluster that does not answer, or whose shards have moved,
  // is connected to again until `deadline`.
  absl::StatusOr<std::vector<Prediction>> Rank(absl::Span<const RankQuery* const> queries,
                                               RankOptions options, absl::Duration deadline);

  // Ends the session; no Rank() runs any more. Errors: those of ModelSession::Close().
  absl::Status Close();

 private:
  absl::Status Reopen();
  // Whether what kept it from being opened may be over later.
  bool MayArrive(const absl::Status& status) const;
  // Opens it as soon as that is possible. False when it was stopped, or nobody waits any more.
  bool AwaitModel(const std::function<void(const absl::Status&)>& opened);
  // False when it was stopped meanwhile.
  bool Pause(absl::Duration pause);
  void Watch();
  // Opens it anew when it is no longer what was opened.
  absl::Status Refresh();
  void SetHealth(const absl::Status& health);
  bool of_cluster() const { return !options_.model.cluster.empty(); }

  const GlobalOptions global_;        // constant after construction
  const ServedModelOptions options_;  // constant after construction
  const Clock& clock_;
  const Counter opened_;
  absl::Mutex open_mu_;  // held while it is opened: one at a time
  mutable absl::Mutex mu_;
  std::shared_ptr<OpenModel> current_ ABSL_GUARDED_BY(mu_);  // shared with queries under way
  std::string opened_state_ ABSL_GUARDED_BY(mu_);            // what Refresh() compares
  bool healthy_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::thread watcher_;  // last; none for a model directory
};

}  // namespace dslide::cli
