// Every snippet of the page and of the README runs as it stands there, where the package is installed.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { Fixture, USER } from "./cluster.js";

const DOCS = process.env["DSLIDE_NODE_DOCS"] ?? "../../docs";
const fixture = new Fixture();
let address: string;

before(async () => {
  address = await fixture.cluster();
});
after(() => fixture.close());

function snippets(path: string, language: string): string[] {
  const text = readFileSync(path, "utf8");
  const found = [...text.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, "gs"))];
  return found.map(([, snippet]) => snippet!);
}

/** Runs a program as `node` reads it from a file in the user's folder. */
function run(program: string): string {
  const done = spawnSync(process.execPath, ["--input-type=module"], {
    input: program, cwd: USER, encoding: "utf8",
  });
  assert.equal(done.status, 0, `${program}\n${done.stderr}`);
  return done.stdout;
}

async function serveAddress(): Promise<string> {
  const serve = fixture.start(
    "dslide", "serve", "-o", "json", "--cluster", address, "--name", "network",
    "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0",
  );
  for await (const line of createInterface(serve.stdout!)) {
    return (JSON.parse(line) as Record<string, string>)["grpc"]!;
  }
  throw new Error("dslide serve did not start");
}

test("the page", async () => {
  const page = snippets(`${DOCS}/start/client-node.md`, "js");
  assert.equal(page.length, 6);
  const [model, , network] = page as [string, string, string];
  const here = (text: string) => text.replaceAll("127.0.0.1:7000", address);
  run(here(model + network + "await cluster.close();")); // what the server serves
  const served = await serveAddress();
  const said = run(here(page.join("")).replace("127.0.0.1:7030", served));
  assert.match(said, /\[ 'network', 'table' \] 2/);
  assert.match(said, /\[ \[ 'run-1', true \] \]/);
  assert.match(said, /start the coordinator/);
});

test("the README", () => {
  const [first] = snippets("README.md", "js");
  assert.equal(run(first!.replace("127.0.0.1:7000", address)).trim(), "2");
});
