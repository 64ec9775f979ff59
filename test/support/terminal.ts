import { spawn } from "node:child_process";
import { chmodSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { temporaryFolder } from "./folder.ts";
import { PROGRAM, RUN, SHARED_CODE } from "./program.ts";

export interface Terminal {
  type(text: string): void;
  /** Types it into the program's terminal. */
  signal(name: NodeJS.Signals): void;
  /** Closes the terminal, waits until the program has ended, and returns how it ended. */
  hangUp(): Promise<number>;
  /** Waits until this is on the screen, below the text of the previous wait. */
  sees(text: string): Promise<void>;
  /** Returns the current screen, without blanks at the ends of lines. */
  screen(): string;
  /** Returns everything that was written to it. */
  written(): string;
  ended: Promise<number | null>;
  /** The state of the terminal after the program has ended, as `stty` reports it. */
  left(): string;
}

interface Place {
  home: string;
  cwd: string;
  /** Additional code of the process. */
  beside?: string;
  /** Its width. Defaults to 80 columns. */
  columns?: number;
  /** Standard input from a pipe; the program still has its terminal. */
  piped?: string;
  /** The program, if not that of the sources. `with`: words before it that set the user. */
  bin?: string;
  with?: readonly string[];
}

/** Starts the program in its own terminal, which util-linux's `script` creates. Defaults to 80 columns. */
export function openTerminal(args: readonly string[], place: Place): Terminal {
  const start = temporaryFolder({
    "start.mjs": `import { writeFileSync } from "node:fs";
      import { run } from ${JSON.stringify(PROGRAM)};
      writeFileSync(new URL("pid", import.meta.url), String(process.pid));
      process.on("exit", (code) => writeFileSync(new URL("code", import.meta.url), String(code)));
      ${RUN}
      ${place.beside ?? ""}`,
  });
  const [file, left] = [join(start, "start.mjs"), join(start, "left")];
  const node = [
    ...(place.bin === undefined ? [process.execPath, file] : [place.bin]).map((part) => `'${part}'`),
    ...args,
  ].join(" ");
  const before = place.piped === undefined ? "" : `printf %s '${place.piped}' | `;
  // Ctrl-C is for the program: some shells would end with it, without reporting the state of the terminal.
  const command = `trap : INT; stty cols ${place.columns ?? 80} rows 50; ${before}${node}; code=$?; stty -a >'${left}'; exit $code`;
  if (place.with) chmodSync(start, 0o777);
  const pid = () => Number(readFileSync(join(start, "pid"), "utf8"));
  const [around = "", ...rest] = [...(place.with ?? []), "script", "-qfec", command, "/dev/null"];
  const child = spawn(around, rest, {
    cwd: place.cwd,
    env: {
      ...withoutKeys(process.env),
      ...SHARED_CODE,
      HOME: place.home,
      SKILLET_HOME: "",
      TERM: "xterm",
      NO_COLOR: "1",
    },
  });
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  // Ends the program itself: without its terminal it would still write its last files, into folders that are being removed.
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    if (existsSync(join(start, "pid"))) process.kill(pid(), "SIGKILL");
    else child.kill("SIGKILL");
    await ended;
  });
  let written = "";
  let seen = 0;
  child.stdout.on("data", (bytes) => {
    written += bytes;
  });
  return {
    type: (text) => void child.stdin.write(text),
    signal: (name) => void process.kill(pid(), name),
    async hangUp() {
      child.kill("SIGKILL");
      await expect.poll(() => isRunning(pid())).toBe(false);
      return Number(readFileSync(join(start, "code"), "utf8"));
    },
    async sees(text) {
      // The terminal's width may break the line at any space.
      const pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/ /g, "\\s+"), "g");
      const find = () => {
        pattern.lastIndex = seen;
        return pattern.test(written);
      };
      await expect.poll(find, { message: `"${text}" after ${written}` }).toBe(true);
      seen = pattern.lastIndex;
    },
    screen: () => screenOf(written),
    written: () => written,
    ended,
    left: () => readFileSync(left, "utf8"),
  };
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function withoutKeys({ ANTHROPIC_API_KEY: _, OPENAI_API_KEY: __, ...env }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { ...env, OLLAMA_HOST: "127.0.0.1:1" };
}

/** Renders the output for a terminal: of cursor movements, it supports those of readline and the progress line. */
function screenOf(written: string): string {
  const rows = [""];
  let column = 0;
  const put = (text: string) => {
    const row = (rows.at(-1) ?? "").padEnd(column);
    rows[rows.length - 1] = row.slice(0, column) + text + row.slice(column + text.length);
    column += text.length;
  };
  for (const [part, number, command] of written.matchAll(/\u001b\[\??(\d*)([A-Za-z])|[\r\n]|[^\r\n\u001b]+/g)) {
    if (part === "\r") column = 0;
    else if (part === "\n") rows.push("");
    else if (command === "G") column = Number(number || 1) - 1;
    else if (command === "J" || (command === "K" && number !== "2"))
      rows[rows.length - 1] = rows.at(-1)?.slice(0, column) ?? "";
    else if (command === "K") rows[rows.length - 1] = "";
    else if (command === "h" || command === "l") continue;
    else if (command !== undefined) throw new Error(`the terminal does not know ${JSON.stringify(part)}`);
    else put(part);
  }
  return rows.map((row) => row.trimEnd()).join("\n");
}
