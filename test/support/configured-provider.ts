import { chmodSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type RunOptions, skillet } from "./command.ts";
import { skillText, temporaryFolder, writeFiles } from "./folder.ts";
import { grantValuesIn } from "./grant-values.ts";

/** The code of a test's provider: JavaScript with `request`, `method`, `params`, `answer(result)`, `refuse(error)` and `fs`. */
export interface Wiring {
  program: string;
  /** Further lines of its table. */
  table?: string;
  /** Further tables. */
  config?: string;
  files?: Record<string, string>;
}

/** A home whose configuration names a real program as the provider of `desk`, and a skill that declares desk.tickets. */
export function configureProvider({ program, table = "", config = "", files = {} }: Wiring) {
  const home = temporaryFolder();
  const script = join(home, "desk.cjs");
  return withFiles(home, {
    "desk.cjs": `${PRELUDE}\n${program}\n${DESCRIBE}`,
    ".skillet/config.toml": `[capabilities.providers.desk]\ncommand = ${JSON.stringify([process.execPath, script])}\n${table}\n${config}`,
    ".skillet/skills/helper/SKILL.md": skillText("helper", { more: "capabilities: [desk.tickets]\n" }),
    "work/readme": "",
    ...files,
  });
}

function withFiles(home: string, files: Record<string, string>) {
  writeFiles(home, files);
  chmodSync(join(home, ".skillet/config.toml"), 0o600);
  grantValuesIn(home);
  const run = (args: readonly string[], options: RunOptions = {}) =>
    skillet(args, { cwd: join(home, "work"), ...options, env: { HOME: home, ...options.env } });
  return { home, run, file: (path: string) => readFileSync(join(home, path), "utf8") };
}

const PRELUDE = `
const fs = require("node:fs");
const request = JSON.parse(fs.readFileSync(0, "utf8"));
const { method, params } = request;
let isDone = false;
const print = (value) => { if (!isDone) fs.writeSync(1, JSON.stringify(value)); isDone = true; };
const answer = (result) => print({ version: 1, id: request.id, ok: true, result });
const refuse = (error) => print({ version: 1, id: request.id, ok: false, error });
`;

/** The default for tests. */
const DESCRIBE = `
const operation = (name, mutating) => ({ name, description: name + " tickets", mutating, input_schema: {
  type: "object", properties: { id: { type: "integer" } }, additionalProperties: false } });
if (method === "describe") answer({
  capabilities: [{ id: "desk.tickets", description: "Tickets of the desk.", operations: [operation("open", true), operation("list", false)] }],
  auth: { kinds: ["paste"] } });
if (method === "health") answer({ is_ready: true });
if (method === "invoke") {
  const { capability, operation: name, input } = params;
  if (capability !== "desk.tickets" || !["open", "list"].includes(name)) refuse({ code: "not-found", message: "unknown capability or operation" });
  else if (typeof input !== "object") refuse({ code: "input-invalid", message: "no object" });
  else { if (name === "open") fs.appendFileSync("opened", params.idempotency_key + "\\n"); answer({ output: { tickets: [] } }); }
}
`;
