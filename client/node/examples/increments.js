// Adds 1 to four rows for each line of stdin, and says of every update what became of it.
//
//   node increments.js COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]
//
// Update n, from 0, is of the rows FIRST_ROW + 4 n and the three after it. stdout: a line of JSON
// for each update, {"update", "outcome", "reason"}.

import { createInterface } from "node:readline";
import { connect, DslideError } from "dslide";

const ROWS_OF_UPDATE = 4;
const CELLS = "cells"; // the model, and its only table

/** What an error says of an update. @param {unknown} error */
function outcomeOf(error) {
  if (!(error instanceof DslideError)) throw error;
  return { outcome: error.applied === false ? "refused" : "unknown", reason: error.reason };
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
    for await (const _ of createInterface({ input: process.stdin })) {
      const first = Number(firstRow) + ROWS_OF_UPDATE * update;
      const ids = Array.from({ length: ROWS_OF_UPDATE }, (_, i) => first + i);
      const said = await model
        .scatter(CELLS, ids, new Float32Array(ROWS_OF_UPDATE).fill(1), { mode: "add" })
        .then(() => ({ outcome: "applied", reason: "" }), outcomeOf);
      console.log(JSON.stringify({ update: update++, ...said }));
    }
  } finally {
    await cluster.close();
  }
}

main(process.argv.slice(2)).catch((/** @type {unknown} */ error) => {
  console.error(`error: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
});
