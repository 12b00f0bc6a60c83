'use strict';
// Reads, changes and scores rows of a dslide cluster; from protos/ and docs/understand/wire.md
// alone.

const crypto = require('node:crypto');
const fs = require('node:fs');
const { parseArgs, promisify } = require('node:util');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const JOB = 'example';
const K = 5;
const NO_ROW = 0xffffffff;
const deadline = () => ({ deadline: Date.now() + 20000 });

const definitions = loader.loadSync(
  ['dslide/v1/coordinator.proto', 'dslide/v1/shard.proto', 'status_details.proto'], {
    includeDirs: [`${__dirname}/../../../protos`, __dirname],
    // 64-bit numbers as strings: a generation may be more than a JavaScript number holds.
    longs: String, enums: String, defaults: true, json: true,
  });
const { v1 } = grpc.loadPackageDefinition(definitions).dslide;

const failure = (code, message, reason) => Object.assign(new Error(message), { code, reason });
const unary = (client, method, request) => promisify(client[method]).call(client, request, deadline());

// Arrays are little-endian, whatever this machine is.
function pack(numbers, write) {
  const bytes = Buffer.alloc(numbers.length * 4);
  numbers.forEach((number, i) => bytes[write](number, i * 4));
  return bytes;
}
const u32s = (numbers) => pack(numbers, 'writeUInt32LE');
const f32s = (numbers) => pack(numbers, 'writeFloatLE');
const unpack = (bytes, read, width = 4) =>
  Array.from({ length: bytes.length / width }, (_, i) => bytes[read](i * width));

const fromBits = (words) => unpack(u32s(words), 'readFloatLE');
function roundToBf16(numbers) {
  const words = unpack(f32s(numbers), 'readUInt32LE');
  return fromBits(words.map((bits) => ((bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000) >>> 0));
}

const matrix = (rows, cols, numbers) =>
  ({ rows, cols, elementType: 'ELEMENT_TYPE_F32', data: f32s(numbers) });
const numbersOf = ({ elementType, data }) => (elementType === 'ELEMENT_TYPE_BF16'
  ? fromBits(unpack(data, 'readUInt16LE', 2).map((half) => half * 0x10000))
  : unpack(data, 'readFloatLE'));

// The shards that own some of the ids, which ascend, each with its part of them.
function slice({ shards, slots }, table, ids) {
  const owners = slots.get(table.numSlots);
  return shards
    .map((shard, s) => ({ shard, rows: ids.filter((id) => owners[id % owners.length] === s) }))
    .filter(({ rows }) => rows.length > 0);
}

async function connect({ address, ca, cert, key, model }) {
  const credentials = ca
    ? grpc.credentials.createSsl(...[ca, key, cert].map((file) => fs.readFileSync(file)))
    : grpc.credentials.createInsecure();
  const map = await unary(new v1.CoordinatorService(address, credentials), 'getClusterMap', {});
  const clientId = crypto.randomBytes(16);
  const shards = await Promise.all(map.shards.map(async (info) => {
    const client = new v1.ShardService(info.address, credentials);
    const { spec } = await unary(client, 'describeModel', { model });
    const { generation } = await unary(client, 'hello', { job: JOB, clientId });
    return { client, spec, generation, sequence: 0 };
  }));
  // The owners of the slots of tables, by the number of slots.
  const slots = new Map(map.slots.map((of) => [of.numSlots, unpack(of.owners, 'readUInt16LE', 2)]));
  return { shards, slots, spec: shards[0].spec, clientId, topologyVersion: map.topologyVersion };
}

// Numbers the next command of this client for the shard. All earlier ones have been answered. One
// whose answer was lost is sent again with the same number: the shard applies it once.
function envelope({ clientId, topologyVersion, spec }, shard) {
  shard.sequence += 1;
  return { job: JOB, clientId, sequence: shard.sequence, firstIncomplete: shard.sequence,
    generation: shard.generation, topologyVersion, model: spec.name };
}

// Weights by row id.
async function gather(cluster, table, ids) {
  const { spec: { name: model }, topologyVersion } = cluster;
  const found = new Map();
  for (const { shard: { client }, rows } of slice(cluster, table, ids)) {
    const request = { model, table: table.name, rows: { rowIds: u32s(rows) }, topologyVersion };
    for await (const chunk of client.gather(request, deadline())) {
      const numbers = numbersOf(chunk.rows.values);
      unpack(chunk.rows.rowIds, 'readUInt32LE').forEach((id, i) =>
        found.set(id, numbers.slice(i * table.dim, (i + 1) * table.dim)));
    }
  }
  return found;
}

async function scatter(cluster, table, ids, delta) {
  for (const { shard, rows } of slice(cluster, table, ids)) {
    const values = matrix(rows.length, table.dim, Array(rows.length * table.dim).fill(delta));
    const request = { envelope: envelope(cluster, shard), table: table.name, totalRows: rows.length,
      mode: 'SCATTER_MODE_ADD', rows: { rowIds: u32s(rows), values, biases: f32s(rows.map(() => 0)) } };
    await promisify((callback) => shard.client.scatter(deadline(), callback).end(request))();
  }
}

// Adds delta to all weights of the rows, and checks that it is there, but for the rounding of bf16.
async function change(cluster, table, ids, delta) {
  const before = await gather(cluster, table, ids);
  await scatter(cluster, table, ids, delta);
  for (const [id, weights] of await gather(cluster, table, ids)) {
    if (weights.some((weight, i) => Math.abs(weight - before.get(id)[i] - delta) > 0.01)) {
      throw failure(grpc.status.ABORTED, `row ${id} has not changed by ${delta}`);
    }
  }
}

// The shard's part of the sum of the rows, each times its value in the input.
async function embed(cluster, shard, rows, input) {
  const stream = shard.client.step(deadline());
  stream.end({ envelope: envelope(cluster, shard), step: 1, firstOpenStep: 1, embedForward: {
    table: cluster.spec.tables[0].name, batch: 1, sampleOffsets: u32s([0, rows.length]),
    rowIds: u32s(rows), values: f32s(rows.map((id) => input.get(id))) } });
  for await (const { error, embedForward } of stream) {
    if (error) throw failure(error.code, error.message, error.reason);
    return numbersOf(embedForward.partial);
  }
}

// The input of the head: the sum of the rows of the features, over all shards, above 0. The values
// of the features are as the model sees them, after l2 or tf-idf; only the bias row is added here.
async function hiddenOf(cluster, features) {
  const [embedding] = cluster.spec.tables;
  const input = new Map(features.split(',').map((pair) => pair.split(':').map(Number)));
  if (embedding.biasRow) input.set(Number(embedding.rows) - 1, 1);
  const slices = slice(cluster, embedding, [...input.keys()].sort((a, b) => a - b));
  const parts = await Promise.all(slices.map(({ shard, rows }) => embed(cluster, shard, rows, input)));
  // In shard order and in f32, so that every client gets the same bits.
  const hidden = parts.reduce((sum, part) => sum.map((x, i) => Math.fround(x + part[i])))
    .map((x) => Math.max(x, 0));
  return cluster.spec.activations === 'bf16' ? roundToBf16(hidden) : hidden;
}

async function topK({ shards, spec }, head, hidden) {
  const request = { model: spec.name, table: head.name, k: K, mode: 'TOP_K_MODE_EXACT',
    hidden: matrix(1, hidden.length, hidden) };
  const answers = await Promise.all(shards.map(({ client }) => unary(client, 'topK', request)));
  return answers.flatMap(({ rowIds, logits }) => unpack(rowIds, 'readUInt32LE')
    .map((label, i) => ({ label, logit: logits.readFloatLE(i * 4) })))
    .filter(({ label }) => label !== NO_ROW)
    .sort((a, b) => b.logit - a.logit || a.label - b.label).slice(0, K);
}

async function run(cluster, { model, features }) {
  const [, head, ...others] = cluster.spec.tables;
  if (others.length > 0) {
    throw failure(grpc.status.UNIMPLEMENTED, 'models with dense layers are not supported here');
  }
  const ids = Array.from({ length: Math.min(10, Number(head.rows)) }, (_, id) => id);
  await change(cluster, head, ids, 0.25);
  await change(cluster, head, ids, -0.25); // takes it back
  const predictions = await topK(cluster, head, await hiddenOf(cluster, features));
  return { model, shards: cluster.shards.length, rows_changed: ids.length, predictions };
}

async function main() {
  const flags = ['address', 'ca', 'cert', 'key', 'model', 'features'];
  const options = Object.fromEntries(flags.map((flag) => [flag, { type: 'string' }]));
  const { values } = parseArgs({ options });
  const cluster = await connect(values);
  try {
    console.log(JSON.stringify(await run(cluster, values)));
  } finally {
    const me = { job: JOB, clientId: cluster.clientId }; // a shard keeps at most 4,096 clients
    await Promise.all(cluster.shards.map(({ client }) => unary(client, 'closeClient', me)));
  }
}

// The reason word is in the status details of a call, or in the error of a step.
function reasonOf(error) {
  const [trailer] = error.metadata?.get('grpc-status-details-bin') ?? [];
  const details = trailer ? definitions['google.rpc.Status'].deserialize(trailer).details : [];
  return error.reason ?? details.find(({ domain }) => domain === 'dslide')?.reason;
}

main().catch((error) => {
  const code = grpc.status[error.code] ?? 'UNKNOWN';
  console.error(`error: ${code} ${reasonOf(error) || '-'}: ${error.details ?? error.message}`);
  process.exitCode = 1;
});
