// Outside bytes through every decoder of the shard's protocol and, where one accepts them, through
// the state machine of a small shard: no input may crash it, and a refused command changes no row.
//
// The first byte chooses the message; the others are its serialized form. Step requests, scatters
// and gathers are also given a valid identity, so that the fuzzer need not find one.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/wire/bulk/bulk_codec.h"
#include "core/wire/control_codec.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/row_codec.h"
#include "core/wire/steps/step_answer_codec.h"
#include "core/wire/steps/step_codec.h"
#include "dslide/v1/shard.pb.h"
#include "services/shard/state/shard_core.h"
#include "tests/unit/core/wire/steps/decoded_step.h"

namespace dslide::shard {
namespace {

constexpr int64_t kDim = 4;

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

ModelSpec SmallSpec() {
  ModelSpec spec;
  spec.name = "m";
  const auto table = [](const char* name, TableRole role, int64_t rows) {
    TableSpec made;
    made.name = name;
    made.role = role;
    made.rows = rows;
    made.dim = kDim;
    made.num_slots = 4;
    return made;
  };
  spec.tables = {table("i", TableRole::kEmbedding, 16), table("d", TableRole::kDense, kDim),
                 table("h", TableRole::kHead, 24)};
  HeadSpec& head = spec.tables[2].head;
  head.max_active = 6;
  head.sampled_candidates = 2;
  head.tail_rows = 4;
  head.hash.num_tables = 2;
  head.hash.codes_per_table = 3;
  head.hash.rebuild_every_steps = 2;
  return spec;
}

// A shard that owns half of everything, and one client of it.
class Subject {
 public:
  Subject() {
    ShardCoreOptions options;
    options.memory_bytes = 4 << 20;
    options.context_bytes = 64 << 10;
    options.models.max_gather_bytes = 1 << 20;
    options.max_models = 4;
    options.clients.max_clients = 8;
    options.clients.idle_commands = 4;
    core_ = std::make_unique<ShardCore>(options);
    CreateModelCommand create;
    create.spec = SmallSpec();
    create.slot_maps = {*SlotMap::Deal(4, {1.0, 1.0})};
    create.topology_version = 1;
    Apply(create);
    Apply(HelloCommand{.job = "j", .client = client_});
  }

  void Apply(Command command) {
    const uint64_t before = core_->Digest();
    const Answer answer = core_->Apply(std::move(command));
    Require(answer.reply != nullptr, "there is an answer");
    const bool refused = !answer.reply->status.ok();
    Require(refused == std::holds_alternative<std::monostate>(answer.reply->body),
            "an answer has a body or an error");
    Require(!refused || core_->Digest() == before, "a refused command changes no row");
    Require(core_->contexts().bytes() <= 64 << 10, "contexts stay within their budget");
    if (refused) return;
    // What was answered can be encoded and read again.
    if (std::holds_alternative<CreateModelReply>(answer.reply->body)) return;
    v1::StepResponse response;
    wire::EncodeStepResponse(1, answer.generation, *answer.reply, answer.activations, &response);
    if (response.has_error()) return;
    Require(wire::DecodeStepResponse(response).ok(), "a client can read the answer");
  }

  // The identity of this client's next mutation.
  void Sign(v1::RequestEnvelope* envelope) {
    ++sequence_;
    envelope->set_job("j");
    envelope->set_model("m");
    envelope->set_client_id(std::string(client_.begin(), client_.end()));
    envelope->set_sequence(sequence_);
    envelope->set_first_incomplete(sequence_);
    envelope->set_generation(0);
    envelope->set_topology_version(0);
  }

 private:
  const ClientId client_ = {1, 2, 3};
  uint64_t sequence_ = 0;
  std::unique_ptr<ShardCore> core_;
};

template <typename Message>
bool Parse(const uint8_t* data, size_t size, Message* message) {
  return message->ParseFromArray(data, static_cast<int>(size));
}

void FuzzStep(Subject& subject, const uint8_t* data, size_t size) {
  v1::StepRequest request;
  if (!Parse(data, size, &request)) return;
  if (const auto as_sent = wire::DecodedStep(request); as_sent.ok()) {
    for (const bool packed : {false, true}) {
      v1::StepRequest again;
      wire::EncodeStepRequest(*as_sent, {.packed = packed}, &again);
      Require(wire::DecodedStep(again).ok(), "what was decoded can be sent");
    }
    subject.Apply(*as_sent);
  }
  subject.Sign(request.mutable_envelope());
  auto signed_step = wire::DecodedStep(request);
  if (signed_step.ok()) {
    subject.Apply(*std::move(signed_step));
  } else {
    subject.Apply(RefusedCommand{.envelope = *wire::DecodeEnvelope(request.envelope()),
                                 .refusal = signed_step.status()});
  }
}

// The bytes are several messages: a u8 length, then so many bytes. Forward and backward of a step.
void FuzzSteps(Subject& subject, const uint8_t* data, size_t size) {
  while (size > 0) {
    const size_t length = std::min<size_t>(data[0], size - 1);
    FuzzStep(subject, data + 1, length);
    data += 1 + length;
    size -= 1 + length;
  }
}

// As FuzzSteps.
void FuzzScatter(Subject& subject, const uint8_t* data, size_t size) {
  wire::ScatterAssembler assembler(1 << 16);
  bool first = true;
  while (size > 0) {
    const size_t length = std::min<size_t>(data[0], size - 1);
    v1::ScatterRequest chunk;
    if (!Parse(data + 1, length, &chunk)) return;
    if (first) subject.Sign(chunk.mutable_envelope());
    if (first) chunk.set_total_rows(chunk.rows().row_ids().size() / 4);
    first = false;
    if (!assembler.Add(chunk).ok()) return;
    data += 1 + length;
    size -= 1 + length;
  }
  auto command = std::move(assembler).Finish();
  if (command.ok()) subject.Apply(*std::move(command));
}

void FuzzReads(Subject& subject, int kind, const uint8_t* data, size_t size) {
  if (kind == 0) {
    v1::GatherRequest request;
    if (!Parse(data, size, &request)) return;
    request.set_model("m");
    auto call = wire::DecodeGatherRequest(request);
    if (call.ok()) subject.Apply(std::move(call->command));
  } else {
    v1::TopKRequest request;
    if (!Parse(data, size, &request)) return;
    request.set_model("m");
    auto command = wire::DecodeTopKRequest(request);
    if (command.ok()) subject.Apply(*std::move(command));
  }
}

void FuzzControl(Subject& subject, int kind, const uint8_t* data, size_t size) {
  if (kind == 0) {
    v1::CreateModelRequest request;
    if (!Parse(data, size, &request)) return;
    auto command = wire::DecodeCreateModel(request);
    if (command.ok()) subject.Apply(*std::move(command));
  } else if (kind == 1) {
    v1::HelloRequest request;
    if (!Parse(data, size, &request)) return;
    auto command = wire::DecodeHello(request);
    if (command.ok()) subject.Apply(*std::move(command));
  } else {
    v1::StepResponse response;
    if (!Parse(data, size, &response)) return;
    wire::DecodeStepResponse(response).IgnoreError();
    v1::GatherResponse gather;
    wire::GatherAssembler assembler;
    if (Parse(data, size, &gather)) assembler.Add(gather).IgnoreError();
  }
}

}  // namespace
}  // namespace dslide::shard

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dslide::shard;  // NOLINT(google-build-using-namespace): the entry point
  if (size == 0) return 0;
  Subject subject;
  const int kind = data[0] % 8;
  ++data;
  --size;
  switch (kind) {
    case 0:
      FuzzStep(subject, data, size);
      return 0;
    case 1:
      FuzzSteps(subject, data, size);
      return 0;
    case 2:
      FuzzScatter(subject, data, size);
      return 0;
    case 3:
    case 4:
      FuzzReads(subject, kind - 3, data, size);
      return 0;
    default:
      FuzzControl(subject, kind - 5, data, size);
      return 0;
  }
}
