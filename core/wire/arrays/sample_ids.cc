#include "core/wire/arrays/sample_ids.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/array_codec.h"

namespace dslide::wire {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// Of a number below 2^32.
constexpr size_t kMaxVarintBytes = 5;

class PackedReader {
 public:
  PackedReader(const std::string& field, const std::string& bytes)
      : field_(field),
        size_(static_cast<int64_t>(bytes.size())),
        input_(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size())) {}

  int64_t remaining() const { return size_ - input_.CurrentPosition(); }

  absl::StatusOr<uint64_t> Next() {
    uint64_t value = 0;
    if (input_.ReadVarint64(&value)) return value;
    return Refusal(reason::kBadSize, field_,
                   absl::StrCat("ends within a number, after ", size_, " bytes"));
  }

  // Appends the ids of one sample.
  absl::Status Read(int64_t max_ids, std::vector<RowId>& rows) {
    ASSIGN_OR_RETURN(const uint64_t count, Next());
    // Each id takes a byte at least: a count is believed only when the bytes are there.
    if (count > static_cast<uint64_t>(remaining())) {
      return Refusal(
          reason::kBadSize, field_,
          absl::StrCat("announces ", count, " ids where ", remaining(), " bytes are left"));
    }
    if (static_cast<int64_t>(rows.size() + count) > max_ids) {
      return Refusal(reason::kOverLimit, field_, absl::StrCat("has more than ", max_ids, " ids"));
    }
    uint64_t next = 0;
    for (uint64_t i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(const uint64_t distance, Next());
      if (distance >= kMaxTableRows || next + distance >= kMaxTableRows) {
        return Refusal(reason::kBadRowId, field_,
                       absl::StrCat("has row ", next, " + ", distance, " at position ", rows.size(),
                                    ", must be below ", kMaxTableRows));
      }
      rows.emplace_back(static_cast<uint32_t>(next + distance));
      next += distance + 1;
    }
    return absl::OkStatus();
  }

 private:
  const std::string& field_;
  const int64_t size_;
  CodedInputStream input_;
};

absl::StatusOr<SampleIds> DecodePacked(const std::string& field, const std::string& bytes,
                                       int64_t batch, int64_t max_ids) {
  PackedReader reader(field, bytes);
  SampleIds ids;
  ids.offsets.reserve(batch + 1);
  ids.offsets.push_back(0);
  ids.rows.reserve(std::min<int64_t>(reader.remaining(), max_ids));
  for (int64_t sample = 0; sample < batch; ++sample) {
    RETURN_IF_ERROR(reader.Read(max_ids, ids.rows));
    ids.offsets.push_back(static_cast<uint32_t>(ids.rows.size()));
  }
  if (reader.remaining() == 0) return ids;
  return Refusal(
      reason::kBadSize, field,
      absl::StrCat("has ", reader.remaining(), " bytes behind the ids of ", batch, " samples"));
}

}  // namespace

absl::StatusOr<SampleIds> DecodeSampleIds(const SampleIdFields& fields, int64_t batch,
                                          int64_t max_ids) {
  if (!fields.packed.empty()) {
    const std::string name = fields.message.empty()
                                 ? std::string(fields.packed_name)
                                 : absl::StrCat(fields.message, ".", fields.packed_name);
    if (fields.offsets.empty() && fields.ids.empty()) {
      return DecodePacked(name, fields.packed, batch, max_ids);
    }
    return Refusal(reason::kBadSize, name,
                   absl::StrCat("is there beside ", fields.offsets_name, " or ", fields.ids_name,
                                ": use one form"));
  }
  SampleIds ids;
  ASSIGN_OR_RETURN(ids.offsets,
                   DecodeOffsets(absl::StrCat(fields.message, ".", fields.offsets_name),
                                 fields.offsets, Count::Exactly(batch)));
  const std::string name = absl::StrCat(fields.message, ".", fields.ids_name);
  ASSIGN_OR_RETURN(ids.rows, DecodeRowIds(name, fields.ids, Count::Exactly(ids.offsets.back())));
  RETURN_IF_ERROR(CheckAscendingInSamples(name, ids.offsets, ids.rows));
  return ids;
}

void EncodePackedIds(absl::Span<const uint32_t> offsets, absl::Span<const RowId> rows,
                     std::string* out) {
  out->resize((offsets.size() + rows.size()) * kMaxVarintBytes);
  auto* const begin = reinterpret_cast<uint8_t*>(out->data());
  uint8_t* end = begin;
  for (size_t sample = 0; sample + 1 < offsets.size(); ++sample) {
    end = CodedOutputStream::WriteVarint32ToArray(offsets[sample + 1] - offsets[sample], end);
    uint32_t next = 0;
    for (uint32_t i = offsets[sample]; i < offsets[sample + 1]; ++i) {
      end = CodedOutputStream::WriteVarint32ToArray(rows[i].value() - next, end);
      next = rows[i].value() + 1;
    }
  }
  out->resize(end - begin);
}

}  // namespace dslide::wire
