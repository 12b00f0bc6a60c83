// What the tests share: the programs of a build, and clusters made of them. DSLIDE_BIN_DIR names the
// folder of the programs.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { type Client, connect, type Tls, UnavailableError } from "dslide";

export const BIN = resolve(process.env["DSLIDE_BIN_DIR"] ?? "../../build/bin");
/** A folder where the package is installed as users do it; without DSLIDE_NODE_USER, its own. */
export const USER = resolve(process.env["DSLIDE_NODE_USER"] ?? ".");
const READY_MS = 120_000;

/** Runs the command line; what it prints. */
export function dslide(...parts: (string | number)[]): string {
  const done = spawnSync(join(BIN, "dslide"), parts.map(String), { encoding: "utf8" });
  if (done.status !== 0) throw new Error(`dslide ${parts.join(" ")}: ${done.stderr || done.error}`);
  return done.stdout;
}

/**
 * A loopback port that nobody listens on now. From below Linux's ports of outgoing connections, so
 * that none takes it while no server has it.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_768);
    const probe = createServer().listen(port, "127.0.0.1");
    try {
      await once(probe, "listening");
    } catch {
      continue; // somebody has it
    }
    probe.close();
    await once(probe, "close");
    return port;
  }
}

/** Processes and a folder that end with the test file. */
export class Fixture {
  readonly folder = mkdtempSync(join(tmpdir(), "dslide-node-"));
  readonly #children: ChildProcess[] = [];

  start(program: string, ...parts: (string | number)[]): ChildProcess {
    const stdio = ["pipe", "pipe", "ignore"] as const;
    const child = spawn(join(BIN, program), parts.map(String), { stdio: [...stdio] });
    this.#children.push(child);
    return child;
  }

  /** A cluster of two shards (`dslide up`); its coordinator's address. */
  async cluster(shards = 2): Promise<string> {
    const flags = ["--shards", shards, "--threads", 2, "--data-dir", join(this.folder, "data")];
    const listen = `127.0.0.1:${await freePort()}`;
    const up = this.start(
      "dslide", "up", ...flags, "--listen", listen, "--until-stdin-ends", "-o", "json",
    );
    for await (const line of createInterface(up.stdout!)) {
      return (JSON.parse(line) as { coordinator: string }).coordinator;
    }
    throw new Error("dslide up did not start");
  }

  /** A client of a cluster that is starting. */
  async connected(address: string, tls?: Tls): Promise<Client> {
    const end = performance.now() + READY_MS;
    for (;;) {
      try {
        return await connect(address, tls ? { tls } : {});
      } catch (error) {
        if (!(error instanceof UnavailableError) || performance.now() > end) throw error;
        await pause(50);
      }
    }
  }

  async close(): Promise<void> {
    for (const child of this.#children.reverse()) await kill(child);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Runs an example as users do, from where the package is installed; what it prints. */
export async function runExample(name: string, ...flags: (string | number)[]): Promise<string> {
  const installed = process.env["DSLIDE_NODE_USER"] ? "node_modules/dslide/" : "";
  const command = [`${installed}examples/${name}`, ...flags.map(String)];
  const child = spawn(process.execPath, command, { cwd: USER, stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.on("data", (text) => (said += text));
  const [code] = (await once(child, "close")) as [number];
  if (code !== 0) throw new Error(`${name} ended with ${code}`);
  return said;
}

/** Ends a process, whose own children end with its standard input. */
export async function kill(child: ChildProcess, signal: NodeJS.Signals = "SIGINT"): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.stdin?.destroy();
  child.kill(signal);
  await once(child, "exit");
}
