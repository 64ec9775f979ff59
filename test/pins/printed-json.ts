import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { listCommandPaths } from "../../src/cli/program.ts";
import type { Ran, RunOptions } from "../support/command.ts";
import { temporaryFolder } from "../support/folder.ts";

const root = join(import.meta.dirname, "../..");
const page = readFileSync(join(root, "docs/json.md"), "utf8");
/** The shapes of docs/json.md, as TypeScript. */
export const types = Array.from(page.matchAll(/^```ts\n(.*?)^```$/gms), ([, block = ""]) => block).join("\n");

export type Run = (args: readonly string[], options?: RunOptions) => Promise<Ran>;

/** The printed values, each with the name of its shape on the page. */
export class Printed {
  readonly values: { shape: string; args: readonly string[]; value: unknown }[] = [];

  /** Runs a command, and returns its output: one JSON value, or an error. */
  async take(run: Run, shape: string, args: readonly string[], options: RunOptions = {}) {
    const words = pathIn(args).split(" ").filter(Boolean).length;
    const { stdout, stderr } = await run([...args.slice(0, words), "--json", ...args.slice(words)], options);
    return this.add(shape, args, stdout, stderr);
  }

  /** The same for commands that print a value per line. */
  async takeLines(run: Run, shape: string, args: readonly string[], options: RunOptions = {}) {
    const { stdout } = await run(args, options);
    for (const line of stdout.trimEnd().split("\n")) this.add(shape, args, line);
  }

  private add(shape: string, args: readonly string[], stdout: string, stderr = "") {
    expect(() => JSON.parse(stdout), `skillet ${args.join(" ")}: ${stdout}${stderr}`).not.toThrow();
    const value = JSON.parse(stdout);
    this.values.push({ shape, args, value });
    return value;
  }

  /** Optional keys, by the page, that every output contained: only their types are checked. */
  unseen(): string[] {
    const seen = new Set<string>();
    JSON.stringify(this.values, (key, value) => {
      seen.add(key);
      return value;
    });
    const optional = Array.from(types.matchAll(/\b(\w+)\?:/g), ([, key = ""]) => key);
    return [...new Set(optional)].filter((key) => !seen.has(key)).sort();
  }

  /** Lists in another order than that of names, without a documented order. */
  unsorted(): string[] {
    return this.values.flatMap(({ shape, args, value }) => {
      const { skills, trusted, signers, servers } = value as Record<string, unknown>;
      const lists = [skills, trusted, signers, servers].filter(Array.isArray);
      const names = lists.map((list) => list.map(({ name }: { name: string }) => name).join());
      const inOrder = lists.map((list) =>
        list
          .map(({ name }: { name: string }) => name)
          .sort()
          .join(),
      );
      return ORDERED.has(shape) || names.join("\n") === inOrder.join("\n") ? [] : `skillet ${args.join(" ")}: ${names}`;
    });
  }

  /** Returns the differences from the page: a value becomes a TypeScript literal, which is checked against the type completely. */
  misfits(): string {
    const folder = temporaryFolder({
      "tsconfig.json": JSON.stringify({
        compilerOptions: {
          strict: true,
          exactOptionalPropertyTypes: true,
          noEmit: true,
          types: [],
          skipLibCheck: true,
        },
        files: this.values.map((_, index) => `${index}.ts`),
      }),
      "types.ts": types.replace(/^(?=(?:type|interface) )/gm, "export "),
    });
    for (const [index, { shape, args, value }] of this.values.entries()) {
      const text = `import type * as Json from "./types.ts";\n// skillet ${args.join(" ").replace(/\s+/g, " ")}\nexport const value: Json.${shape} = ${JSON.stringify(value, null, 2)};\n`;
      writeFileSync(join(folder, `${index}.ts`), text);
    }
    try {
      execFileSync(join(root, "node_modules/.bin/tsc"), ["-p", folder, "--allowImportingTsExtensions"], {
        cwd: folder,
        encoding: "utf8",
      });
      return "";
    } catch (error) {
      const said = String((error as { stdout?: string }).stdout);
      return said.replace(/^(\d+)\.ts/gm, (_, index) => `skillet ${this.values[Number(index)]?.args.join(" ")}`);
    }
  }
}

/** Lists with another documented order. */
const ORDERED = new Set(["Stats", "Eval"]);

const paths = await listCommandPaths();

/** The command in a line, without its arguments. */
export function pathIn(args: readonly string[]): string {
  const two = args.slice(0, 2).join(" ");
  return paths.includes(two) ? two : (args[0] ?? "");
}
