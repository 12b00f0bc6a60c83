#include "core/wire/bulk/bulk_fields.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "core/protocol/reason_words.h"
#include "core/wire/arrays/array_codec.h"

namespace dslide::wire {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// A stream over pieces.
class PieceStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit PieceStream(absl::Span<const absl::string_view> pieces) : pieces_(pieces) {}

  bool Next(const void** data, int* size) override {
    while (piece_ < pieces_.size() && offset_ == pieces_[piece_].size()) {
      ++piece_;
      offset_ = 0;
    }
    if (piece_ == pieces_.size()) return false;
    *data = pieces_[piece_].data() + offset_;
    *size = static_cast<int>(pieces_[piece_].size() - offset_);
    offset_ = pieces_[piece_].size();
    bytes_ += *size;
    return true;
  }
  void BackUp(int count) override {
    offset_ -= static_cast<size_t>(count);
    bytes_ -= count;
  }
  bool Skip(int count) override {
    const void* data = nullptr;
    int size = 0;
    while (count > 0) {
      if (!Next(&data, &size)) return false;
      if (size > count) BackUp(size - count);
      count -= std::min(size, count);
    }
    return true;
  }
  int64_t ByteCount() const override { return bytes_; }

 private:
  const absl::Span<const absl::string_view> pieces_;
  size_t piece_ = 0;
  size_t offset_ = 0;
  int64_t bytes_ = 0;
};

constexpr uint32_t BytesTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// Notes where a length-delimited field lies. As in protobuf, the last of several counts.
bool TakeBulk(CodedInputStream& in, BulkBytes& out) {
  uint32_t length = 0;
  if (!in.ReadVarint32(&length) || static_cast<int64_t>(length) > in.BytesUntilLimit()) {
    return false;
  }
  out = BulkBytes();
  out.size = length;
  auto left = static_cast<int>(length);
  while (left > 0) {
    const void* data = nullptr;
    int size = 0;
    if (!in.GetDirectBufferPointer(&data, &size)) return false;
    const int used = std::min(size, left);
    out.pieces.emplace_back(static_cast<const char*>(data), static_cast<size_t>(used));
    if (!in.Skip(used)) return false;
    left -= used;
  }
  return true;
}

// Walks over the fields up to the limit; `field(tag)` reads what is behind a tag.
template <typename Field>
bool ForFields(CodedInputStream& in, const Field& field) {
  for (;;) {
    const uint32_t tag = in.ReadTag();
    if (tag == 0) return in.ConsumedEntireMessage();
    if (!field(tag)) return false;
  }
}

// As ForFields over a message inside the present one.
template <typename Field>
bool ForInnerFields(CodedInputStream& in, const Field& field) {
  uint32_t length = 0;
  if (!in.ReadVarint32(&length) || static_cast<int64_t>(length) > in.BytesUntilLimit()) {
    return false;
  }
  const CodedInputStream::Limit outer = in.PushLimit(static_cast<int>(length));
  const bool good = ForFields(in, field);
  in.PopLimit(outer);
  return good;
}

bool TakeRows(CodedInputStream& in, CodedOutputStream& matrix, RowBlockFields& rows) {
  return ForInnerFields(in, [&](uint32_t tag) {
    switch (tag) {
      case BytesTag(v1::RowBlock::kRowIdsFieldNumber):
        return TakeBulk(in, rows.row_ids);
      case BytesTag(v1::RowBlock::kBiasesFieldNumber):
        return TakeBulk(in, rows.biases);
      case BytesTag(v1::RowBlock::kValuesFieldNumber):
        rows.has_values = true;
        return ForInnerFields(in, [&](uint32_t inner) {
          return inner == BytesTag(v1::Matrix::kDataFieldNumber)
                     ? TakeBulk(in, rows.data)
                     : WireFormatLite::SkipField(&in, inner, &matrix);
        });
      default:
        return WireFormatLite::SkipField(&in, tag);
    }
  });
}

template <typename Message>
absl::Status Split(absl::Span<const absl::string_view> message, const char* name, Message* rest,
                   RowBlockFields* rows) {
  *rows = RowBlockFields();
  int64_t size = 0;
  for (const absl::string_view piece : message) size += static_cast<int64_t>(piece.size());
  std::string rest_bytes;
  std::string matrix_bytes;
  bool good = size <= INT32_MAX;
  if (good) {
    PieceStream stream(message);
    CodedInputStream in(&stream);
    StringOutputStream rest_stream(&rest_bytes);
    StringOutputStream matrix_stream(&matrix_bytes);
    CodedOutputStream rest_out(&rest_stream);
    CodedOutputStream matrix_out(&matrix_stream);
    (void)in.PushLimit(static_cast<int>(size));  // the outermost: there is none to go back to
    good = ForFields(in, [&](uint32_t tag) {
      return tag == BytesTag(Message::kRowsFieldNumber)
                 ? TakeRows(in, matrix_out, *rows)
                 : WireFormatLite::SkipField(&in, tag, &rest_out);
    });
  }
  if (good && rest->ParseFromString(rest_bytes) && rows->matrix.ParseFromString(matrix_bytes)) {
    return absl::OkStatus();
  }
  return Refusal(reason::kBadMessage, name, "is cut or garbled: its bytes are no such message");
}

}  // namespace

void BulkBytes::CopyTo(char* out) const {
  for (const absl::string_view piece : pieces) {
    std::memcpy(out, piece.data(), piece.size());
    out += piece.size();
  }
}

absl::Status SplitScatterRequest(absl::Span<const absl::string_view> message,
                                 v1::ScatterRequest* rest, RowBlockFields* rows) {
  return Split(message, "ScatterRequest", rest, rows);
}

absl::Status SplitGatherResponse(absl::Span<const absl::string_view> message,
                                 v1::GatherResponse* rest, RowBlockFields* rows) {
  return Split(message, "GatherResponse", rest, rows);
}

absl::string_view RowCursor::Rest() {
  while (piece_ < pieces_.size() && offset_ == pieces_[piece_].size()) {
    ++piece_;
    offset_ = 0;
  }
  return piece_ == pieces_.size() ? absl::string_view() : pieces_[piece_].substr(offset_);
}

int64_t RowCursor::Together(int64_t most, const char** first) {
  const absl::string_view rest = Rest();
  const int64_t rows = std::min(most, static_cast<int64_t>(rest.size()) / row_bytes_);
  *first = rest.data();
  offset_ += static_cast<size_t>(rows * row_bytes_);
  return rows;
}

void RowCursor::CopyCut(char* out) {
  int64_t left = row_bytes_;
  while (left > 0) {
    const absl::string_view rest = Rest();
    const auto size = static_cast<size_t>(std::min(left, static_cast<int64_t>(rest.size())));
    std::memcpy(out, rest.data(), size);
    out += size;
    left -= static_cast<int64_t>(size);
    offset_ += size;
  }
}

}  // namespace dslide::wire
