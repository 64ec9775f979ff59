import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { skillText, temporaryFolder } from "../../support/folder.ts";
import { KEPT, PROGRAM, RUN } from "../../support/program.ts";
import { MY_SKILL, toolsetOf } from "../../support/toolset.ts";

/** The installed program; or, after a build by the gate, with its compile cache: some clients wait only a second for a server. */
export const BIN = join(import.meta.dirname, "../../../bin/skillet.cjs");
const START = `import { run } from ${JSON.stringify(PROGRAM)};\n${RUN}\n`;

/** The skills for the clients: one with `my-skill__my-tool`, one with `other__echo`, and one with files alone. */
export function home(): string {
  const own = ".agent/skills";
  const files = {
    "project/README.md": "A project.\n",
    ...Object.fromEntries(Object.entries(MY_SKILL).map(([path, text]) => [path.replace("home/", ""), text])),
    [`${own}/other/SKILL.md`]: skillText("other", { more: 'toolsets:\n  - "toolsets/index:Tools"\n' }),
    [`${own}/other/toolsets/index.ts`]: toolsetOf({ echo: "return { output: 'echo: ' + args.input };" }),
    [`${own}/notes/SKILL.md`]: skillText("notes", { body: "# Notes\n\nWrite about $ARGUMENTS.", more: "" }),
    [`${own}/notes/references/style.md`]: "Short lines.\n",
  };
  return temporaryFolder(files);
}

export interface Program {
  command: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
}

/** `skillet serve` in this home, as a client starts it. */
export function skilletServe(home: string, args: readonly string[] = []): Program {
  const env = { HOME: home, PATH: process.env["PATH"] ?? "" };
  const start = KEPT === undefined ? BIN : join(temporaryFolder({ "start.mjs": START }), "start.mjs");
  return { command: process.execPath, args: [start, "serve", ...args], env, cwd: join(home, "project") };
}

/** `skillet serve --http` on a free port of the loopback interface: its address. It ends with the test. */
export async function skilletServeHttp(home: string, args: readonly string[] = []): Promise<string> {
  const { command, args: given, env, cwd } = skilletServe(home, ["--http", "127.0.0.1:0", "--no-token", ...args]);
  const child = spawn(command, given, { env, cwd, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => ended(child));
  return new Promise((resolve, reject) => {
    let said = "";
    const hear = (chunk: Buffer) => {
      said += chunk;
      const [url] = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(said) ?? [];
      if (url) resolve(url);
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("close", () => reject(new Error(`skillet serve ended:\n${said}`)));
  });
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("close", () => resolve());
    child.kill();
  });
}
