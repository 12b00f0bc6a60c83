// All that is checked of a client, over all calls and servers.

#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "client/cli/conformance/course.h"
#include "client/cli/conformance/course_slots.h"
#include "client/cli/conformance/rows_check.h"
#include "client/cli/conformance/sequence_check.h"
#include "client/cli/conformance/training_check.h"
#include "client/cli/conformance/verdicts.h"

namespace dslide::cli {

// Thread safety: safe from any thread.
struct CourseChecks {
  // `course` and `verdicts` outlive it. Errors: those of the course's own data; there are none.
  static absl::StatusOr<std::unique_ptr<CourseChecks>> Create(const Course& course,
                                                              uint64_t topology_version,
                                                              Verdicts& verdicts) {
    auto slots = CourseSlots::Deal(course);
    if (!slots.ok()) return slots.status();
    auto training = TrainingCheck::Create(course, verdicts);
    if (!training.ok()) return training.status();
    return std::unique_ptr<CourseChecks>(new CourseChecks(
        course, topology_version, *std::move(slots), *std::move(training), verdicts));
  }

  // The client is done.
  void Finish() {
    sequence.Finish();
    rows.Finish();
    training->Finish();
  }

  const Course& course;
  Verdicts& verdicts;
  const CourseSlots slots;
  SequenceCheck sequence;
  RowsCheck rows;
  const std::unique_ptr<TrainingCheck> training;

 private:
  CourseChecks(const Course& the_course, uint64_t topology_version, CourseSlots the_slots,
               std::unique_ptr<TrainingCheck> the_training, Verdicts& the_verdicts)
      : course(the_course),
        verdicts(the_verdicts),
        slots(std::move(the_slots)),
        sequence(topology_version, the_verdicts),
        rows(the_course, slots, topology_version, the_verdicts),
        training(std::move(the_training)) {}
};

}  // namespace dslide::cli
