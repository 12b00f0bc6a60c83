import { createRequire } from "node:module";

const read = createRequire(import.meta.url);

/** Of this package; a cluster of another minor version is refused. */
export const version: string = (read("../package.json") as { version: string }).version;
