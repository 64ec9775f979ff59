import { spawn } from "node:child_process";

export const COLUMNS = 80;
const SECONDS = 30;

/** A piece of text with its enabled styles. */
export interface Piece {
  text: string;
  looks: readonly Look[];
}
export type Look = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

interface Typed {
  /** The text is typed after this output. */
  after: string;
  text: string;
}

export interface SandboxCommand {
  line: string;
  cwd: string;
  env: Readonly<Record<string, string>>;
  typed?: readonly Typed[];
}

/** Runs a shell command in its own terminal, which util-linux's `script` creates. Returns everything written to the terminal. */
export async function atTerminal({ line, cwd, env, typed = [] }: SandboxCommand): Promise<string> {
  // A new terminal has no size until a program sets it.
  const child = spawn("script", ["-qfec", `stty cols ${COLUMNS} rows 60; ${line}`, "/dev/null"], { cwd, env });
  let [written, from] = ["", 0];
  const left = [...typed];
  child.stdout.setEncoding("utf8").on("data", (text) => {
    written += text;
    const [next] = left;
    if (!next || !written.includes(next.after, from)) return;
    from = written.indexOf(next.after, from) + next.after.length;
    left.shift();
    child.stdin.write(next.text);
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), SECONDS * 1000);
  const signal = await new Promise((resolve, reject) => {
    child.on("close", (_, by) => resolve(by)).on("error", reject);
  });
  clearTimeout(timer);
  if (signal !== null) throw new Error(`${line}: it waits for something after:\n${written}`);
  if (left[0]) throw new Error(`${line}: "${left[0].after}" was not written:\n${written}`);
  return written;
}

const SWITCHES: Readonly<Record<number, Look>> = {
  ...{ 1: "bold", 2: "dim", 31: "red", 32: "green", 33: "yellow", 36: "cyan" },
};
const PARTS = /\u001b\[\??([\d;]*)([A-Za-z])|[\r\n]|[^\r\n\u001b]/gu;

interface Cell {
  text: string;
  looks: readonly Look[];
}

/** Returns the rows of a screen after this output, each as pieces with the same style. Supports the cursor sequences that the program uses. */
export function rowsOf(written: string): Piece[][] {
  const rows: Cell[][] = [[]];
  let column = 0;
  let looks: readonly Look[] = [];
  for (const [part, numbers = "", command] of written.matchAll(PARTS)) {
    const row = rows.at(-1) ?? [];
    if (part === "\r") column = 0;
    else if (part === "\n") rows.push([]);
    else if (command === "m") looks = switched(looks, numbers);
    else if (command === "G") column = Number(numbers || 1) - 1;
    else if (command === "J" || command === "K") row.splice(numbers === "2" ? 0 : column);
    else if (command === "h" || command === "l") continue;
    else if (command !== undefined) throw new Error(`the screen does not know ${JSON.stringify(part)}`);
    else {
      if (column === COLUMNS) {
        rows.push([]);
        column = 0;
      }
      const here = rows.at(-1) ?? [];
      while (here.length < column) here.push({ text: " ", looks: [] });
      here[column++] = { text: part, looks };
    }
  }
  return rows.map(piecesOf);
}

function switched(looks: readonly Look[], numbers: string): readonly Look[] {
  let now = looks;
  for (const number of numbers.split(";").map(Number)) {
    const look = SWITCHES[number];
    if (number === 0) now = [];
    else if (number === 22) now = now.filter((each) => each !== "bold" && each !== "dim");
    else if (number === 39) now = now.filter((each) => each === "bold" || each === "dim");
    else if (look) now = [...now, look];
    else throw new Error(`the screen does not know the look ${number}`);
  }
  return now;
}

function piecesOf(row: readonly Cell[]): Piece[] {
  const pieces: Piece[] = [];
  for (const { text, looks } of row) {
    const last = pieces.at(-1);
    if (last && last.looks.join() === looks.join()) last.text += text;
    else pieces.push({ text, looks });
  }
  return pieces;
}
