// What jobs of one model may differ in: how it is trained, and the rates of its tables.

import { clone, create } from "@bufbuild/protobuf";
import {
  type ModelSpec,
  ModelSpecSchema,
  ScheduleSpecSchema,
  TrainingSpecSchema,
} from "./gen/dslide/v1/model_pb.js";

const TRAINING = {
  transform: "l2",
  inputDropout: 0,
  hiddenDropout: 0,
  batchSize: 256n,
  inFlightSteps: 2n,
  maxEpochs: 10n,
  chunkSamples: 0n,
  validationFraction: 0.05,
  validationMaxSamples: 2000n,
  patienceEpochs: 3n,
  propensityStrength: 0,
  orderSeed: 0n,
};
const LEARNING_RATE = 0.001;
const SCHEDULE = { kind: "constant", warmupSteps: 0n, decaySteps: 0n, finalFraction: 0 };

/** A registered model with these as they were asked for: what is left out has its default. */
export function askedFor(registered: ModelSpec, asked: ModelSpec): ModelSpec {
  const spec = clone(ModelSpecSchema, registered);
  spec.training = create(TrainingSpecSchema, { ...TRAINING, ...asked.training });
  spec.tables.forEach(({ optimizer }, i) => {
    if (!optimizer) return;
    const own = asked.tables[i]?.optimizer;
    optimizer.learningRate = own?.learningRate ?? LEARNING_RATE;
    optimizer.schedule = create(ScheduleSpecSchema, { ...SCHEDULE, ...own?.schedule });
  });
  return spec;
}
