import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createPrinter, printProblem } from "../../src/cli/output.ts";
import { ERROR_CODES } from "../../src/errors/error-codes.ts";

const COMMAND = "skillet trust 'a skill with a rather long name@workspace'";

function print(fix: string): string[] {
  let text = "";
  const stream = { write: (part: string) => (text += part), isTTY: true, columns: 40 };
  const out = createPrinter(stream, { NO_COLOR: "1" });
  printProblem(out, out.red("✗"), { message: "It failed", fix, commands: [COMMAND] }, "/other");
  return text.split("\n");
}

describe("the commands of a problem", () => {
  it("stay on one line and include the workspace, whatever the text of the fix is", () => {
    const sentences = ["", "run", "x", "do something else", ...Object.values(ERROR_CODES).map(({ fix }) => fix)];
    for (const sentence of sentences) {
      const lines = print(sentence);
      expect(lines.join("\n"), sentence).toContain(COMMAND.replace("trust", "trust -C /other"));
    }
  });

  it("[S-32] are in `commands`, never between backticks in the text of the fix", () => {
    const source = join(import.meta.dirname, "../../src");
    const paths = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".ts"));
    // The tables of codes are pages of the documentation: their fixes are Markdown with placeholders.
    const found = paths
      .filter((path) => !/^errors\/.*-codes\.ts$/.test(path))
      .flatMap((path) =>
        findFixesWithCommand(readFileSync(join(source, path), "utf8")).map((fix) => `${path}: ${fix}`),
      );
    expect(found).toEqual([]);
    expect(findFixesWithCommand('fix: a ? "x" : "run `skillet list`",\n')).toHaveLength(1);
    expect(findFixesWithCommand("fix:\n  one ||\n  `see \\`skillet runs ${id}\\``,\n")).toHaveLength(1);
    expect(findFixesWithCommand('fix: "list them",\ncommands: [`skillet list`],\n')).toEqual([]);
  });
});

/** Returns the values of `fix` that contain a command of skillet between backticks. */
function findFixesWithCommand(code: string): string[] {
  const values = code.matchAll(
    /\bfix(?:\??:|\s=)\s*((?:"(?:\\.|[^"\n])*"|`(?:\\.|[^`\\])*`|[^"`,;{}]|\$?\{[^}"`]*\})*)/g,
  );
  return Array.from(values, ([, value = ""]) => value).filter((value) =>
    /(?:"[^"]*`|\\`)(?:sudo )?skillet /.test(value),
  );
}
