#include "bench/rpc/stream_baseline.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "services/common/server/transport.h"

namespace dslide::bench {
namespace {

constexpr int64_t kBuffers = 64;

// What the first message of a call says.
struct Wish {
  int64_t down_bytes = 0;
  int64_t up_bytes = 0;
  int64_t echo = 0;  // 1: what goes up comes back
};

// A message of `bytes` in memory that stays for ever, taken in turn from 64 MiB: as much as a large
// gather touches.
grpc::ByteBuffer Message(int64_t index, int64_t bytes) {
  static std::vector<char>* const memory =
      new std::vector<char>(kBuffers * kBaselineChunkBytes, 'x');
  const grpc::Slice slice(memory->data() + index % kBuffers * kBaselineChunkBytes,
                          static_cast<size_t>(bytes), grpc::Slice::STATIC_SLICE);
  return grpc::ByteBuffer(&slice, 1);
}

// Sends so many bytes in messages of kBaselineChunkBytes.
struct Outgoing {
  int64_t left = 0;
  int64_t index = 0;
  grpc::ByteBuffer message;

  // False after the last.
  bool Next() {
    if (left <= 0) return false;
    const int64_t size = std::min(left, kBaselineChunkBytes);
    message = Message(index++, size);
    left -= size;
    return true;
  }
};

class ServerStream final : public grpc::ServerGenericBidiReactor {
 public:
  ServerStream() { StartRead(&incoming_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      const absl::MutexLock lock(&mu_);
      ended_ = true;
      if (!writing_) End();
      return;
    }
    if (!std::exchange(started_, true)) {
      grpc::Slice slice;
      if (!incoming_.DumpToSingleSlice(&slice).ok() || slice.size() != sizeof(wish_)) {
        Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no wish"));
        return;
      }
      std::memcpy(&wish_, slice.begin(), sizeof(wish_));
      if (wish_.down_bytes > 0) {
        outgoing_.left = wish_.down_bytes;
        WriteNext();
        return;
      }
    } else if (wish_.echo != 0) {
      const absl::MutexLock lock(&mu_);
      echoes_.push_back(std::move(incoming_));
      incoming_ = grpc::ByteBuffer();
      if (!std::exchange(writing_, true)) StartWrite(&echoes_.front());
    }
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    if (wish_.echo == 0) {
      if (!ok) return Finish(grpc::Status::CANCELLED);
      return WriteNext();
    }
    const absl::MutexLock lock(&mu_);
    echoes_.pop_front();
    writing_ = ok && !echoes_.empty();
    if (writing_) {
      StartWrite(&echoes_.front());
    } else if (ended_) {
      End();
    }
  }

  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    if (!outgoing_.Next()) {
      Finish(grpc::Status::OK);
      return;
    }
    StartWrite(&outgoing_.message);
  }
  void End() {
    Finish(started_ ? grpc::Status::OK
                    : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no wish"));
  }

  // Of one callback at a time: reads follow each other.
  bool started_ = false;
  Wish wish_;
  grpc::ByteBuffer incoming_;
  Outgoing outgoing_;

  absl::Mutex mu_;
  std::deque<grpc::ByteBuffer> echoes_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;  // an echo is on its way
  bool ended_ ABSL_GUARDED_BY(mu_) = false;    // nothing more will come
};

class ClientStream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  absl::Status Run(const std::shared_ptr<grpc::Channel>& channel, Wish wish) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    context_.set_wait_for_ready(true);
    grpc::GenericStub stub(channel);
    stub.PrepareBidiStreamingCall(&context_, "/dslide.bench.Stream/Run", {}, this);
    const grpc::Slice slice(&wish, sizeof(wish));
    first_ = grpc::ByteBuffer(&slice, 1);
    outgoing_.left = wish.up_bytes;
    expected_ = wish.down_bytes + wish.echo * wish.up_bytes;
    StartWrite(&first_);
    StartRead(&incoming_);
    StartCall();
    done_.WaitForNotification();
    if (!status_.ok()) {
      return absl::Status(static_cast<absl::StatusCode>(status_.error_code()),
                          status_.error_message());
    }
    return expected_ == 0 ? absl::OkStatus() : absl::InternalError("bytes are missing");
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return;
    if (outgoing_.Next()) {
      StartWrite(&outgoing_.message);
    } else if (!std::exchange(closed_, true)) {
      StartWritesDone();
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    expected_ -= static_cast<int64_t>(incoming_.Length());
    StartRead(&incoming_);
  }

  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Notify();
  }

 private:
  grpc::ClientContext context_;
  grpc::ByteBuffer first_;
  grpc::ByteBuffer incoming_;
  Outgoing outgoing_;
  int64_t expected_ = 0;
  bool closed_ = false;
  grpc::Status status_;
  absl::Notification done_;
};

}  // namespace

grpc::ServerGenericBidiReactor* StreamBaselineService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  return new ServerStream();  // deletes itself
}

void SetBaselineServerArguments(grpc::ServerBuilder& builder) { SetServerArguments(builder); }

absl::Status StreamDown(const std::shared_ptr<grpc::Channel>& channel, int64_t bytes) {
  return ClientStream().Run(channel, {.down_bytes = bytes, .up_bytes = 0});
}

absl::Status StreamUp(const std::shared_ptr<grpc::Channel>& channel, int64_t bytes) {
  return ClientStream().Run(channel, {.down_bytes = 0, .up_bytes = bytes});
}

absl::Status StreamEcho(const std::shared_ptr<grpc::Channel>& channel, int64_t bytes) {
  return ClientStream().Run(channel, {.down_bytes = 0, .up_bytes = bytes, .echo = 1});
}

}  // namespace dslide::bench
