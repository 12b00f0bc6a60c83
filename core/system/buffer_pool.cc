#include "core/system/buffer_pool.h"

#include <new>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dslide {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

struct PooledBuffer::State {
  State(int64_t buffer, int64_t keep) : buffer_bytes(buffer), keep_bytes(keep) {}
  ~State() {
    for (char* const data : free) ::operator delete(data, kAlignment);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const int64_t buffer_bytes;
  const int64_t keep_bytes;
  absl::Mutex mu;
  std::vector<char*> free ABSL_GUARDED_BY(mu);
  int64_t used ABSL_GUARDED_BY(mu) = 0;  // buffers
};

PooledBuffer::~PooledBuffer() {
  if (data_ == nullptr) return;
  {
    const absl::MutexLock lock(&pool_->mu);
    --pool_->used;
    const auto kept = static_cast<int64_t>(pool_->free.size()) * pool_->buffer_bytes;
    if (kept + pool_->buffer_bytes <= pool_->keep_bytes) {
      pool_->free.push_back(data_);
      return;
    }
  }
  ::operator delete(data_, kAlignment);
}

PooledBuffer::PooledBuffer(PooledBuffer&& other) noexcept { *this = std::move(other); }

PooledBuffer& PooledBuffer::operator=(PooledBuffer&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(data_, other.data_);
  return *this;
}

int64_t PooledBuffer::size() const { return data_ == nullptr ? 0 : pool_->buffer_bytes; }

BufferPool::BufferPool(int64_t buffer_bytes, int64_t keep_bytes)
    : state_(std::make_shared<PooledBuffer::State>(buffer_bytes, keep_bytes)) {}

PooledBuffer BufferPool::Take() {
  PooledBuffer buffer;
  buffer.pool_ = state_;
  {
    const absl::MutexLock lock(&state_->mu);
    ++state_->used;
    if (!state_->free.empty()) {
      buffer.data_ = state_->free.back();
      state_->free.pop_back();
      return buffer;
    }
  }
  buffer.data_ =
      static_cast<char*>(::operator new(static_cast<size_t>(state_->buffer_bytes), kAlignment));
  return buffer;
}

int64_t BufferPool::used_bytes() const {
  const absl::MutexLock lock(&state_->mu);
  return state_->used * state_->buffer_bytes;
}

int64_t BufferPool::free_bytes() const {
  const absl::MutexLock lock(&state_->mu);
  return static_cast<int64_t>(state_->free.size()) * state_->buffer_bytes;
}

}  // namespace dslide
