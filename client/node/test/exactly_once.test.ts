// Nothing is lost and nothing applied twice while a shard is killed and comes back.

import assert from "node:assert/strict";
import { type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { bytesOf, connect, matrix, packIds } from "dslide";
import { Fixture, freePort, kill } from "./cluster.js";

const ROWS = 2048;
const DIM = 8;
const UPDATES = 40;
const KILLS = [10, 25]; // after so many updates
const fixture = new Fixture();
let address: string;
let shard: ChildProcess;
let startShard: (ordinal: number) => ChildProcess;

before(async () => {
  address = `127.0.0.1:${await freePort()}`;
  const ports = [await freePort(), await freePort()];
  fixture.start("dslide-coordinator", "--listen", address, "--shards", 2, "--admin", "");
  startShard = (ordinal) =>
    fixture.start(
      "dslide-shard", "--coordinator", address, "--listen", `127.0.0.1:${ports[ordinal]}`,
      "--shard-id", ordinal, "--threads", 1, "--admin", "",
      "--data-dir", join(fixture.folder, `shard-${ordinal}`), "--durability", "log",
    );
  startShard(1);
  shard = startShard(0);
  await (await fixture.connected(address)).close();
});
after(() => fixture.close());

async function restart(): Promise<void> {
  await kill(shard, "SIGKILL");
  shard = startShard(0);
}

test("every scatter is applied once", async () => {
  const cluster = await connect(address, { timeoutMs: 120_000, patienceMs: 120_000 });
  const model = await cluster.createModel({
    name: "cells",
    tables: [{ name: "cells", rows: ROWS, dim: DIM, init: { kind: "zero" } }],
  });
  const ids = Uint32Array.from({ length: ROWS }, (_, i) => i);
  const ones = new Float32Array(ROWS * DIM).fill(1);
  for (let update = 0; update < UPDATES; ++update) {
    const killed = KILLS.includes(update) ? restart() : undefined;
    await model.scatter("cells", ids, ones, { mode: "add" });
    await killed;
  }
  const { values } = await model.gather("cells", ids);
  assert.deepEqual(values, new Float32Array(ROWS * DIM).fill(UPDATES));
  await cluster.close();
});

test("every operation of a step is applied once, many under way", async () => {
  const cluster = await connect(address, { timeoutMs: 120_000, patienceMs: 120_000 });
  const model = await cluster.createModel({
    name: "steps", tables: [{ name: "input", rows: ROWS, dim: DIM }],
  });
  const steps = await model.steps();
  const batch = { offsets: Uint32Array.of(0, 4), ids: Uint32Array.of(0, 1, 2, 3), values: new Float32Array(4).fill(1) };
  const parts = model.slice("input", batch);
  const forward = parts.map((part) => ({
    table: "input", batch: 1, packedRowIds: packIds(part.offsets, part.ids),
    values: bytesOf(part.values),
  }));
  const gradient = matrix(1, DIM, new Float32Array(DIM).fill(1));
  const backward = parts.map(() => ({ table: "input", gradient }));
  const done: Promise<unknown>[] = [];
  for (let step = 1; step <= UPDATES; ++step) {
    const first = Math.max(1, step - 4);
    done.push(steps.run(step, first, "embedForward", forward));
    done.push(steps.run(step, first, "embedBackward", backward));
    if (KILLS.includes(step)) await restart();
    if (step % 4 === 0) await Promise.all(done);
  }
  await Promise.all(done);
  for (const { tables } of await model.describe()) {
    assert.equal(tables[0]!.appliedSteps, BigInt(UPDATES));
  }
  await steps.close();
  await cluster.close();
});
