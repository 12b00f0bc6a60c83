// Rows of tables, read and changed by id. Row ids are global: requests are cut by owner, and
// answers put together in the order asked for.

import { fromBinary } from "@bufbuild/protobuf";
import { checkedFloats, checkedIds } from "./arguments.js";
import { bytesOf, floats, fromBf16, u16s, u32s } from "./arrays.js";
import { type Block, forEachRun, taken } from "./bulk.js";
import { type Connection } from "./connection.js";
import { InternalError, InvalidArgumentError } from "./errors.js";
import { ElementType, type RowBlock } from "./gen/dslide/v1/common_pb.js";
import {
  GatherRequestSchema,
  GatherResponseSchema,
  ScatterMode,
  ShardService,
} from "./gen/dslide/v1/shard_pb.js";
import { findTable } from "./models.js";
import { type CallOptions, encode } from "./transport.js";

const IDS_PER_GATHER = 1 << 18;
/** So that a pair of a row and a place is exact as a number. */
const MAX_IDS = 1 << 22;
const MODES = {
  gradient: ScatterMode.GRADIENT,
  add: ScatterMode.ADD,
  assign: ScatterMode.ASSIGN,
} as const;

/** Rows with their biases, in the order asked for. */
export interface Rows {
  /** f32 [n, dim], row-major. */
  values: Float32Array;
  /** f32 [n]; none in an embedding. */
  biases: Float32Array | undefined;
  dim: number;
}

export interface GatherOptions extends CallOptions {
  /** Where the values go, f32 [n, dim]: memory that is used again need not be made anew. */
  out?: Float32Array;
  /** Averaged rows, where the table keeps averages. */
  averaged?: boolean;
}

export interface ScatterOptions extends CallOptions {
  /** f32 [n], for tables whose rows have one; none: 0, and unchanged by "add". */
  biases?: ArrayLike<number>;
  /** "gradient" (the default) runs the table's optimizer once, "add" adds, "assign" replaces. */
  mode?: keyof typeof MODES;
  /** Of this update by gradients; none: the model's, by its schedule. */
  learningRate?: number;
}

/** Strictly ascending ids, and where each of the given ones is among them. */
interface Sorted {
  ids: Uint32Array;
  /** None: the given ones ascend already. */
  inverse: Uint32Array | undefined;
}

function ascending(ids: Uint32Array, what: string): Sorted {
  let sorted = true;
  for (let i = 1; i < ids.length && sorted; ++i) sorted = ids[i]! > ids[i - 1]!;
  if (sorted) return { ids, inverse: undefined };
  if (ids.length > MAX_IDS) {
    throw new InvalidArgumentError(
      `${what}: ${ids.length} ids that do not ascend are more than ${MAX_IDS}: sort them, or ask ` +
        "in parts",
    );
  }
  const pairs = Float64Array.from(ids, (id, place) => id * MAX_IDS + place).sort();
  const unique = new Uint32Array(ids.length);
  const inverse = new Uint32Array(ids.length);
  let count = 0;
  for (const pair of pairs) {
    const id = Math.floor(pair / MAX_IDS);
    if (count === 0 || unique[count - 1] !== id) unique[count++] = id;
    inverse[pair % MAX_IDS] = count - 1;
  }
  return { ids: unique.slice(0, count), inverse };
}

/** Rows of a table by id; ids may repeat. Rows of different shards are not of one instant. */
export async function gather(
  connection: Connection,
  model: string,
  tableName: string,
  ids: ArrayLike<number>,
  options: GatherOptions = {},
): Promise<Rows> {
  const table = await findTable(connection, model, tableName, options);
  const what = `gather of table "${tableName}"`;
  const dim = Number(table.dim);
  const wanted = checkedIds(ids, Number(table.rows), what);
  const { ids: unique, inverse } = ascending(wanted, what);
  if (options.out && options.out.length !== wanted.length * dim) {
    throw new InvalidArgumentError(
      `${what}: out has ${options.out.length} numbers, must have ${wanted.length * dim}`,
    );
  }
  const direct = options.out && !inverse ? options.out : new Float32Array(unique.length * dim);
  const biases = table.role === "embedding" ? undefined : new Float32Array(unique.length);
  const rows: Rows = { values: direct, biases, dim };
  const parts: Promise<void>[] = [];
  connection.places(table, unique).forEach((places, shard) => {
    for (let first = 0; first < places.length; first += IDS_PER_GATHER) {
      const some = places.subarray(first, first + IDS_PER_GATHER);
      parts.push(gatherPart(connection, { model, tableName, shard }, unique, some, rows, options));
    }
  });
  await Promise.all(parts);
  return inverse ? inOrder(rows, inverse, options.out) : rows;
}

function inOrder(rows: Rows, inverse: Uint32Array, out: Float32Array | undefined): Rows {
  const { dim } = rows;
  const values = out ?? new Float32Array(inverse.length * dim);
  inverse.forEach((from, to) => {
    values.set(rows.values.subarray(from * dim, (from + 1) * dim), to * dim);
  });
  return { values, biases: rows.biases && taken(rows.biases, inverse), dim };
}

/** Asks a shard for the rows at some places and puts them there in `rows`. */
async function gatherPart(
  connection: Connection,
  { model, tableName, shard }: { model: string; tableName: string; shard: number },
  ids: Uint32Array,
  places: Uint32Array,
  rows: Rows,
  options: GatherOptions,
): Promise<void> {
  const peer = connection.shards[shard]!;
  const wanted = taken(ids, places);
  const request = encode(GatherRequestSchema, {
    model,
    table: tableName,
    topologyVersion: connection.map.topologyVersion,
    selection: { case: "rows", value: { rowIds: bytesOf(wanted) } },
    averaged: options.averaged ?? false,
  });
  await peer.repeat(async (left) => {
    let done = 0;
    await peer.download(ShardService.method.gather, request, left, (message) => {
      const block = fromBinary(GatherResponseSchema, message).rows;
      if (block) done += keepRows(block, wanted, places, done, rows, peer.name);
    });
    if (done !== wanted.length) {
      throw new InternalError(`${peer.name} answered ${done} of ${wanted.length} rows`);
    }
  }, options);
}

/** Puts the rows of one message, which are those from `done` on, at their places; how many. */
function keepRows(
  block: RowBlock,
  wanted: Uint32Array,
  places: Uint32Array,
  done: number,
  rows: Rows,
  peer: string,
): number {
  const { dim } = rows;
  const got = u32s(block.rowIds);
  const data = block.values?.data ?? new Uint8Array();
  const bf16 = block.values?.elementType === ElementType.BF16;
  const bytes = bf16 ? bytesOf(fromBf16(u16s(data))) : data;
  const biases = floats(block.biases);
  if (
    bytes.length !== got.length * dim * 4 ||
    (rows.biases && biases.length !== got.length) ||
    got.some((id, i) => id !== wanted[done + i])
  ) {
    throw new InternalError(`${peer} answered rows that were not asked for`);
  }
  const out = bytesOf(rows.values);
  const width = dim * 4;
  forEachRun(places.subarray(done, done + got.length), (first, count, begin) => {
    out.set(bytes.subarray(begin * width, (begin + count) * width), first * width);
  });
  if (rows.biases) for (let i = 0; i < got.length; ++i) rows.biases[places[done + i]!] = biases[i]!;
  return got.length;
}

/**
 * Changes rows by id, each shard's part whole or not at all, and never twice. Values are f32
 * [n, dim]; those of equal ids are added up ("assign" refuses them).
 *
 * A lost answer is asked for again with the same number. Scatters of one client are applied in the
 * order of these calls. When an error's `applied` is undefined, nobody knows whether a shard that
 * does not answer has applied its part.
 */
export async function scatter(
  connection: Connection,
  model: string,
  tableName: string,
  ids: ArrayLike<number>,
  values: ArrayLike<number>,
  options: ScatterOptions = {},
): Promise<void> {
  const modeName = options.mode ?? "gradient";
  const mode = MODES[modeName];
  if (mode === undefined) {
    throw new InvalidArgumentError(
      `mode is ${JSON.stringify(modeName)}, must be one of ${Object.keys(MODES).join(", ")}`,
    );
  }
  const table = await findTable(connection, model, tableName, options);
  const what = `scatter to table "${tableName}"`;
  const given = checkedIds(ids, Number(table.rows), what);
  const block: Block = {
    ids: given,
    values: checkedFloats(values, given.length * Number(table.dim), `${what}: values`),
    biases: undefined,
  };
  if (table.role !== "embedding") {
    const biases = options.biases ?? new Float32Array(given.length);
    block.biases = checkedFloats(biases, given.length, `${what}: biases`);
  } else if (options.biases) {
    throw new InvalidArgumentError(`${what}: its rows have no biases`);
  }
  const whole = addedUp(block, modeName, what);
  if (whole.ids.length === 0) return;
  const head = {
    table: tableName,
    model,
    mode,
    ...(options.learningRate === undefined ? {} : { learningRate: options.learningRate }),
  };
  await connection.inTurn(async () => {
    options.signal?.throwIfAborted();
    const parts = connection.places(table, whole.ids).map((places, shard) =>
      places.length > 0
        ? connection.scatters[shard]!.apply(head, whole, places, options)
        : Promise.resolve(),
    );
    // All have ended before the next one's turn, whatever became of one.
    for (const part of await Promise.allSettled(parts)) {
      if (part.status === "rejected") throw part.reason;
    }
  });
}

/** The block in ascending order, with one row for each id. */
function addedUp(block: Block, mode: string, what: string): Block {
  const { ids, inverse } = ascending(block.ids, what);
  if (!inverse) return block;
  if (mode === "assign" && ids.length < block.ids.length) {
    const seen = new Set<number>();
    const twice = block.ids.find((id) => seen.size === seen.add(id).size);
    throw new InvalidArgumentError(
      `${what}: row ${twice} is assigned twice in one request: keep one of its values`,
    );
  }
  const dim = block.values.length / block.ids.length;
  const values = new Float32Array(ids.length * dim);
  const biases = block.biases && new Float32Array(ids.length);
  inverse.forEach((to, from) => {
    for (let i = 0; i < dim; ++i) values[to * dim + i]! += block.values[from * dim + i]!;
    if (biases) biases[to]! += block.biases![from]!;
  });
  return { ids, values, biases };
}
