// How the stored rows of a table of floats become tensors, and tensors rows again.
//
// A table `t` of [rows, dim] is exported as
//
//   t.weight     [rows, dim]   what predictions read: f32, or bf16 where rows are kept in bf16.
//                              Of a table that keeps averages the averages, always f32
//   t.bias       [rows]        f32; not of an embedding
//
// and with the optimizer's state, so that every bit of every row comes back,
//
//   t.raw_weight, t.raw_bias   of a table that keeps averages: what training goes on from
//   t.state.0, ...             [rows, dim] vectors of the optimizer, the average's lag last
//   t.bias_state, t.row_state  [rows, n] f32
//   t.last_step                [rows] u32: the update in which the row last changed

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/export/tensor_info.h"
#include "core/engine/rows/aligned_floats.h"
#include "core/engine/rows/row_store.h"
#include "core/spec/model_spec.h"

namespace dslide {

// Not thread-safe.
class RowFields {
 public:
  // table: of floats, its sizes set. Errors: those of RowStore::Create().
  static absl::StatusOr<RowFields> Create(const TableSpec& table, bool with_state);

  // In the order in which a row's parts come below.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  // Splits a row as it is stored after update number `applied` of its table. parts: [tensors], the
  // row's bytes of each; valid until the next call. Returns what RecordDigest() makes of the record
  // that Join() will give.
  // Errors: InvalidArgument when it is no row of this table.
  absl::StatusOr<uint64_t> Split(RowId row, absl::Span<const char> record, Step applied,
                                 std::vector<absl::string_view>* parts);

  // Puts a row together again, without state as one that was never updated. parts: as above.
  // Valid until the next call.
  absl::Span<const char> Join(absl::Span<const absl::string_view> parts);

 private:
  struct Place {
    int64_t offset = 0;  // in the record; -1: computed, no part of a record that has a state
    int64_t bytes = 0;
  };

  RowFields(const TableSpec& table, bool with_state, std::unique_ptr<RowStore> store);
  void Add(const std::string& suffix, TensorType type, std::vector<int64_t> row_shape, Place place);
  void PutWeights(absl::string_view weights);

  const TableSpec table_;
  const RowLayout layout_;
  const bool with_state_;
  std::unique_ptr<RowStore> store_;  // of one row: knows what an average is
  std::vector<TensorInfo> tensors_;
  std::vector<Place> places_;  // [tensors]
  AlignedFloats average_;      // [stride]
  float average_bias_ = 0.0f;
  std::string stored_;  // the row that was split
  std::string joined_;
};

}  // namespace dslide
