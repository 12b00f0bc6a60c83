'use strict';
// Reads, changes and scores rows of a dslide cluster; from protos/ and docs/wire.md alone.

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { parseArgs, promisify } = require('node:util');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const JOB = 'example';
const K = 5;
const NO_ROW = 0xffffffff;
const deadline = () => ({ deadline: Date.now() + 20000 });

const definitions = loader.loadSync(
  ['dslide/v1/coordinator.proto', 'dslide/v1/shard.proto', 'status_details.proto'], {
    includeDirs: [path.join(__dirname, '../../../protos'), __dirname],
    // 64-bit numbers as strings: a generation may be more than a JavaScript number holds.
    longs: String, enums: String, defaults: true, json: true,
  });
const { v1 } = grpc.loadPackageDefinition(definitions).dslide;

function failure(code, reason, message) {
  return Object.assign(new Error(message), { code, reason });
}

function reasonOf(error) {
  const [trailer] = error.metadata?.get('grpc-status-details-bin') ?? [];
  const details = trailer ? definitions['google.rpc.Status'].deserialize(trailer).details : [];
  return error.reason ?? details.find(({ domain }) => domain === 'dslide')?.reason;
}

const unary = (client, method, request) =>
  promisify(client[method]).call(client, request, deadline());

// --- Arrays are little-endian, whatever this machine is ------------------------------------------

function pack(numbers, write) {
  const bytes = Buffer.alloc(numbers.length * 4);
  numbers.forEach((number, i) => bytes[write](number, i * 4));
  return bytes;
}
const u32s = (numbers) => pack(numbers, 'writeUInt32LE');
const f32s = (numbers) => pack(numbers, 'writeFloatLE');
const unpack = (bytes, read, width = 4) =>
  Array.from({ length: bytes.length / width }, (_, i) => bytes[read](i * width));

const word = new DataView(new ArrayBuffer(4));
function fromBits(bits) {
  word.setUint32(0, bits);
  return word.getFloat32(0);
}
function roundToBf16(x) {
  word.setFloat32(0, x);
  const bits = word.getUint32(0);
  return fromBits((bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000);
}
const matrix = (rows, cols, numbers) =>
  ({ rows, cols, elementType: 'ELEMENT_TYPE_F32', data: f32s(numbers) });
const numbersOf = ({ elementType, data }) => (elementType === 'ELEMENT_TYPE_BF16'
  ? unpack(data, 'readUInt16LE', 2).map((half) => fromBits(half << 16))
  : unpack(data, 'readFloatLE'));

// --- The cluster and its rows --------------------------------------------------------------------

// The owner of each slot: the next one goes to the shard that is furthest behind its share.
function deal(numSlots, capacities) {
  const weights = capacities.map((capacity) => capacity / Math.max(...capacities));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const dealt = weights.map(() => 0);
  return Array.from({ length: numSlots }, (_, slot) => {
    const behind = weights.map((weight, s) => weight * (slot + 1) - dealt[s] * total);
    const owner = behind.indexOf(Math.max(...behind));
    dealt[owner] += 1;
    return owner;
  });
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
    return { client, spec, generation, sequence: 0, capacity: info.capacityWeight };
  }));
  return { shards, spec: shards[0].spec, clientId, topologyVersion: map.topologyVersion };
}

// Numbers the next command of this client for the shard. All earlier ones have been answered.
function envelope({ clientId, topologyVersion, spec }, shard) {
  shard.sequence += 1;
  return { job: JOB, clientId, sequence: shard.sequence, firstIncomplete: shard.sequence,
    generation: shard.generation, topologyVersion, model: spec.name };
}

// [[shard, its part of the ids]] in shard order.
function slice({ shards }, table, ids) {
  const owners = deal(Number(table.numSlots), shards.map(({ capacity }) => capacity));
  return shards.map((shard, s) => [shard, ids.filter((id) => owners[id % owners.length] === s)]);
}

// Weights by row id.
async function gather(cluster, table, ids) {
  const { spec: { name: model }, topologyVersion } = cluster;
  const found = new Map();
  for (const [{ client }, rows] of slice(cluster, table, ids)) {
    const request = { model, table: table.name, rows: { rowIds: u32s(rows) }, topologyVersion };
    for await (const chunk of client.gather(request, deadline())) {
      const numbers = numbersOf(chunk.rows.values);
      unpack(chunk.rows.rowIds, 'readUInt32LE').forEach((id, i) =>
        found.set(id, numbers.slice(i * table.dim, (i + 1) * table.dim)));
    }
  }
  return found;
}

// Adds `delta` to all weights of the rows. Sends it twice, as a client does that has lost the
// answer: the shard applies a sequence once.
async function add(cluster, table, ids, delta) {
  for (const [shard, rows] of slice(cluster, table, ids).filter((part) => part[1].length > 0)) {
    const values = matrix(rows.length, table.dim, Array(rows.length * table.dim).fill(delta));
    const request = { envelope: envelope(cluster, shard), table: table.name, totalRows: rows.length,
      mode: 'SCATTER_MODE_ADD', rows: { rowIds: u32s(rows), values, biases: f32s(rows.fill(0)) } };
    for (let attempt = 1; attempt <= 2; attempt += 1) {
      await new Promise((resolve, reject) => {
        shard.client.scatter(deadline(), (error) => (error ? reject(error) : resolve()))
          .end(request);
      });
    }
  }
}

async function changeAndTakeBack(cluster, table, ids) {
  const before = await gather(cluster, table, ids);
  for (const [delta, expected] of [[0.25, 0.25], [-0.25, 0]]) {
    await add(cluster, table, ids, delta);
    for (const [id, weights] of await gather(cluster, table, ids)) {
      const change = weights.map((weight, i) => weight - before.get(id)[i]);
      // Rows may be stored in bf16.
      if (change.some((c) => Math.abs(c - expected) > 0.01)) {
        throw failure(grpc.status.ABORTED, '', `row ${id} has changed by ${change}`);
      }
    }
  }
}

// --- Prediction ----------------------------------------------------------------------------------

// [[feature, value]] as the model wants its input, by ascending feature.
function inputOf(text, { tables: [embedding], training: { transform } }) {
  const input = text.split(',').map((pair) => pair.split(':').map(Number));
  if (!input.every((pair) => pair.length === 2 && pair.every(Number.isFinite))) {
    throw failure(grpc.status.INVALID_ARGUMENT, '', `"${text}" is not feature:value,feature:value`);
  }
  input.sort(([a], [b]) => a - b);
  if (transform === 'INPUT_TRANSFORM_TF_IDF') {
    throw failure(grpc.status.UNIMPLEMENTED, '', 'tf-idf needs the weights of the training data');
  }
  const length = Math.hypot(...input.map(([, value]) => value));
  const scale = transform === 'INPUT_TRANSFORM_L2' && length > 0 ? 1 / length : 1;
  const bias = embedding.biasRow ? [[Number(embedding.rows) - 1, 1]] : [];
  return [...input.map(([feature, value]) => [feature, value * scale]), ...bias];
}

async function step(cluster, shard, operation) {
  const stream = shard.client.step(deadline());
  stream.end({ envelope: envelope(cluster, shard), step: 1, firstOpenStep: 1, ...operation });
  for await (const { error, embedForward } of stream) {
    if (error) throw failure(error.code, error.reason, error.message);
    return embedForward;
  }
}

// The input of the head: the sum of the rows of the features, over all shards, above 0.
async function hiddenOf(cluster, input) {
  const [embedding] = cluster.spec.tables;
  const values = new Map(input);
  const parts = await Promise.all(
    slice(cluster, embedding, [...values.keys()]).map(async ([shard, rowIds]) => {
      const { partial } = await step(cluster, shard, { embedForward: {
        table: embedding.name, batch: 1, sampleOffsets: u32s([0, rowIds.length]),
        rowIds: u32s(rowIds), values: f32s(rowIds.map((id) => values.get(id))),
      } });
      return numbersOf(partial);
    }));
  // In shard order and in f32, so that every client gets the same bits.
  const sums = parts.reduce((sum, part) => sum.map((x, i) => Math.fround(x + part[i])));
  const hidden = sums.map((x) => Math.max(x, 0));
  return cluster.spec.activations === 'ELEMENT_TYPE_BF16' ? hidden.map(roundToBf16) : hidden;
}

async function topK({ shards, spec }, head, hidden) {
  const request = { model: spec.name, table: head.name, k: K, mode: 'TOP_K_MODE_EXACT',
    hidden: matrix(1, hidden.length, hidden) };
  const answers = await Promise.all(shards.map(({ client }) => unary(client, 'topK', request)));
  const scored = answers.flatMap(({ rowIds, logits }) => {
    const logitOf = unpack(logits, 'readFloatLE');
    return unpack(rowIds, 'readUInt32LE').map((label, i) => ({ label, logit: logitOf[i] }));
  });
  return scored.filter(({ label }) => label !== NO_ROW)
    .sort((a, b) => b.logit - a.logit || a.label - b.label).slice(0, K);
}

async function run(cluster, { model, features }) {
  const { tables } = cluster.spec;
  if (tables.length !== 2) {
    throw failure(grpc.status.UNIMPLEMENTED, '', 'models with dense layers are not supported here');
  }
  const head = tables[1];
  const ids = Array.from({ length: Math.min(10, Number(head.rows)) }, (_, i) => i);
  await changeAndTakeBack(cluster, head, ids);
  const hidden = await hiddenOf(cluster, inputOf(features, cluster.spec));
  const predictions = await topK(cluster, head, hidden);
  return { model, shards: cluster.shards.length, rows_changed: ids.length, predictions };
}

async function main() {
  const names = ['address', 'ca', 'cert', 'key', 'model', 'features'];
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' }]));
  const { values } = parseArgs({ options });
  if (!values.address || !values.model || !values.features) {
    throw failure(grpc.status.INVALID_ARGUMENT, '', 'needs --address, --model and --features');
  }
  const cluster = await connect(values);
  try {
    console.log(JSON.stringify(await run(cluster, values)));
  } finally {
    // A shard keeps at most 4,096 clients.
    const goodbye = { job: JOB, clientId: cluster.clientId };
    await Promise.all(cluster.shards.map(({ client }) => unary(client, 'bye', goodbye)));
  }
}

main().catch((error) => {
  const code = grpc.status[error.code] ?? 'UNKNOWN';
  console.error(`error: ${code} ${reasonOf(error) || '-'}: ${error.details ?? error.message}`);
  process.exitCode = 1;
});
