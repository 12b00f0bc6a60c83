#include "core/wire/steps/step_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/wire/envelope_codec.h"
#include "tests/unit/core/wire/steps/decoded_step.h"
#include "tests/unit/core/wire/wire_samples.h"

namespace dslide::wire {
namespace {

using ::testing::HasSubstr;

// The bytes of a request, as a peer would send them.
v1::StepRequest OverTheWire(const StepCommand& command, StepFormat format = {}) {
  v1::StepRequest request;
  EncodeStepRequest(command, format, &request);
  v1::StepRequest parsed;
  EXPECT_TRUE(parsed.ParseFromString(request.SerializeAsString()));
  return parsed;
}

StepCommand RoundTrip(const StepCommand& command) {
  const auto decoded = DecodedStep(OverTheWire(command));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return decoded.ok() ? *decoded : StepCommand();
}

std::vector<StepOp> AllOps() {
  return {SampleEmbedForward(),
          SampleHeadForward(),
          HeadBackwardOp{.table = "head", .log_partitions = {1.0f, -3.0f}, .scale = 0.5f},
          EmbedBackwardOp{.table = "input", .dim = 2, .gradient = {1, 2, 3, 4}},
          DenseGatherOp{.table = "hidden"},
          DenseScatterOp{.table = "hidden", .gradients = SampleBlock(3, 2, true)},
          SampleExplicitHeadForward()};
}

TEST(StepCodecTest, EveryOperationComesBackWithItsEnvelope) {
  for (const StepOp& op : AllOps()) {
    const StepCommand sent = SampleStep(op);
    const StepCommand got = RoundTrip(sent);
    EXPECT_EQ(got.op.index(), op.index());
    EXPECT_EQ(got.step, 31);
    EXPECT_EQ(got.first_open_step, 30);
    EXPECT_EQ(got.envelope.job, "job-1");
    EXPECT_EQ(got.envelope.client, sent.envelope.client);
    EXPECT_EQ(got.envelope.sequence, 12u);
    EXPECT_EQ(got.envelope.first_incomplete, 9u);
    EXPECT_EQ(got.envelope.generation, 4u);
    EXPECT_EQ(got.envelope.topology_version, 2u);
    EXPECT_EQ(got.envelope.model, "m");
    // Encoding again gives the same bytes: nothing was lost.
    EXPECT_EQ(OverTheWire(got).SerializeAsString(), OverTheWire(sent).SerializeAsString());
  }
}

TEST(StepCodecTest, ArraysComeBackElementByElement) {
  const StepCommand embed_command = RoundTrip(SampleStep(SampleEmbedForward()));
  const auto& embed = std::get<EmbedForwardOp>(embed_command.op);
  EXPECT_EQ(embed.offsets, SampleEmbedForward().offsets);
  EXPECT_EQ(embed.rows, SampleEmbedForward().rows);
  EXPECT_EQ(embed.values, SampleEmbedForward().values);
  const StepCommand head_command = RoundTrip(SampleStep(SampleHeadForward()));
  const auto& head = std::get<HeadForwardOp>(head_command.op);
  EXPECT_EQ(head.hidden, SampleHeadForward().hidden);
  EXPECT_EQ(head.dim, 2);
  EXPECT_EQ(head.fingerprints, SampleHeadForward().fingerprints);
  EXPECT_EQ(head.labels, SampleHeadForward().labels);
  EXPECT_EQ(head.label_offsets, SampleHeadForward().label_offsets);
  EXPECT_EQ(head.label_targets, SampleHeadForward().label_targets);
  EXPECT_EQ(head.recall_samples, SampleHeadForward().recall_samples);
}

TEST(StepCodecTest, PackedRequestsSayTheSameInFewerBytes) {
  for (const StepOp& op : AllOps()) {
    const v1::StepRequest plain = OverTheWire(SampleStep(op));
    const v1::StepRequest packed = OverTheWire(SampleStep(op), {.packed = true});
    const auto got = DecodedStep(packed);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(OverTheWire(*got).SerializeAsString(), plain.SerializeAsString());
    const bool has_ids = plain.has_embed_forward() || plain.has_head_forward();
    EXPECT_EQ(packed.ByteSizeLong() < plain.ByteSizeLong(), has_ids);
    EXPECT_EQ(packed.SerializeAsString() == plain.SerializeAsString(), !has_ids);
  }
}

TEST(StepCodecTest, FingerprintsThatDoNotFitIntoSixteenBitsKeepTheirWidth) {
  HeadForwardOp op = SampleHeadForward();
  EXPECT_EQ(
      OverTheWire(SampleStep(op), {.packed = true}).head_forward().short_fingerprints().size(),
      2 * op.fingerprints.size());
  for (const uint32_t largest : {0xffffu, 0x10000u}) {
    op.fingerprints.back() = largest;
    const v1::StepRequest request = OverTheWire(SampleStep(op), {.packed = true});
    EXPECT_EQ(request.head_forward().fingerprints().empty(), largest == 0xffffu);
    const auto got = DecodedStep(request);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(std::get<HeadForwardOp>(got->op).fingerprints, op.fingerprints);
  }
}

TEST(StepCodecTest, ValuesThatAreAllOneDoNotTravel) {
  EmbedForwardOp op = SampleEmbedForward();
  op.values = {1.0f, 1.0f, 1.0f};
  EXPECT_TRUE(OverTheWire(SampleStep(op)).embed_forward().values().empty());
  const StepCommand got = RoundTrip(SampleStep(op));
  EXPECT_EQ(std::get<EmbedForwardOp>(got.op).values, op.values);
}

TEST(StepCodecTest, ActivationsMayTravelInSixteenBits) {
  const v1::StepRequest request =
      OverTheWire(SampleStep(SampleHeadForward()), {.activations = ActivationType::kBf16});
  EXPECT_EQ(request.head_forward().hidden().data().size(), 8u);
  const auto decoded = DecodedStep(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  // Small integers are exact in bfloat16.
  EXPECT_EQ(std::get<HeadForwardOp>(decoded->op).hidden, SampleHeadForward().hidden);
}

TEST(StepCodecTest, ActivationsAndGradientsMayTravelWithoutZeros) {
  const std::vector<float> few = {0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0};
  HeadForwardOp forward = SampleHeadForward();
  forward.dim = 8;
  forward.hidden = few;
  const EmbedBackwardOp backward = {.table = "input", .dim = 8, .gradient = few};
  const StepFormat sparse = {.activations = ActivationType::kBf16, .sparse = true};
  const v1::StepRequest head = OverTheWire(SampleStep(forward), sparse);
  const v1::StepRequest embed = OverTheWire(SampleStep(backward), sparse);
  EXPECT_EQ(head.head_forward().hidden().data().size(), 2u);
  EXPECT_EQ(embed.embed_backward().gradient().data().size(), 2u);
  EXPECT_EQ(std::get<HeadForwardOp>(DecodedStep(head)->op).hidden, few);
  EXPECT_EQ(std::get<EmbedBackwardOp>(DecodedStep(embed)->op).gradient, few);
  // Unless the shard reads them they travel whole.
  EXPECT_EQ(OverTheWire(SampleStep(forward)).head_forward().hidden().present(), "");
  EXPECT_EQ(OverTheWire(SampleStep(backward)).embed_backward().gradient().present(), "");
}

TEST(StepCodecTest, WishesForPartsOfMatricesComeBack) {
  EmbedForwardOp forward = SampleEmbedForward();
  forward.wanted = {1, 0x80, 255};
  const StepCommand sums = RoundTrip(SampleStep(forward));
  EXPECT_EQ(std::get<EmbedForwardOp>(sums.op).wanted, forward.wanted);
  const HeadBackwardOp backward = {
      .table = "head", .log_partitions = {}, .scale = 1.0f, .rectified = true};
  const StepCommand gradient = RoundTrip(SampleStep(backward));
  EXPECT_TRUE(std::get<HeadBackwardOp>(gradient.op).rectified);
}

TEST(StepCodecTest, ExplicitRowsComeBackElementByElement) {
  const HeadForwardOp sent = SampleExplicitHeadForward();
  for (const ActivationType type : {ActivationType::kF32, ActivationType::kBf16}) {
    const v1::StepRequest request = OverTheWire(SampleStep(sent), {.activations = type});
    const size_t bytes = type == ActivationType::kF32 ? 4 : 2;
    EXPECT_EQ(request.head_forward().explicit_logit_offsets().size(), 3 * bytes);
    EXPECT_EQ(request.head_forward().explicit_weights().size(), 3 * bytes);
    const auto decoded = DecodedStep(request);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const ExplicitRows<RowId>& got = std::get<HeadForwardOp>(decoded->op).explicit_rows;
    EXPECT_EQ(got.offsets, sent.explicit_rows.offsets);
    EXPECT_EQ(got.rows, sent.explicit_rows.rows);
    // All of them have few digits.
    EXPECT_EQ(got.logit_offsets, sent.explicit_rows.logit_offsets);
    EXPECT_EQ(got.weights, sent.explicit_rows.weights);
  }
}

TEST(StepCodecTest, ExplicitRowsThatSayNothingMoreTakeNoBytesForIt) {
  HeadForwardOp op = SampleExplicitHeadForward();
  op.explicit_rows.logit_offsets.assign(3, 0.0f);
  op.explicit_rows.weights.assign(3, 1.0f);
  const v1::StepRequest request = OverTheWire(SampleStep(op));
  EXPECT_TRUE(request.head_forward().explicit_logit_offsets().empty());
  EXPECT_TRUE(request.head_forward().explicit_weights().empty());
  const StepCommand got = RoundTrip(SampleStep(op));
  EXPECT_EQ(std::get<HeadForwardOp>(got.op).explicit_rows.rows, op.explicit_rows.rows);
  // A batch that names rows, though none of this shard, is another than one that names none.
  op.explicit_rows = {.offsets = {0, 0, 0}, .rows = {}, .logit_offsets = {}, .weights = {}};
  const StepCommand none_here = RoundTrip(SampleStep(op));
  EXPECT_EQ(std::get<HeadForwardOp>(none_here.op).explicit_rows.offsets, op.explicit_rows.offsets);
  op.explicit_rows = {};
  const StepCommand none = RoundTrip(SampleStep(op));
  EXPECT_TRUE(std::get<HeadForwardOp>(none.op).explicit_rows.empty());
}

struct Refused {
  const char* reason;
  const char* text;  // in the message
  StepOp base;
  std::function<void(v1::StepRequest&)> spoil;
};

std::string Floats32(std::initializer_list<float> values) {
  std::string bytes;
  EncodeFloats(std::vector<float>(values), &bytes);
  return bytes;
}

std::string U32(std::initializer_list<uint32_t> values) {
  std::string bytes;
  EncodeU32s(std::vector<uint32_t>(values), &bytes);
  return bytes;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Refused> EnvelopeRefusals() {
  const StepOp op = DenseGatherOp{.table = "hidden"};
  return {
      {reason::kBadName, "envelope.job", op, [](auto& r) { r.mutable_envelope()->set_job(""); }},
      {reason::kBadName, "envelope.job", op,
       [](auto& r) { r.mutable_envelope()->set_job(std::string(65, 'a')); }},
      {reason::kBadName, "envelope.model", op,
       [](auto& r) { r.mutable_envelope()->set_model("../etc"); }},
      {reason::kBadClientId, "16", op,
       [](auto& r) { r.mutable_envelope()->set_client_id("short"); }},
      {reason::kBadSequence, "first_incomplete", op,
       [](auto& r) { r.mutable_envelope()->set_sequence(0); }},
      {reason::kBadSequence, "first_incomplete", op,
       [](auto& r) { r.mutable_envelope()->set_first_incomplete(13); }},
      {reason::kBadSequence, "first_incomplete", op,
       [](auto& r) { r.mutable_envelope()->set_first_incomplete(0); }},
      {reason::kBadSequence, "envelope.sequence", op,
       [](auto& r) { r.mutable_envelope()->set_sequence(UINT64_MAX); }},
      {reason::kBadStep, "step is 0", op, [](auto& r) { r.set_step(0); }},
      {reason::kBadStep, "first_open_step 32", op, [](auto& r) { r.set_first_open_step(32); }},
      {reason::kBadStep, "first_open_step -1", op, [](auto& r) { r.set_first_open_step(-1); }},
      {reason::kMissingField, "operation", op, [](auto& r) { r.clear_operation(); }},
      {reason::kBadName, "table", op, [](auto& r) { r.mutable_dense_gather()->set_table("A"); }},
  };
}

std::vector<Refused> EmbedRefusals() {
  const StepOp op = SampleEmbedForward();
  const StepOp back = AllOps()[3];
  return {
      {reason::kOutOfRange, "batch", op, [](auto& r) { r.mutable_embed_forward()->set_batch(0); }},
      {reason::kOutOfRange, "65536", op,
       [](auto& r) { r.mutable_embed_forward()->set_batch(65537); }},
      {reason::kBadSize, "sample_offsets", op,
       [](auto& r) { r.mutable_embed_forward()->set_batch(4); }},
      {reason::kBadOffsets, "sample_offsets", op,
       [](auto& r) {
         r.mutable_embed_forward()->set_sample_offsets(U32({0, 3, 2, 3}));
       }},
      {reason::kBadSize, "row_ids", op,
       [](auto& r) { r.mutable_embed_forward()->set_row_ids(U32({1})); }},
      // Offsets that promise 4 billion ids allocate nothing.
      {reason::kBadSize, "row_ids", op,
       [](auto& r) {
         r.mutable_embed_forward()->set_sample_offsets(U32({0, 1, 2, 0xffffffffu}));
       }},
      {reason::kNotAscending, "row_ids", op,
       [](auto& r) {
         r.mutable_embed_forward()->set_row_ids(U32({8, 4, 1}));
       }},
      {reason::kBadRowId, "row_ids", op,
       [](auto& r) {
         r.mutable_embed_forward()->set_row_ids(U32({4, 0x80000000u, 1}));
       }},
      {reason::kNotFinite, "values", op,
       [](auto& r) {
         r.mutable_embed_forward()->set_values(Floats32({1, kNan, 1}));
       }},
      {reason::kBadSize, "values", op,
       [](auto& r) {
         r.mutable_embed_forward()->set_values(Floats32({1, 1}));
       }},
      {reason::kBadSize, "packed_row_ids is there beside sample_offsets", op,
       [](auto& r) { r.mutable_embed_forward()->set_packed_row_ids("abc"); }},
      {reason::kBadEnum, "gradient", back,
       [](auto& r) {
         r.mutable_embed_backward()->mutable_gradient()->set_element_type(
             v1::ELEMENT_TYPE_UNSPECIFIED);
       }},
      {reason::kNotFinite, "gradient", back,
       [](auto& r) {
         r.mutable_embed_backward()->mutable_gradient()->set_data(Floats32({1, 2, kNan, 4}));
       }},
  };
}

std::vector<Refused> HeadRefusals() {
  const StepOp op = SampleHeadForward();
  const StepOp back = AllOps()[2];
  return {
      {reason::kNotFinite, "hidden", op,
       [](auto& r) {
         r.mutable_head_forward()->mutable_hidden()->set_data(Floats32({1, 2, -INFINITY, 4}));
       }},
      {reason::kBadSize, "fingerprints", op,
       [](auto& r) {
         r.mutable_head_forward()->set_fingerprints(U32({1, 2, 3}));
       }},
      {reason::kOverLimit, "fingerprints", op,
       [](auto& r) { r.mutable_head_forward()->set_fingerprints(std::string(2 * 257 * 4, '\0')); }},
      {reason::kBadSize, "short_fingerprints is there beside fingerprints", op,
       [](auto& r) { r.mutable_head_forward()->set_short_fingerprints("abcd"); }},
      {reason::kBadSize, "short_fingerprints has 3 bytes", op,
       [](auto& r) {
         r.mutable_head_forward()->clear_fingerprints();
         r.mutable_head_forward()->set_short_fingerprints("abc");
       }},
      {reason::kBadSize, "packed_label_ids is there beside label_offsets", op,
       [](auto& r) { r.mutable_head_forward()->set_packed_label_ids("abc"); }},
      {reason::kBadSize, "label_offsets", op,
       [](auto& r) {
         r.mutable_head_forward()->set_label_offsets(U32({0, 3}));
       }},
      {reason::kNotAscending, "label_ids", op,
       [](auto& r) {
         r.mutable_head_forward()->set_label_ids(U32({7, 9, 9}));
       }},
      {reason::kBadSize, "label_targets", op,
       [](auto& r) { r.mutable_head_forward()->set_label_targets(Floats32({1})); }},
      {reason::kOutOfRange, "label_targets", op,
       [](auto& r) {
         r.mutable_head_forward()->set_label_targets(Floats32({1, 1.5f}));
       }},
      {reason::kOutOfRange, "label_targets", op,
       [](auto& r) {
         r.mutable_head_forward()->set_label_targets(Floats32({1, -0.5f}));
       }},
      {reason::kOutOfRange, "recall_samples", op,
       [](auto& r) { r.mutable_head_forward()->add_recall_samples(2); }},
      {reason::kOverLimit, "recall_samples", op,
       [](auto& r) {
         for (int i = 0; i < 16; ++i) r.mutable_head_forward()->add_recall_samples(0);
       }},
      {reason::kOutOfRange, "scale", back,
       [](auto& r) { r.mutable_head_backward()->set_scale(0); }},
      {reason::kOutOfRange, "scale", back,
       [](auto& r) { r.mutable_head_backward()->set_scale(kNan); }},
      {reason::kNotFinite, "log_partitions", back,
       [](auto& r) {
         r.mutable_head_backward()->set_log_partitions(Floats32({kNan, 1}));
       }},
  };
}

void ExpectStepRefused(const std::vector<Refused>& cases) {
  for (const Refused& refused : cases) {
    v1::StepRequest request = OverTheWire(SampleStep(refused.base));
    ASSERT_TRUE(DecodedStep(request).ok());
    refused.spoil(request);
    const auto decoded = DecodedStep(request);
    ASSERT_FALSE(decoded.ok()) << refused.reason << " " << refused.text;
    EXPECT_TRUE(absl::IsInvalidArgument(decoded.status()));
    EXPECT_EQ(ReasonOf(decoded.status()), refused.reason) << decoded.status();
    EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(refused.text));
  }
}

TEST(StepCodecTest, BadEnvelopesAndStepsAreRefusedByName) { ExpectStepRefused(EnvelopeRefusals()); }
TEST(StepCodecTest, BadEmbedRequestsAreRefusedByName) { ExpectStepRefused(EmbedRefusals()); }
TEST(StepCodecTest, BadHeadRequestsAreRefusedByName) { ExpectStepRefused(HeadRefusals()); }

TEST(StepCodecTest, BadExplicitRowsAreRefusedByName) {
  const StepOp op = SampleExplicitHeadForward();
  const auto set_offsets = [](const std::string& bytes) {
    return [bytes](auto& r) { r.mutable_head_forward()->set_explicit_logit_offsets(bytes); };
  };
  const auto set_weights = [](const std::string& bytes) {
    return [bytes](auto& r) { r.mutable_head_forward()->set_explicit_weights(bytes); };
  };
  const auto set_ids = [](const std::string& bytes) {
    return [bytes](auto& r) { r.mutable_head_forward()->set_packed_explicit_ids(bytes); };
  };
  ExpectStepRefused({
      {reason::kBadSize, "head_forward.packed_explicit_ids announces 3 ids", op,
       set_ids(std::string("\x03\x01", 2))},
      {reason::kBadSize, "head_forward.packed_explicit_ids has 1 bytes behind", op,
       set_ids(std::string("\x01\x05\x00\x00", 4))},
      {reason::kBadSize, "explicit_weights is there without packed_explicit_ids", op, set_ids("")},
      {reason::kBadSize, "head_forward.explicit_logit_offsets has 10 bytes for 3 rows", op,
       set_offsets(std::string(10, '\0'))},
      {reason::kNotFinite, "explicit_logit_offsets", op, set_offsets(Floats32({1, kNan, 1}))},
      {reason::kNotFinite, "explicit_logit_offsets", op,
       set_offsets(std::string("\x80\x7f\0\0\0\0", 6))},  // the first is infinity in bf16
      {reason::kBadSize, "head_forward.explicit_weights has 8 bytes for 3 rows", op,
       set_weights(Floats32({1, 1}))},
      {reason::kOutOfRange, "has -1 at position 2", op, set_weights(Floats32({1, 1, -1}))},
      {reason::kOutOfRange, "explicit_weights", op, set_weights(Floats32({1, 1, 4.4e9f}))},
      {reason::kNotFinite, "explicit_weights", op, set_weights(Floats32({1, 1, INFINITY}))},
  });
}

TEST(StepCodecTest, WishesForAveragesAndWeightsOfLabelsComeBack) {
  EmbedForwardOp embed = SampleEmbedForward();
  HeadForwardOp head = SampleHeadForward();
  for (size_t i = 0; i < head.labels.size(); ++i) {
    head.label_weights.push_back(0.5f + static_cast<float>(i));
  }
  for (const bool averaged : {false, true}) {
    embed.averaged = averaged;
    EXPECT_EQ(std::get<EmbedForwardOp>(RoundTrip(SampleStep(embed)).op).averaged, averaged);
    const DenseGatherOp dense{.table = "hidden", .averaged = averaged};
    EXPECT_EQ(std::get<DenseGatherOp>(RoundTrip(SampleStep(dense)).op).averaged, averaged);
  }
  EXPECT_EQ(std::get<HeadForwardOp>(RoundTrip(SampleStep(head)).op).label_weights,
            head.label_weights);
  const auto set = [](const std::string& bytes) {
    return [bytes](auto& r) { r.mutable_head_forward()->set_label_weights(bytes); };
  };
  std::vector<float> weights = head.label_weights;
  weights.back() = -1.0f;
  std::string negative;
  EncodeFloats(weights, &negative);
  ExpectStepRefused({
      {reason::kBadSize, "head_forward.label_weights", StepOp(head), set("abc")},
      {reason::kOutOfRange, "head_forward.label_weights has -1", StepOp(head), set(negative)},
  });
}

TEST(StepCodecTest, RefusedNamesAreEscapedInMessages) {
  v1::StepRequest request = OverTheWire(SampleStep(DenseGatherOp{.table = "hidden"}));
  request.mutable_dense_gather()->set_table("a\nb\x01");
  const std::string message(DecodedStep(request).status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(message.find('\x01'), std::string::npos);
}

}  // namespace
}  // namespace dslide::wire
