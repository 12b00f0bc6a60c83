// Adds 1 to four rows for each line of stdin, and says of every update what became of it.
//
//   node increments.js COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]
//
// Update n, from 0, is of the rows FIRST_ROW + 4 n and the three after it. stdout: a line of JSON
// for each update, {"update", "outcome", "reason"}.
//
// A line "step 2" asks for two operations of a step stream at once instead, updates n and n + 1: each
// the sum of row n of another model, which the answer has as "value".

import { createInterface } from "node:readline";
import { addParts, bytesOf, connect, DslideError } from "dslide";

const ROWS_OF_UPDATE = 4;
const CELLS = "cells"; // the model, and its only table
const STEPS = "steps"; // the model of the operations

/** What an error says of an update. @param {unknown} error */
function outcomeOf(error) {
  if (!(error instanceof DslideError)) throw error;
  return { outcome: error.applied === false ? "refused" : "unknown", reason: error.reason };
}

/** The streams of the operations. @param {import("dslide").Client} cluster */
async function openSteps(cluster) {
  /** @type {{ dim: number, init: { kind: string }, optimizer: { kind: string } }} */
  const sgd = { dim: 1, init: { kind: "zero" }, optimizer: { kind: "sgd" } };
  const model = await cluster.createModel({
    name: STEPS, tables: [
      { name: CELLS, role: "embedding", rows: 200_000, ...sgd },
      { name: "head", role: "head", rows: 8, head: { maxActive: 0 }, ...sgd },
    ],
  });
  return model.steps();
}

/** An operation, a step of its own, on the only shard. @param {import("dslide").Steps} steps @param {number} row */
async function sumOf(steps, row) {
  const operation = {
    table: CELLS, batch: 1, sampleOffsets: bytesOf(new Uint32Array([0, 1])), rowIds: bytesOf(new Uint32Array([row])),
  };
  const [answer] = await steps.run(row + 1, row + 1, "embedForward", [operation]);
  if (!answer?.partial) throw new Error("the shard has answered nothing");
  return addParts([answer.partial], 1, 1)[0];
}

/** @param {string[]} parts */
async function main([coordinator, firstRow, timeout, ca, cert, key]) {
  const limit = 1000 * Number(timeout);
  if (coordinator === undefined || !Number.isInteger(Number(firstRow)) || !(limit > 0)) {
    throw new Error("usage: increments.js COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]");
  }
  const cluster = await connect(coordinator, {
    timeoutMs: limit, patienceMs: limit, ...(ca && cert && key ? { tls: { ca, cert, key } } : {}),
  });
  try {
    const model = await cluster.createModel({
      name: CELLS, tables: [
        { name: CELLS, rows: 200_000, dim: 1, init: { kind: "zero" }, optimizer: { kind: "sgd" } },
      ],
    });
    let update = 0;
    /** @type {import("dslide").Steps | undefined} */
    let steps;
    for await (const line of createInterface({ input: process.stdin })) {
      if (line.startsWith("step ")) {
        const streams = (steps ??= await openSteps(cluster));
        const rows = Array.from({ length: Number(line.slice(5)) }, () => update++);
        const outcomes = rows.map((row) => sumOf(streams, row).then(
          (value) => ({ update: row, outcome: "applied", reason: "", value }),
          (/** @type {unknown} */ error) => ({ update: row, ...outcomeOf(error), value: 0 }),
        ));
        for (const said of await Promise.all(outcomes)) console.log(JSON.stringify(said));
        continue;
      }
      const first = Number(firstRow) + ROWS_OF_UPDATE * update;
      const ids = Array.from({ length: ROWS_OF_UPDATE }, (_, i) => first + i);
      const said = await model
        .scatter(CELLS, ids, new Float32Array(ROWS_OF_UPDATE).fill(1), { mode: "add" })
        .then(() => ({ outcome: "applied", reason: "" }), outcomeOf);
      console.log(JSON.stringify({ update: update++, ...said }));
    }
    await steps?.close();
  } finally {
    await cluster.close();
  }
}

main(process.argv.slice(2)).catch((/** @type {unknown} */ error) => {
  console.error(`error: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
});
