// The package and the training example pass the whole course of `dslide conformance`.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { connect, firstRows, type Model } from "dslide";
import { Fixture, runExample } from "./cluster.js";

/** What a course asks for: docs/contribute/conformance.md. */
interface Task {
  do: string;
  model: string;
  table: string;
  rows: number[];
  values: number[][];
  queries: number[][];
  k: number;
  answers: { model: string; table: string; first_row: number };
  spec: string;
  points: string;
  job: string;
}
interface Course {
  coordinator: string;
  models: { name: string }[];
  tasks: Task[];
}

const fixture = new Fixture();
after(() => fixture.close());

/** Does a task; what is to be assigned to the answers, if anything is. */
async function answer(model: Model, task: Task): Promise<Float32Array | undefined> {
  switch (task.do) {
    case "gather":
      return (await model.gather(task.table, task.rows)).values;
    case "scatter":
      await model.scatter(task.table, task.rows, task.values.flat(), { mode: "add" });
      return undefined;
    case "first_rows": {
      const table = model.spec.tables.find(({ name }) => name === task.table)!;
      return firstRows(table, model.spec.seed!, task.rows);
    }
    case "top_k": {
      const best = await model.topK(task.table, task.queries.flat(), { k: task.k });
      return Float32Array.from(best.flat(), ({ id }) => id);
    }
    default:
      throw new Error(`the course asks for ${task.do}`);
  }
}

async function take(folder: string): Promise<void> {
  const course = JSON.parse(readFileSync(join(folder, "course.json"), "utf8")) as Course;
  const cluster = await connect(course.coordinator);
  const models = new Map<string, Model>();
  for (const spec of course.models) models.set(spec.name, await cluster.createModel(spec));
  for (const task of course.tasks) {
    if (task.do === "train") {
      const [model, data] = [join(folder, task.spec), join(folder, task.points)];
      await runExample("train.js", "--cluster", course.coordinator, "--model", model, "--data", data,
        "--job", task.job);
      continue;
    }
    const values = await answer(models.get(task.model)!, task);
    if (!values) continue;
    const to = task.answers;
    const dim = Number(models.get(to.model)!.spec.tables[0]!.dim);
    const rows = Array.from({ length: values.length / dim }, (_, i) => to.first_row + i);
    await models.get(to.model)!.scatter(to.table, rows, values, { mode: "assign" });
  }
  await cluster.close();
}

test("the course", async () => {
  const folder = join(fixture.folder, "course");
  const server = fixture.start(
    "dslide", "conformance", "-o", "json", "--listen", "127.0.0.1:0", "--course", folder,
    "--until-stdin-ends",
  );
  const lines = createInterface(server.stdout!)[Symbol.asyncIterator]();
  await lines.next(); // the course is written by then
  await take(folder);
  server.stdin!.end();
  const said = (await lines.next()).value as string;
  const [code] = server.exitCode === null ? await once(server, "exit") : [server.exitCode];
  assert.equal(code, 0, said);
  assert.equal((JSON.parse(said) as { passed: boolean }).passed, true);
});
