// The fields of an optimizer and of learning rates; see model_spec_visitor.h.

#pragma once

#include "core/spec/enum_words.h"
#include "core/spec/optimizer_spec.h"

namespace dslide {

template <typename Archive>
void VisitFields(Archive& archive, ScheduleSpec& schedule) {
  archive.Word("kind", schedule.kind,
               EnumWords<ScheduleKind>{{"constant", ScheduleKind::kConstant},
                                       {"linear", ScheduleKind::kLinear},
                                       {"cosine", ScheduleKind::kCosine}});
  archive.Field("warmup_steps", schedule.warmup_steps);
  archive.Field("decay_steps", schedule.decay_steps);
  archive.Field("final_fraction", schedule.final_fraction);
}

template <typename Archive>
void VisitFields(Archive& archive, TableRate& rate) {
  archive.Field("table", rate.table);
  archive.Field("learning_rate", rate.learning_rate);
  archive.Object("schedule", rate.schedule);
}

template <typename Archive>
void VisitFields(Archive& archive, OptimizerSpec& optimizer) {
  archive.Word("kind", optimizer.kind,
               EnumWords<OptimizerKind>{{"sgd", OptimizerKind::kSgd},
                                        {"adagrad", OptimizerKind::kAdagrad},
                                        {"row_wise_adagrad", OptimizerKind::kRowWiseAdagrad},
                                        {"adam", OptimizerKind::kAdam}});
  archive.Field("learning_rate", optimizer.learning_rate);
  archive.Field("beta1", optimizer.beta1);
  archive.Field("beta2", optimizer.beta2);
  archive.Field("epsilon", optimizer.epsilon);
  archive.Field("weight_decay", optimizer.weight_decay);
  archive.LaterField("average_decay", optimizer.average_decay);
  archive.Object("schedule", optimizer.schedule);
}

}  // namespace dslide
