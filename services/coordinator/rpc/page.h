// Lists in pages: how a request names one, and where the next begins.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide::coordinator {

inline constexpr int32_t kDefaultPageSize = 100;
inline constexpr int32_t kMaxPageSize = 1000;
// A page takes no other entry when it has so many: a message holds 4 MiB.
inline constexpr size_t kMaxPageBytes = size_t{1} << 20;

struct Page {
  int64_t size = kDefaultPageSize;
  std::string after;  // the key of the last entry of the page before; "": from the beginning
};

// list: a word for the list, so that no token of another one is taken.
// Errors: InvalidArgument OUT_OF_RANGE, BAD_PAGE_TOKEN.
absl::StatusOr<Page> DecodePage(absl::string_view list, int32_t page_size,
                                absl::string_view page_token);
// The same for a list whose keys are numbers, which fall; `after` is the last one, UINT64_MAX at
// the beginning.
struct NumberedPage {
  int64_t size = kDefaultPageSize;
  uint64_t after = UINT64_MAX;
};
absl::StatusOr<NumberedPage> DecodeNumberedPage(absl::string_view list, int32_t page_size,
                                                absl::string_view page_token);

// Counts what is on a page.
class PageMeter {
 public:
  explicit PageMeter(int64_t size) : size_(size) {}
  // The next entry belongs to the next page.
  bool full() const { return entries_ >= size_ || bytes_ >= kMaxPageBytes; }
  template <typename Message>
  void Add(const Message& entry) {
    ++entries_;
    bytes_ += entry.ByteSizeLong();
  }

 private:
  const int64_t size_;
  int64_t entries_ = 0;
  size_t bytes_ = 0;
};

// The token of the page behind the entry with that key.
std::string EncodePageToken(absl::string_view list, absl::string_view key);

}  // namespace dslide::coordinator
