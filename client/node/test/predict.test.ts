// Predictions are those of the program `dslide`: from the shards, and from `dslide serve`.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import {
  type Client, connect, connectPredictor, InvalidArgumentError, type Sample,
} from "dslide";
import { PredictMode } from "dslide/v1";
import { dslide, Fixture } from "./cluster.js";

const SHAPE = ["--features", 300, "--labels", 400, "--seed", 7];
const SETTINGS = [
  "--epochs", 2, "--batch-size", 64, "--in-flight", 1, "--threads", 1, "--learning-rate", 0.01,
  "--validation-fraction", 0,
];
// They differ in all that a prediction depends on.
const MODELS: Record<string, (string | number)[]> = {
  single: ["--dim", 24, "--max-active", 0, "--activations", "f32", "--transform", "l2"],
  half: ["--dim", 24, "--max-active", 0, "--activations", "bf16", "--transform", "raw"],
  deep: ["--model", "deep.json"],
};
const DEEP = {
  name: "deep",
  tables: [
    { name: "input", role: "embedding", dim: 16, bias_row: true },
    { name: "hidden", role: "dense", rows: 24, dim: 16 },
    { name: "labels", role: "head", dim: 24, head: { max_active: 0 } },
  ],
};
const fixture = new Fixture();
let address: string;
let cluster: Client;
let samples: Sample[];

before(async () => {
  writeFileSync(join(fixture.folder, "deep.json"), JSON.stringify(DEEP));
  const path = (name: string) => join(fixture.folder, name);
  dslide("data", "gen", "--output", path("train.txt"), "--points", 600, ...SHAPE);
  dslide("data", "gen", "--output", path("test.txt"), "--points", 3, "--first-point", 600, ...SHAPE);
  samples = readFileSync(path("test.txt"), "utf8").trim().split("\n").slice(1).map((line) => {
    const pairs = line.split(" ").slice(1).map((word) => word.split(":").map(Number));
    return { ids: pairs.map(([id]) => id!), values: pairs.map(([, value]) => value!) };
  });
  address = await fixture.cluster(3);
  for (const [name, flags] of Object.entries(MODELS)) {
    const own = flags.map((flag) => (flag === "deep.json" ? path(flag) : flag));
    dslide(
      "train", "-q", "--cluster", address, "--job", name, ...(name === "deep" ? [] : ["--name", name]),
      "--data", path("train.txt"), ...SETTINGS, ...own,
    );
  }
  cluster = await connect(address);
});
after(async () => {
  await cluster?.close();
  await fixture.close();
});

/** What `dslide predict` says of the points: label and logit, best first. */
function expected(model: string): { label: number; logit: number; point: number }[] {
  const data = join(fixture.folder, "test.txt");
  const said = dslide("predict", "-o", "json", "--cluster", address, "--name", model, "--data", data);
  const all = said.trim().split("\n").map((line) => JSON.parse(line) as Record<string, never>);
  return all.flatMap((line, point) =>
    ((line["predictions"] ?? []) as { label: number; logit: number }[]).map((one) => ({
      ...one, point,
    })),
  );
}

for (const name of Object.keys(MODELS)) {
  test(`from the shards: ${name}`, async () => {
    const theirs = expected(name);
    assert.ok(theirs.length > 0);
    const ours = await (await cluster.model(name)).predict(samples);
    const flat = ours.flatMap((rows, point) => rows.map((row) => ({ ...row, point })));
    assert.deepEqual(flat.map(({ id }) => id), theirs.map(({ label }) => label));
    theirs.forEach(({ logit }, i) => assert.ok(Math.abs(flat[i]!.logit - logit) < 1e-3));
  });
}

test("from dslide serve", async () => {
  const serve = fixture.start(
    "dslide", "serve", "-o", "json", "--cluster", address, "--name", "single",
    "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0",
  );
  let grpc = "";
  for await (const line of createInterface(serve.stdout!)) {
    grpc = (JSON.parse(line) as Record<string, string>)["grpc"]!;
    break;
  }
  const predictor = connectPredictor(grpc);
  try {
    const served = await predictor.model();
    assert.equal(served.model, "single");
    const results = await predictor.predict(samples, { topK: 5, mode: "exact" });
    const ours = await (await cluster.model("single")).predict(samples);
    assert.deepEqual(
      results.map(({ labels }) => labels.map(({ id }) => id)),
      ours.map((rows) => rows.map(({ id }) => id)),
    );
    assert.equal(results[0]!.mode, PredictMode.EXACT);
    await assert.rejects(
      predictor.predict([{ hidden: [1] }]),
      (error) => error instanceof InvalidArgumentError && error.reason === "WRONG_DIM",
    );
  } finally {
    predictor.close();
  }
});
