// Messages as slices of memory: between gRPC's ByteBuffer and bytes that core/wire reads in place.

#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace dslide {

// A received message, where the transport left it. The pieces live as long as this.
struct MessageSlices {
  std::vector<grpc::Slice> slices;
  std::vector<absl::string_view> pieces;
};

// Takes the message out of `buffer`, which is empty afterwards.
inline std::shared_ptr<const MessageSlices> TakeSlices(grpc::ByteBuffer& buffer) {
  auto message = std::make_shared<MessageSlices>();  // shared by a decoded command and its reader
  // An empty message has no buffer, and no slices.
  if (buffer.Valid() && buffer.Dump(&message->slices).ok()) {
    for (const grpc::Slice& slice : message->slices) {
      message->pieces.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  buffer.Clear();
  return message;
}

// A slice of memory that belongs to `owner`, which is destroyed with the slice's last reference, on
// any thread.
template <typename Owner>
grpc::Slice OwnedSlice(absl::string_view bytes, Owner owner) {
  return grpc::Slice(
      const_cast<char*>(bytes.data()), bytes.size(),
      [](void* data) { delete static_cast<Owner*>(data); }, new Owner(std::move(owner)));
}

}  // namespace dslide
