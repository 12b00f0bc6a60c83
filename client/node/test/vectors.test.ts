// Against C++, bit for bit where nothing else is said, over 10,000 seeded cases each: what `dslide_client_vectors` writes.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { before, test } from "node:test";
import {
  bytesOf, combineLoss, EpochOrder, firstRows, hashFamily, packIds, sliceBatch, toBf16, TrainingSplit,
} from "dslide";
import { InitSpecSchema } from "dslide/v1";
import { create } from "@bufbuild/protobuf";
import { BIN } from "./cluster.js";

const CASES = 10_000;
type Numbers = Float32Array | Float64Array | Uint32Array | Uint16Array | Uint8Array | number[];
interface Section {
  settings: Record<string, unknown>;
  arrays: Record<string, Numbers>;
  shapes: Record<string, number[]>;
}
const sections = new Map<string, Section[]>();

const READERS: Record<string, (bytes: ArrayBuffer) => Numbers> = {
  "<f4": (bytes) => new Float32Array(bytes),
  "<f8": (bytes) => new Float64Array(bytes),
  "<u4": (bytes) => new Uint32Array(bytes),
  "<u2": (bytes) => new Uint16Array(bytes),
  "<u1": (bytes) => new Uint8Array(bytes),
  "<i8": (bytes) => Array.from(new BigInt64Array(bytes), Number),
};

before(() => {
  const program = join(BIN, "dslide_client_vectors");
  const { stdout, status, error } = spawnSync(program, { maxBuffer: 1 << 30 });
  assert.equal(status, 0, String(error));
  for (let at = 0; at < stdout.length; ) {
    const end = stdout.indexOf(10, at);
    // Seeds have 64 bits, which JSON.parse would round.
    const text = stdout.toString("utf8", at, end).replace(/"seed":(\d+)/g, '"seed":"$1"');
    const header = JSON.parse(text) as {
      section: string;
      settings: Record<string, unknown>;
      arrays: [string, string, number[]][];
    };
    at = end + 1;
    const section: Section = { settings: header.settings, arrays: {}, shapes: {} };
    for (const [name, kind, shape] of header.arrays) {
      const size = shape.reduce((all, one) => all * one, 1) * Number(kind[2]);
      section.arrays[name] = READERS[kind]!(Uint8Array.from(stdout.subarray(at, at + size)).buffer);
      section.shapes[name] = shape;
      at += size;
    }
    const known = sections.get(header.section) ?? [];
    sections.set(header.section, [...known, section]);
  }
});

function numbers<T extends Numbers>({ arrays }: Section, name: string): T {
  return arrays[name] as T;
}

for (const family of ["simhash", "dwta"] as const) {
  test(`fingerprints of ${family}`, () => {
    let queries = 0;
    for (const section of sections.get("fingerprints")!) {
      const { settings, shapes } = section;
      if (settings["family"] !== family) continue;
      const hasher = hashFamily(
        {
          family,
          codesPerTable: settings["codes_per_table"] as number,
          numTables: settings["num_tables"] as number,
          binSize: settings["bin_size"] as number,
          seed: BigInt(settings["seed"] as string),
        },
        shapes["hidden"]![1]!,
      );
      const prints = hasher.hash(numbers<Float32Array>(section, "hidden"));
      assert.deepEqual(prints, numbers(section, "fingerprints"), JSON.stringify(settings));
      queries += shapes["hidden"]![0]!;
    }
    assert.ok(queries >= CASES);
  });
}

test("first rows", () => {
  let rows = 0;
  for (const section of sections.get("first_rows")!) {
    const { settings } = section;
    const init = create(InitSpecSchema, {
      kind: settings["kind"] as string,
      scale: settings["scale"] as number,
    });
    const table = { name: settings["table"] as string, dim: BigInt(settings["dim"] as number), init };
    const ids = numbers<Uint32Array>(section, "rows");
    const values = firstRows(table, BigInt(settings["seed"] as string), ids);
    const bits = (array: Float32Array) => new Uint32Array(array.buffer);
    assert.deepEqual(bits(values), bits(numbers(section, "values")), JSON.stringify(settings));
    rows += ids.length;
  }
  assert.ok(rows >= CASES);
});

test("rounding to bf16", () => {
  const section = sections.get("bf16")![0]!;
  const bits = numbers<Uint32Array>(section, "bits");
  assert.ok(bits.length >= CASES);
  assert.deepEqual(toBf16(new Float32Array(bits.buffer)), numbers(section, "halves"));
});

test("packed ids", () => {
  const section = sections.get("packed_ids")![0]!;
  const samples = numbers<number[]>(section, "samples");
  const [offsets, rows] = [numbers<Uint32Array>(section, "offsets"), numbers<Uint32Array>(section, "rows")];
  const [sizes, bytes] = [numbers<number[]>(section, "sizes"), numbers<Uint8Array>(section, "bytes")];
  assert.ok(samples.length >= CASES);
  let [offset, row, byte] = [0, 0, 0];
  samples.forEach((count, i) => {
    const mine = offsets.subarray(offset, offset + count + 1);
    const end = mine[count]!;
    assert.deepEqual(
      Buffer.from(packIds(mine, rows.subarray(row, row + end))),
      Buffer.from(bytes.subarray(byte, byte + sizes[i]!)),
    );
    offset += count + 1;
    row += end;
    byte += sizes[i]!;
  });
});

test("orders of epochs and splits", () => {
  let points = 0;
  for (const section of sections.get("order")!) {
    const { settings } = section;
    const [count, seed] = [settings["points"] as number, BigInt(settings["seed"] as string)];
    const heldOut = settings["max_validation"] as number;
    const fraction = heldOut === 0 ? 0 : (settings["fraction"] as number);
    const split = new TrainingSplit(count, seed, fraction, heldOut);
    const order = new EpochOrder(split.numTraining, seed, settings["epoch"] as number);
    const visited = Array.from({ length: split.numTraining }, (_, i) =>
      split.trainingPoint(order.pointAt(i)),
    );
    assert.deepEqual(visited, numbers(section, "order"), JSON.stringify(settings));
    const held = Array.from({ length: split.numValidation }, (_, i) => split.validationPoint(i));
    assert.deepEqual(held, numbers(section, "validation"));
    points += count;
  }
  assert.ok(points >= CASES);
});

test("owners of rows", () => {
  let rows = 0;
  for (const section of sections.get("owners")!) {
    const ids = Uint32Array.from(numbers<Uint32Array>(section, "rows")).sort();
    const shardOf = new Map<number, number>();
    numbers<Uint32Array>(section, "rows").forEach((id, i) => {
      shardOf.set(id, numbers<Uint16Array>(section, "shard_of_row")[i]!);
    });
    const batch = {
      offsets: Uint32Array.of(0, ids.length), ids, values: new Float32Array(ids.length),
    };
    const owners = numbers<Uint16Array>(section, "owners");
    const shards = section.settings["shards"] as number;
    const parts = sliceBatch(owners, shards, batch);
    parts.forEach((part, shard) => {
      assert.deepEqual(part.ids, ids.filter((id) => shardOf.get(id) === shard));
    });
    rows += ids.length;
  }
  assert.ok(rows >= CASES);
});

/** Equal but for the last bit: exponentials and logarithms are those of another library. */
function close(a: number, b: number): boolean {
  return Math.abs(a - b) <= 2 ** -23 * Math.abs(b);
}

for (const kind of ["softmax", "sigmoid"] as const) {
  test(`combination of the ${kind}`, () => {
    let samples = 0;
    for (const section of sections.get("loss")!) {
      if (section.settings["loss"] !== kind) continue;
      const [shards, batch] = section.shapes["max_logits"] as [number, number];
      const array = (name: string) => numbers<Float32Array>(section, name);
      const offsets = numbers<Uint32Array>(section, "label_offsets");
      const labels = Array.from({ length: shards }, (_, s) => ({
        offsets: offsets.subarray(s * (batch + 1), (s + 1) * (batch + 1)),
      }));
      let first = 0;
      const parts = labels.map((mine, s) => {
        const end = first + mine.offsets[batch]!;
        const labelLogits = bytesOf(array("label_logits").subarray(first, end));
        first = end;
        const part = (name: string) => bytesOf(array(name).subarray(s * batch, (s + 1) * batch));
        return { maxLogits: part("max_logits"), expSums: part("exp_sums"), labelLogits };
      });
      const loss = combineLoss(kind, parts, labels, array("targets"));
      const theirs = array("log_partitions");
      assert.equal(loss.logPartitions.length, theirs.length);
      loss.logPartitions.forEach((mine, i) => assert.ok(close(mine, theirs[i]!), `${mine} ${theirs[i]}`));
      const sum = numbers<Float64Array>(section, "loss_sum")[0]!;
      assert.ok(close(loss.sum, sum), `${loss.sum} ${sum}`);
      samples += batch;
    }
    assert.ok(samples >= CASES);
  });
}
