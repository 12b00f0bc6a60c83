// Points as files have them, and what trainers make of a schedule and a model.

import assert from "node:assert/strict";
import { test } from "node:test";
import { bestCheckpoint, fitSpec, InvalidArgumentError, learningRate, parsePoints } from "dslide";

const parse = (text: string) => parsePoints(Buffer.from(text), "points.txt");

test("points of a text", () => {
  const set = parse("3 5 9\r\n7,2 4:1.5 0:-2\r\n 1:3e-1\r\n8\r\n");
  assert.deepEqual([set.numFeatures, set.numLabels], [5, 9]);
  assert.deepEqual(set.points, [
    { ids: Uint32Array.of(0, 4), values: Float32Array.of(-2, 1.5), labels: Uint32Array.of(2, 7) },
    { ids: Uint32Array.of(1), values: Float32Array.of(0.3), labels: new Uint32Array() },
    { ids: new Uint32Array(), values: new Float32Array(), labels: Uint32Array.of(8) },
  ]);
});

test("malformed texts", () => {
  const refused: Record<string, string> = {
    "": '1: found "", expected points features labels',
    "1 2": '1: found "1 2", expected points',
    "2 5 9\n1 1:1": "2: found 1 points, expected 2",
    "1 5 9\n9 1:1": '2: found "9", expected a label id in [0, 9)',
    "1 5 9\n1 5:1": '2: found "5", expected feature:value with a feature id in [0, 5)',
    "1 5 9\n1 2": '2: found "", expected a finite decimal number',
    "1 5 9\n1 2:0x1": '2: found "0x1", expected a finite',
    "1 5 9\n1 2:1e39": '2: found "1e39", expected a finite',
    "1 5 9\n1 2:1 2:1": "2: the point has id 2 twice",
    "2 5 9\n\n1 2:1": '2: found "", expected a point',
  };
  for (const [text, said] of Object.entries(refused)) {
    assert.throws(
      () => parse(text),
      (error: Error) =>
        error instanceof InvalidArgumentError && error.message.startsWith(`points.txt:${said}`),
      text,
    );
  }
});

test("a spec for data", () => {
  const tables = [
    { name: "input", dim: 4, bias_row: true },
    { name: "labels", role: "head", dim: 4, rows: 5000 },
  ];
  const [input, labels] = fitSpec({ name: "a", tables }, 100, 5000).tables;
  assert.equal(input!.rows, 101n);
  assert.deepEqual([labels!.head!.hash!.numTables, labels!.head!.recallEverySteps], [12n, 20n]);
  assert.throws(() => fitSpec({ name: "a", tables }, 100, 4000), /"labels" of the model has 5000 rows/);
});

test("rates of a schedule", () => {
  const [optimizer] = fitSpec({
    name: "a",
    tables: [{
      name: "input", dim: 4, optimizer: {
        learning_rate: 0.5,
        schedule: { kind: "linear", warmup_steps: 10, decay_steps: 100, final_fraction: 0.2 },
      },
    }],
  }, 1, 1).tables.map((table) => table.optimizer);
  const rates = [1, 10, 60, 110, 1000].map((step) => learningRate(optimizer, step).toFixed(6));
  assert.deepEqual(rates, ["0.050000", "0.500000", "0.300000", "0.100000", "0.100000"]);
});

test("names of a job's best checkpoint", () => {
  assert.equal(bestCheckpoint("run-1"), "best-run-1");
  const long = bestCheckpoint("x".repeat(64));
  assert.match(long, /^best-x{50}-[0-9a-f]{8}$/);
});
