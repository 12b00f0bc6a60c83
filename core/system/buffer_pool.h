// Buffers of one size that are used again: fresh memory costs more than what is written into it.

#pragma once

#include <cstdint>
#include <memory>

namespace dslide {

// A buffer on loan; goes back to its pool when destroyed. Movable, not copyable; may outlive the
// pool object, and may be destroyed on any thread.
class PooledBuffer {
 public:
  PooledBuffer() = default;
  ~PooledBuffer();
  PooledBuffer(PooledBuffer&& other) noexcept;
  PooledBuffer& operator=(PooledBuffer&& other) noexcept;

  // [size()] bytes on a 64-byte boundary, with whatever was in them.
  char* data() { return data_; }
  const char* data() const { return data_; }
  int64_t size() const;

 private:
  friend class BufferPool;
  struct State;

  std::shared_ptr<State> pool_;  // shared with the pool and the other buffers
  char* data_ = nullptr;
};

// Thread safety: safe from any thread. Buffers used last are given out first: they are still in the
// cache.
class BufferPool {
 public:
  // Keeps at most `keep_bytes` of buffers that nobody uses; more are freed as they come back.
  BufferPool(int64_t buffer_bytes, int64_t keep_bytes);

  PooledBuffer Take();

  // Memory of the buffers that are out, and of those that wait.
  int64_t used_bytes() const;
  int64_t free_bytes() const;

 private:
  std::shared_ptr<PooledBuffer::State> state_;
};

}  // namespace dslide
