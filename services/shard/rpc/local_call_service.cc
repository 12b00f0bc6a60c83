#include "services/shard/rpc/local_call_service.h"

#include <utility>

#include "services/shard/rpc/unary_call_service.h"

namespace dslide::shard {
namespace {

class LocalCall final : public ShardCall {
 public:
  LocalCall(ServiceContext& shared, const char* method, const LocalCaller& caller,
            LocalShard::Done done)
      : ShardCall(shared, method, caller.metadata), caller_(caller), done_(std::move(done)) {}

  absl::Duration patience() const override { return caller_.patience; }
  std::function<absl::Status()> Admit(const Command&) override { return nullptr; }
  bool run_here() const override { return caller_.run_here; }

 private:
  void Deliver(const grpc::Status& status) override {
    const LocalShard::Done done = std::move(done_);
    delete this;
    done(status);
  }

  const LocalCaller& caller_;
  LocalShard::Done done_;
};

}  // namespace

void LocalCalls::Read(const LocalCaller& caller, const v1::ReadRequest& request,
                      v1::ReadResponse* response, Done done) {
  auto* const call = new LocalCall(shared_, "Read", caller, std::move(done));
  call->record().Received(request.ByteSizeLong());
  SubmitRead(call, request, response);
}

void LocalCalls::TopK(const LocalCaller& caller, const v1::TopKRequest& request,
                      v1::TopKResponse* response, Done done) {
  auto* const call = new LocalCall(shared_, "TopK", caller, std::move(done));
  call->record().Received(request.ByteSizeLong());
  SubmitTopK(call, request, response);
}

}  // namespace dslide::shard
