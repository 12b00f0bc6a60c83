// A set of labelled points that a trainer can read in any order.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/engine/data/sparse_batch.h"

namespace dslide {

// Points 0 .. num_points() - 1 with sparse inputs and label sets. Immutable once opened.
//
// Thread safety: safe from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Where the data came from: the path given to Open(). For messages.
  virtual const std::string& path() const = 0;

  virtual int64_t num_points() const = 0;    // >= 1
  virtual int64_t num_features() const = 0;  // feature ids are in [0, num_features)
  virtual int64_t num_labels() const = 0;    // label ids are in [0, num_labels)

  // Replaces *batch by the given points, in the given order; a point may occur more than once.
  // Values are as in the file: see ApplyTransform() in transform.h. The cost is that of parsing the
  // points' own lines, on the calling thread.
  //
  // Errors: OutOfRange naming the point; DataLoss when the file changed since it was opened. The
  // batch is then empty.
  virtual absl::Status ReadSamples(absl::Span<const int64_t> points, SparseBatch* batch) const = 0;

  // Names for people; empty when none are known. Views live as long as the dataset.
  virtual absl::string_view FeatureName(int64_t feature) const = 0;
  virtual absl::string_view LabelName(int64_t label) const = 0;

  // Points of the whole set in which each feature occurs, [num_features]; empty when it was not
  // asked for at Open().
  virtual absl::Span<const int64_t> DocumentFrequency() const = 0;

  // Points of the whole set with each label, [num_labels]; empty when nobody counted:
  // CountLabels() does.
  virtual absl::Span<const int64_t> LabelFrequency() const { return {}; }

  // A number that differs, almost surely, between different data: made of the shape, the size and a
  // sample of the content. All trainers of one job must agree on it. Equal on all machines.
  virtual uint64_t Fingerprint() const = 0;

  // What people should know of how the data was opened, one sentence each.
  virtual const std::vector<std::string>& Notes() const {
    static const std::vector<std::string> none;
    return none;
  }
};

}  // namespace dslide
