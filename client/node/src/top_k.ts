// Rows of a head that score best, and the predictions of a whole network.

import { checkedHidden } from "./arguments.js";
import { bytesOf, floats, matrix, packIds, u32s } from "./arrays.js";
import { type Connection } from "./connection.js";
import { denseForward, joinDense } from "./dense_layer.js";
import { InternalError, InvalidArgumentError } from "./errors.js";
import { ReadRequestSchema, ShardService, type StepResponse, TopKMode } from "./gen/dslide/v1/shard_pb.js";
import { type TableSpec } from "./gen/dslide/v1/model_pb.js";
import { familyOf, findTable, model } from "./models.js";
import { addParts, networkOf, rectify, roundToBf16 } from "./network.js";
import { batchOf, type Sample, sliceBatch, transformed, withBiasRow } from "./samples.js";
import { type CallOptions } from "./transport.js";
import { type MessageInitShape } from "@bufbuild/protobuf";

const NO_ROW = 0xffffffff;
const MAX_BUDGET = 2 ** 31;

/** A row of a head and its score. */
export interface Scored {
  id: number;
  logit: number;
}

export interface TopKOptions extends CallOptions {
  /** How many rows of each query, [1, 1024]: 5. */
  k?: number;
  /** Among the candidates that hashing finds, instead of all rows. */
  hashed?: boolean;
  /**
   * Beside `hashed`, rows to score for each query, over all shards, at most 2^31: the more, the more
   * of the exact answer is found. 0: as many as in training.
   */
  budget?: number;
}

/** The best rows of a head for hidden vectors f32 [batch, dim], over all shards, best first. */
export async function topK(
  connection: Connection,
  name: string,
  tableName: string,
  hidden: ArrayLike<number>,
  options: TopKOptions = {},
): Promise<Scored[][]> {
  const table = await findTable(connection, name, tableName, options);
  const k = options.k ?? 5;
  const dim = Number(table.dim);
  const queries = checkedHidden(hidden, dim, `hidden vectors of table "${tableName}"`);
  const batch = queries.length / dim;
  if (!Number.isInteger(k) || k < 1 || k > 1024) {
    throw new InvalidArgumentError(`k is ${k}, must be an integer in [1, 1024]`);
  }
  const budget = options.budget ?? 0;
  const fits = Number.isInteger(budget) && budget >= 0 && budget <= MAX_BUDGET;
  if (!fits || (budget > 0 && !options.hashed)) {
    throw new InvalidArgumentError(
      `budget is ${budget}, must be an integer in [0, ${MAX_BUDGET}], and 0 unless hashed is true`,
    );
  }
  if (batch === 0) return [];
  const family = options.hashed ? familyOf(connection, name, table) : undefined;
  const request = {
    model: name,
    table: tableName,
    hidden: matrix(batch, dim, queries),
    k,
    mode: family ? TopKMode.HASHED : TopKMode.EXACT,
    budget: family ? budget : 0,
    fingerprints: family ? bytesOf(family.hash(queries)) : new Uint8Array(),
  };
  const answers = await Promise.all(
    connection.shards.map((shard) => shard.call(ShardService.method.topK, request, options)),
  );
  const found = answers.map(({ rowIds, logits }, shard) => {
    const parts = { ids: u32s(rowIds), logits: floats(logits) };
    if (parts.ids.length !== batch * k || parts.logits.length !== batch * k) {
      throw new InternalError(
        `${connection.shards[shard]!.name} answered ${parts.ids.length} rows, expected ${batch * k}`,
      );
    }
    return parts;
  });
  return Array.from({ length: batch }, (_, query) =>
    found
      .flatMap(({ ids, logits }) =>
        Array.from({ length: k }, (__, i) => ({
          id: ids[query * k + i]!,
          logit: logits[query * k + i]!,
        })),
      )
      .filter(({ id }) => id !== NO_ROW)
      .sort((a, b) => b.logit - a.logit || a.id - b.id)
      .slice(0, k),
  );
}

type Operation = NonNullable<MessageInitShape<typeof ReadRequestSchema>["operation"]>;

/** Runs one operation on a shard that changes nothing, outside of any step. */
async function read(
  connection: Connection,
  name: string,
  shard: number,
  operation: Operation["operation"] & object,
  options: CallOptions,
): Promise<StepResponse["result"]> {
  const request: MessageInitShape<typeof ReadRequestSchema> = {
    model: name,
    topologyVersion: connection.map.topologyVersion,
    operation: { operation } as Operation,
  };
  const answer = await connection.shards[shard]!.call(ShardService.method.read, request, options);
  return answer.result?.result ?? { case: undefined };
}

const averages = (table: TableSpec): boolean => (table.optimizer?.averageDecay ?? 0) > 0;

/**
 * The input of a network's head for features as the data has them, f32 [samples, dim].
 * Refuses models whose transform only their training knows ("tf_idf").
 */
export async function hiddenOf(
  connection: Connection,
  name: string,
  samples: readonly Sample[],
  options: CallOptions = {},
): Promise<Float32Array> {
  const spec = await model(connection, name, options);
  const { embedding, dense, numFeatures, bf16 } = networkOf(spec);
  let batch = batchOf(samples, numFeatures, "samples");
  batch = transformed(batch, spec.training?.transform ?? "l2");
  if (embedding.biasRow) batch = withBiasRow(batch, numFeatures);
  const shards = connection.shards.length;
  const parts = await Promise.all(
    sliceBatch(connection.owners(embedding), shards, batch).map(async (part, shard) => {
      const value = {
        table: embedding.name!,
        batch: samples.length,
        packedRowIds: packIds(part.offsets, part.ids),
        values: bytesOf(part.values),
        averaged: averages(embedding),
      };
      const result = await read(connection, name, shard, { case: "embedForward", value }, options);
      if (result.case === "embedForward" && result.value.partial) return result.value.partial;
      throw new InternalError(`${connection.shards[shard]!.name} answered no sums`);
    }),
  );
  let hidden = rectify(addParts(parts, samples.length, Number(embedding.dim)));
  for (const table of dense) {
    const rows = await Promise.all(
      connection.shards.map(async (_, shard) => {
        const value = { table: table.name!, averaged: averages(table) };
        const result = await read(connection, name, shard, { case: "denseGather", value }, options);
        return result.case === "denseGather" ? result.value.rows : undefined;
      }),
    );
    hidden = denseForward(joinDense(table, rows), hidden);
  }
  return bf16 ? roundToBf16(hidden) : hidden;
}

/** The best labels of samples, best first: `hiddenOf`, then `topK` of the head. */
export async function predictLabels(
  connection: Connection,
  name: string,
  samples: readonly Sample[],
  options: TopKOptions = {},
): Promise<Scored[][]> {
  if (samples.length === 0) return [];
  const hidden = await hiddenOf(connection, name, samples, options);
  const { head } = networkOf(await model(connection, name, options));
  return topK(connection, name, head.name!, hidden, options);
}
