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
  it("stay on one line and get the workspace, whatever the sentence of the fix is", () => {
    const sentences = ["", "run", "x", "do something else", ...Object.values(ERROR_CODES).map(({ fix }) => fix)];
    for (const sentence of sentences) {
      const lines = print(sentence);
      expect(lines.join("\n"), sentence).toContain(COMMAND.replace("trust", "trust -C /other"));
    }
  });
});
