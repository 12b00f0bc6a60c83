// Gathers and scatters of 10,000 rows of 128 between this client and shards on this machine.
//
//   node build/bench/rows.js [ADDRESS]
//
// Without an address it starts a cluster of one shard (DSLIDE_BIN_DIR). GB/s counts the bytes of the
// rows' values: the median and the best of the rounds, and what this process alone would allow: bytes
// by the time of its processors.

import { Fixture } from "../test/cluster.js";
import { connect } from "dslide";

const ROWS = 10_000;
const DIM = 128;
const TABLE_ROWS = 200_000;
const ROUNDS = 40;
const BYTES = ROWS * DIM * 4;

async function measure(name: string, call: () => Promise<unknown>): Promise<void> {
  for (let i = 0; i < 5; ++i) await call();
  const seconds: number[] = [];
  const cpu = process.cpuUsage();
  for (let i = 0; i < ROUNDS; ++i) {
    const begin = performance.now();
    await call();
    seconds.push((performance.now() - begin) / 1000);
  }
  const used = process.cpuUsage(cpu);
  const own = (used.user + used.system) / 1e6 / ROUNDS;
  seconds.sort((a, b) => a - b);
  const rate = (s: number): string => (BYTES / s / 1e9).toFixed(2);
  console.log(
    `${name}: ${rate(seconds[ROUNDS >> 1]!)} GB/s (best ${rate(seconds[0]!)}), ` +
      `by its own processor time ${rate(own)}`,
  );
}

const fixture = new Fixture();
try {
  const cluster = await connect(process.argv[2] ?? (await fixture.cluster(1)));
  const model = await cluster.createModel({
    name: "bench-rows",
    tables: [{ name: "rows", role: "embedding", rows: TABLE_ROWS, dim: DIM }],
  });
  const ids = Uint32Array.from({ length: ROWS }, (_, i) => i * (TABLE_ROWS / ROWS));
  const values = new Float32Array(ROWS * DIM).fill(0.001);
  const out = new Float32Array(ROWS * DIM);
  await measure("gather", () => model.gather("rows", ids, { out }));
  await measure("scatter", () => model.scatter("rows", ids, values, { mode: "add" }));
  await cluster.dropModel("bench-rows");
  await cluster.close();
} finally {
  await fixture.close();
}
