// Over mutual TLS: the training example, two of them in one job, and what a wrong certificate says.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { connect, PermissionDeniedError, type Tls, UnavailableError } from "dslide";
import { dslide, Fixture, freePort, runExample } from "./cluster.js";

const fixture = new Fixture();
let address: string;

function tls(folder: string, role: string): Required<Tls> {
  const path = (name: string) => join(fixture.folder, folder, name);
  return { ca: path("ca.crt"), cert: path(`${role}.crt`), key: path(`${role}.key`) };
}

before(async () => {
  for (const name of ["own", "other"]) dslide("certs", "dev", "--output", join(fixture.folder, name));
  address = `127.0.0.1:${await freePort()}`;
  const flags = (role: string) => {
    const { ca, cert, key } = tls("own", role);
    return ["--tls-ca", ca, "--tls-cert", cert, "--tls-key", key, "--admin", ""];
  };
  fixture.start("dslide-coordinator", "--listen", address, "--shards", 2, ...flags("coordinator"));
  for (const shard of [0, 1]) {
    const places = ["--coordinator", address, "--listen", "127.0.0.1:0", "--shard-id", shard];
    const data = ["--data-dir", join(fixture.folder, `shard-${shard}`)];
    fixture.start("dslide-shard", ...places, "--threads", 1, ...data, ...flags("shard"));
  }
  await (await fixture.connected(address, tls("own", "trainer"))).close();
});
after(() => fixture.close());

interface Report {
  samples: number;
  best_epoch: number;
  best_p_at_1: number;
}

/** Runs the example as a user does; what it prints last. */
async function train(job: string): Promise<Report> {
  const { ca, cert, key } = tls("own", "trainer");
  const flags = ["--cluster", address, "--job", job, "--ca", ca, "--cert", cert, "--key", key];
  const said = await runExample("train.js", ...flags);
  return JSON.parse(said) as Report;
}

test("two trainers share a job, and it learns", async () => {
  const reports = await Promise.all([train("shared"), train("shared")]);
  assert.equal(reports[0]!.samples + reports[1]!.samples, 4 * 8100);
  for (const report of reports) assert.ok(report.best_p_at_1 >= 0.8, JSON.stringify(report));
});

test("a role that may only read", async () => {
  const cluster = await connect(address, { tls: tls("own", "reader") });
  try {
    const spec = { name: "mine", tables: [{ name: "a", rows: 5, dim: 2 }] };
    await assert.rejects(cluster.createModel(spec), PermissionDeniedError);
    assert.equal((await cluster.status()).shards.length, 2);
  } finally {
    await cluster.close();
  }
});

test("wrong certificates, and none", async () => {
  await assert.rejects(
    connect(address, { tls: tls("other", "trainer"), patienceMs: 300 }),
    (error: Error) =>
      error instanceof UnavailableError && /handshake failed: check tls.ca/.test(error.message),
  );
  await assert.rejects(
    connect(address, { patienceMs: 300 }),
    (error: Error) => error instanceof UnavailableError && error.remedy !== "",
  );
});
