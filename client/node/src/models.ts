// The models of a cluster.

import { fromJson, type JsonValue, type MessageInitShape } from "@bufbuild/protobuf";
import { askedFor } from "./asked.js";
import { type Connection } from "./connection.js";
import { InvalidArgumentError, NotFoundError } from "./errors.js";
import { CoordinatorService } from "./gen/dslide/v1/coordinator_pb.js";
import { type ModelSpec, ModelSpecSchema, type TableSpec } from "./gen/dslide/v1/model_pb.js";
import { type DescribeModelResponse, ShardService } from "./gen/dslide/v1/shard_pb.js";
import { type HashFamily, hashFamily, resolvedHash } from "./hashing.js";
import { type CallOptions, LONG_TIMEOUT_MS } from "./transport.js";

/** A spec as the JSON files of docs/models have it, or the message. */
export type SpecLike = ModelSpec | JsonValue;

/** The message of a spec. InvalidArgumentError: it is none. */
export function parseSpec(spec: SpecLike): ModelSpec {
  if (typeof spec === "object" && spec !== null && "$typeName" in spec) return spec as ModelSpec;
  try {
    return fromJson(ModelSpecSchema, spec as JsonValue);
  } catch (error) {
    throw new InvalidArgumentError(`the spec is no model spec: ${(error as Error).message}`);
  }
}

/**
 * Creates a model on all shards, unless an equal one is there. Its spec with every field; where it
 * was registered with another training, with that which is asked for.
 */
export async function createModel(
  connection: Connection,
  spec: SpecLike,
  options: CallOptions,
): Promise<ModelSpec> {
  const wanted = parseSpec(spec);
  const request: MessageInitShape<typeof CoordinatorService.method.registerModel.input> = {
    spec: wanted,
  };
  await connection.coordinator.call(CoordinatorService.method.registerModel, request, options);
  const name = wanted.name ?? "";
  forget(connection, name);
  const opened = askedFor(await model(connection, name, options), wanted);
  connection.specs.set(name, opened);
  return opened;
}

function forget(connection: Connection, name: string): void {
  connection.specs.delete(name);
  for (const key of connection.families.keys()) {
    if (key.startsWith(`${name} `)) connection.families.delete(key);
  }
}

/** All models of the cluster, by name. */
export async function listModels(
  connection: Connection,
  options: CallOptions,
): Promise<ModelSpec[]> {
  const models: ModelSpec[] = [];
  let pageToken = "";
  do {
    const page = await connection.coordinator.call(
      CoordinatorService.method.listModels,
      { pageToken },
      options,
    );
    models.push(...page.models);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  return models;
}

/** The spec of a model, whose owners of slots are known then. */
export async function model(
  connection: Connection,
  name: string,
  options: CallOptions,
): Promise<ModelSpec> {
  const opened = connection.specs.get(name);
  if (opened) return opened;
  const models = await listModels(connection, options);
  const spec = models.find((known) => known.name === name);
  if (!spec) {
    const names = models.map((known) => known.name).join(", ");
    throw new NotFoundError(
      `the cluster has no model "${name}"; it has ${names || "none: train one first"}`,
      { reason: "UNKNOWN_MODEL" },
    );
  }
  await connection.learnOwners(spec, options);
  connection.specs.set(name, spec);
  return spec;
}

/** What each shard holds of a model, by ordinal; digests cost a pass over all rows. */
export function describeModel(
  connection: Connection,
  name: string,
  options: CallOptions & { digests?: boolean } = {},
): Promise<DescribeModelResponse[]> {
  const withDigests = options.digests ?? false;
  const limits = withDigests ? { timeoutMs: LONG_TIMEOUT_MS, ...options } : options;
  const request = { model: name, withDigests };
  return Promise.all(
    connection.shards.map((shard) =>
      shard.call(ShardService.method.describeModel, request, limits),
    ),
  );
}

/** Drops a model and its rows, everywhere. */
export async function dropModel(
  connection: Connection,
  name: string,
  options: CallOptions,
): Promise<void> {
  forget(connection, name);
  await connection.coordinator.call(
    CoordinatorService.method.unregisterModel,
    { model: name },
    options,
  );
}

/** A table of a model. */
export async function findTable(
  connection: Connection,
  name: string,
  table: string,
  options: CallOptions,
): Promise<TableSpec> {
  const { tables } = await model(connection, name, options);
  const found = tables.find((known) => known.name === table);
  if (found) return found;
  const names = tables.map((known) => known.name).join(", ");
  throw new InvalidArgumentError(`model "${name}" has no table "${table}"; it has: ${names}`, {
    reason: "UNKNOWN_TABLE",
  });
}

/** How a model's head is hashed; undefined: every row is active. */
export function familyOf(
  connection: Connection,
  name: string,
  table: TableSpec,
): HashFamily | undefined {
  if (table.role !== "head" || table.head?.maxActive === 0n) return undefined;
  const key = `${name} ${table.name}`;
  let family = connection.families.get(key);
  if (!family) {
    const settings = resolvedHash(table.head?.hash, Number(table.rows));
    family = hashFamily(settings, Number(table.dim));
    connection.families.set(key, family);
  }
  return family;
}
