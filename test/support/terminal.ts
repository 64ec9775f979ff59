import { spawn } from "node:child_process";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { temporaryFolder } from "./folder.ts";

const program = join(import.meta.dirname, "../../src/cli/bin.ts");

export interface Terminal {
  type(text: string): void;
  /** Waits until this is on the screen, below what was waited for before. */
  sees(text: string): Promise<void>;
  /** What is on the screen now, without blanks at the ends of lines. */
  screen(): string;
  /** All that was written to it. */
  written(): string;
  ended: Promise<number | null>;
}

/** The program at a terminal of its own, which util-linux's `script` gives it: 80 columns wide. */
export function terminal(args: readonly string[], place: { home: string; cwd: string }): Terminal {
  const start = temporaryFolder({ "start.mjs": `import { run } from ${JSON.stringify(program)};\nrun();\n` });
  const command = ["stty cols 80 rows 50;", `'${process.execPath}'`, `'${join(start, "start.mjs")}'`, ...args].join(
    " ",
  );
  const child = spawn("script", ["-qfec", command, "/dev/null"], {
    cwd: place.cwd,
    env: { ...withoutKeys(process.env), HOME: place.home, SKILLET_HOME: "", TERM: "xterm", NO_COLOR: "1" },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let written = "";
  let seen = 0;
  child.stdout.on("data", (bytes) => {
    written += bytes;
  });
  return {
    type: (text) => void child.stdin.write(text),
    async sees(text) {
      await expect
        .poll(() => written.includes(text, seen), { timeout: 15_000, message: `"${text}" after ${written}` })
        .toBe(true);
      seen = written.indexOf(text, seen) + text.length;
    },
    screen: () => screenOf(written),
    written: () => written,
    ended: new Promise((resolve) => child.on("close", resolve)),
  };
}

function withoutKeys({ ANTHROPIC_API_KEY: _, OPENAI_API_KEY: __, ...env }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { ...env, OLLAMA_HOST: "127.0.0.1:1" };
}

/** What a terminal shows that was sent this: of what moves its cursor, it knows what readline and the moving line use. */
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
