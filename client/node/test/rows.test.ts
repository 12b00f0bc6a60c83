// Rows, models, jobs and what goes wrong, against a cluster of two shards.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  type Client,
  connect,
  DeadlineExceededError,
  DslideError,
  FailedPreconditionError,
  firstRows,
  InvalidArgumentError,
  type Model,
  NotFoundError,
  UnavailableError,
} from "dslide";
import { Fixture, freePort } from "./cluster.js";

const DIM = 24;
const LABELS = 5000;
const SPEC = {
  name: "rows",
  seed: "18446744073709551557", // of 64 bits
  tables: [
    { name: "input", role: "embedding", rows: 601, dim: 16, bias_row: true },
    { name: "hidden", role: "dense", rows: DIM, dim: 16 },
    {
      name: "labels", role: "head", rows: LABELS, dim: DIM,
      optimizer: { kind: "sgd", learning_rate: 0.5 },
      head: { hash: { codes_per_table: 5, num_tables: 10 } },
    },
  ],
};
const fixture = new Fixture();
let address: string;
let cluster: Client;
let model: Model;

before(async () => {
  address = await fixture.cluster();
  cluster = await connect(address);
  model = await cluster.createModel(SPEC);
});
after(async () => {
  await cluster?.close();
  await fixture.close();
});

test("rows begin as every client computes them", async () => {
  const ids = [0, 1, 17, 1023, 1024, LABELS - 1];
  for (const name of ["input", "labels"]) {
    const mine = name === "input" ? ids.filter((id) => id < 601) : ids;
    const { values } = await model.gather(name, mine);
    const table = model.spec.tables.find((known) => known.name === name)!;
    assert.deepEqual(values, firstRows(table, model.spec.seed!, mine));
  }
});

test("rows come in the order asked for, and repeat", async () => {
  const { values, biases, dim } = await model.gather("labels", [17, 4, 17]);
  const alone = await model.gather("labels", [17]);
  assert.equal(dim, DIM);
  assert.equal(biases?.length, 3);
  assert.deepEqual(values.subarray(0, DIM), alone.values);
  assert.deepEqual(values.subarray(2 * DIM), alone.values);
  const out = new Float32Array(3 * DIM);
  assert.equal((await model.gather("labels", [17, 4, 17], { out })).values, out);
  assert.deepEqual(out, values);
  assert.equal((await model.gather("labels", [])).values.length, 0);
});

test("many rows travel in chunks", async () => {
  const ids = Uint32Array.from({ length: LABELS }, (_, i) => LABELS - 1 - i);
  const values = Float32Array.from({ length: LABELS * DIM }, (_, i) => (i % 1000) / 8);
  await model.scatter("labels", ids, values, { mode: "assign", biases: ids });
  const rows = await model.gather("labels", ids);
  assert.deepEqual(rows.values, values);
  assert.deepEqual(rows.biases, Float32Array.from(ids));
});

test("the memory of messages is used again, whole or in part", async () => {
  const [rows, dim] = [3000, 512]; // some messages to each shard
  const wide = await cluster.createModel({ name: "wide", tables: [{ name: "rows", rows, dim }] });
  const expected = new Float32Array(rows * dim);
  for (const [round, count] of [rows, 700, rows, 1].entries()) {
    const ids = Uint32Array.from({ length: count }, (_, i) => (count === rows ? i : 4 * i));
    const values = Float32Array.from({ length: count * dim }, (_, i) => (i % 997) + round);
    await wide.scatter("rows", ids, values, { mode: "assign" });
    ids.forEach((id, i) => expected.set(values.subarray(i * dim, (i + 1) * dim), id * dim));
  }
  const all = Uint32Array.from({ length: rows }, (_, i) => i);
  assert.deepEqual((await wide.gather("rows", all)).values, expected);
  await cluster.dropModel("wide");
});

test("scatters add, assign, and run the optimizer once", async () => {
  const ones = new Float32Array(2 * DIM).fill(1);
  const first = async () => (await model.gather("labels", [7])).values[0];
  await model.scatter("labels", [7, 9], new Float32Array(2 * DIM), { mode: "assign" });
  await model.scatter("labels", [7, 7], ones, { mode: "add" });
  assert.equal(await first(), 2);
  await model.scatter("labels", [7], ones.subarray(DIM), { learningRate: 0.25 });
  assert.equal(await first(), 1.75);
  await model.scatter("labels", [7], ones.subarray(DIM));
  assert.equal(await first(), 1.25); // the model's rate is 0.5
});

test("scatters of one client keep their order, side by side", async () => {
  const value = (x: number) => new Float32Array(DIM).fill(x);
  const modes = { biases: [3] };
  await Promise.all([
    model.scatter("labels", [11], value(5), { mode: "assign", ...modes }),
    ...Array.from({ length: 30 }, () => model.scatter("labels", [11], value(1), { mode: "add" })),
  ]);
  const { values, biases } = await model.gather("labels", [11]);
  assert.deepEqual([values[0], biases![0]], [35, 3]);
});

test("the best rows are those of a scan", async () => {
  const hidden = Float32Array.from({ length: 3 * DIM }, (_, i) => Math.sin(i));
  const ids = Uint32Array.from({ length: LABELS }, (_, i) => i);
  const weights = Float32Array.from({ length: LABELS * DIM }, (_, i) => Math.cos(i * 0.37));
  await model.scatter("labels", ids, weights, { mode: "assign" });
  const best = await model.topK("labels", hidden, { k: 4 });
  best.forEach((found, query) => {
    const logit = (id: number) =>
      hidden.subarray(query * DIM, (query + 1) * DIM)
        .reduce((sum, x, i) => sum + x * weights[id * DIM + i]!, 0);
    const expected = [...ids].sort((a, b) => logit(b) - logit(a) || a - b).slice(0, 4);
    assert.deepEqual(found.map(({ id }) => id), expected);
    found.forEach((row) => assert.ok(Math.abs(row.logit - logit(row.id)) < 1e-4));
  });
  const hashed = await model.topK("labels", hidden, { k: 4, hashed: true });
  assert.equal(hashed.length, 3);
  assert.ok(hashed[0]!.every(({ logit }) => logit <= best[0]![0]!.logit));
});

test("models are listed, described, created once and dropped", async () => {
  assert.equal((await cluster.createModel(SPEC)).spec.seed, model.spec.seed);
  const parts = await model.describe();
  const rows = parts.map(({ tables }) => tables.find(({ name }) => name === "labels")!.shardRows);
  assert.equal(rows.reduce((sum, one) => sum + one, 0n), BigInt(LABELS));
  await cluster.createModel({ name: "gone", tables: [{ name: "a", rows: 5, dim: 2 }] });
  assert.deepEqual((await cluster.listModels()).map(({ name }) => name), ["gone", "rows"]);
  await cluster.dropModel("gone");
  await assert.rejects(cluster.model("gone"), (error: DslideError) => {
    assert.ok(error instanceof NotFoundError);
    assert.equal(error.reason, "UNKNOWN_MODEL");
    assert.match(error.message, /has no model "gone"; it has rows/);
    return true;
  });
  const other = { ...SPEC, tables: [{ name: "input", rows: 602, dim: 16 }] };
  await assert.rejects(cluster.createModel(other), (error: DslideError) => {
    assert.ok(error instanceof FailedPreconditionError);
    assert.equal(error.reason, "MODEL_DIFFERS");
    assert.match(error.message, /coordinator at .*RegisterModel: .*\(request [0-9a-f]{16}\)$/);
    return true;
  });
  assert.deepEqual((await cluster.status()).models, ["rows"]);
  assert.equal((await cluster.clusterMap()).shards.length, cluster.numShards);
});

test("what jobs may differ in is as asked for, and the rest as registered", async () => {
  const spec = { name: "asked", tables: [{ name: "a", rows: 5, dim: 2 }] };
  const first = await cluster.createModel(spec);
  const registered = (await cluster.listModels()).find(({ name }) => name === "asked");
  assert.deepEqual(first.spec, registered); // the defaults are the server's
  const rate = { learning_rate: 0.25, schedule: { kind: "linear", decay_steps: 9 } };
  const second = await cluster.createModel({
    ...spec, training: { max_epochs: 7 }, tables: [{ ...spec.tables[0], optimizer: rate }],
  });
  assert.deepEqual([second.spec.training?.maxEpochs, second.spec.training?.batchSize], [7n, 256n]);
  const { optimizer } = second.spec.tables[0]!;
  assert.deepEqual([optimizer?.learningRate, optimizer?.schedule?.decaySteps], [0.25, 9n]);
  assert.deepEqual((await cluster.createModel(spec)).spec, registered);
  await cluster.dropModel("asked");
});

test("checkpoints bring rows back", async () => {
  const before = await model.gather("labels", [3]);
  assert.ok((await model.saveCheckpoint("kept")).rows > LABELS);
  await model.scatter("labels", [3], new Float32Array(DIM).fill(9), { mode: "assign" });
  await model.restoreCheckpoint("kept");
  assert.deepEqual((await model.gather("labels", [3])).values, before.values);
});

test("wrong arguments are told before anything is sent", async () => {
  const ones = new Float32Array(DIM).fill(1);
  const wrong: [() => Promise<unknown>, RegExp][] = [
    [() => model.gather("labels", [LABELS]), /id 5000 is outside \[0, 5000\)/],
    [() => model.gather("labels", [0.5]), /id 0.5 at 0 is no integer/],
    [() => model.gather("nowhere", [0]), /no table "nowhere"; it has: input, hidden, labels/],
    [() => model.scatter("labels", [1], [NaN]), /has 1 numbers, must have 24/],
    [() => model.scatter("labels", [1], ones.fill(Infinity, 3, 4)), /has Infinity at 3/],
    [() => model.scatter("input", [1], new Float32Array(16), { biases: [1] }), /no biases/],
    [() => model.scatter("labels", [1, 1], new Float32Array(2 * DIM), { mode: "assign" }),
      /row 1 is assigned twice/],
    [() => model.topK("labels", [1, 2]), /has 2 numbers, must have 24 for each sample/],
    [() => model.topK("labels", ones.fill(0), { budget: 5 }), /budget is 5, .*unless hashed/],
    [() => model.predict([{ ids: [5, 5] }]), /has id 5 twice/],
    [() => cluster.createModel({ name: "x", tabels: [] }), /no model spec: .*tabels/],
    [() => connect("10.0.0.1:7000"), /another machine .*pass tls: .* or insecure: true/],
    [() => connect("nowhere"), /is not host:port/],
    [() => connect(address, { tls: { ca: "/nowhere" } }), /tls.ca: cannot read \/nowhere/],
    [() => connect(address, { requestId: "a b" }), /not 1 to 64 visible/],
  ];
  for (const [call, words] of wrong) {
    await assert.rejects(call, (error: DslideError) => {
      assert.ok(error instanceof InvalidArgumentError, String(error));
      assert.match(error.message, words);
      assert.equal(error.applied, false);
      return true;
    });
  }
});

test("a signal ends a call, and a deadline does", async () => {
  const own = new Error("changed my mind");
  await assert.rejects(model.gather("labels", [1], { signal: AbortSignal.abort(own) }), own);
  const controller = new AbortController();
  const values = new Float32Array(LABELS * DIM);
  const ids = Uint32Array.from({ length: LABELS }, (_, i) => i);
  const scattering = model.scatter("labels", ids, values, { mode: "add", signal: controller.signal });
  controller.abort(own);
  await assert.rejects(scattering, own);
  await model.scatter("labels", [1], values.subarray(0, DIM), { mode: "add" }); // settles it first
  await assert.rejects(
    model.describe({ digests: true, timeoutMs: 0.001 }),
    (error) => error instanceof DeadlineExceededError && error.applied === undefined,
  );
});

test("where nobody answers, it is said who, and what to do", async () => {
  const nobody = `127.0.0.1:${await freePort()}`;
  await assert.rejects(connect(nobody, { patienceMs: 200 }), (error: DslideError) => {
    assert.ok(error instanceof UnavailableError);
    assert.match(error.message, /^coordinator at 127.*ECONNREFUSED.*start the coordinator/);
    assert.match(error.remedy, /^start the coordinator/);
    return true;
  });
});

test("jobs are leased, listed, cancelled and forgotten", async () => {
  const spec = {
    job: "mine", model: "rows", samplesPerEpoch: 10n, chunkSamples: 4n, maxEpochs: 2n, seed: 1n,
    ...(model.spec.training ? { training: model.spec.training } : {}),
  };
  const seen: string[] = [];
  const leases = cluster.leases(spec);
  for await (const work of leases) {
    assert.ok(work.kind === "chunk");
    const { epoch, first, count } = work.lease;
    seen.push(`${epoch} ${first} ${count}`);
    work.finish({ lossSum: 1, samples: Number(count) });
    assert.throws(() => work.finish({ lossSum: 1, samples: 1 }), FailedPreconditionError);
  }
  assert.deepEqual(seen, ["0 0 4", "0 4 4", "0 8 2", "1 0 4", "1 4 4", "1 8 2"]);
  assert.equal(leases.result?.bestEpoch, -1n);
  assert.equal((await cluster.describeJob("mine")).finished, true);

  for await (const work of cluster.leases({ ...spec, job: "other" })) {
    assert.equal(work.kind, "chunk");
    await assert.rejects(
      cluster.deleteJob("other"),
      (error) => error instanceof FailedPreconditionError && error.reason === "JOB_RUNS",
    );
    assert.equal((await cluster.cancelJob("other")).cancelled, true);
  }
  assert.deepEqual((await cluster.listJobs()).map(({ job }) => job).sort(), ["mine", "other"]);
  for (const job of ["mine", "other"]) await cluster.deleteJob(job);
  await assert.rejects(cluster.describeJob("mine"), /has no job "mine"; it has none/);
});
