import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { EXIT } from "../src/cli/command-context.ts";
import { pages } from "../tools/docs.ts";
import { skillet } from "./support/command.ts";

const root = join(import.meta.dirname, "..");
const markdown = [
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).map((path) => join("docs", path)),
  "README.md",
  "AGENTS.md",
  "CHANGELOG.md",
].filter((path) => path.endsWith(".md") && !path.startsWith("docs/site/"));

/** What the program's own help lists, to its last level. */
async function commandsBelow(path: readonly string[]): Promise<string[]> {
  const { stdout } = await skillet([...path, "--help"]);
  const [, everyday = ""] = /\nCommands:\n((?: .*\n)*)/.exec(stdout) ?? [];
  const [, more = ""] = /\nMore commands:\n((?: .*\n)*)/.exec(stdout) ?? [];
  const listed = everyday + more;
  // The program's own help lists several commands on a line after a topic.
  const line = path.length === 0 ? /^ {2}(?:[A-Z][a-z]+ +)?([a-z-]+(?:, [a-z-]+)*)(?= {2}|$)/gm : /^ {2}([a-z-]+)/gm;
  const names = Array.from(listed.matchAll(line), ([, terms = ""]) => terms.split(", "))
    .flat()
    .filter((name) => name !== "help");
  const inner = await Promise.all(names.map((name) => commandsBelow([...path, name])));
  return names.flatMap((name, index) => [[...path, name].join(" "), ...(inner[index] ?? [])]);
}

describe("the documentation", () => {
  it("made from the program is what the program says now: `npm run docs` writes it", async () => {
    for (const [path, text] of Object.entries(await pages()))
      expect(readFileSync(join(root, path), "utf8"), path).toBe(text);
  });

  it("has a section for every command that the help names, and every exit code", async () => {
    const page = readFileSync(join(root, "docs/cli.md"), "utf8");
    const paths = await commandsBelow([]);
    expect(paths).toEqual(expect.arrayContaining(["run", "chat", "config", "config set", "skill validate"]));
    expect(paths.filter((path) => !page.includes(`\n## skillet ${path}\n`))).toEqual([]);
    const [, codes = ""] = /Exit codes: (.*?)\n\n/s.exec(page) ?? [];
    expect(codes.match(/\d+/g)).toEqual(Object.values(EXIT).map(String));
  });

  it.each(markdown)("%s links only to what is there", (path) => {
    const text = readFileSync(join(root, path), "utf8").replace(/^```[\s\S]*?^```|`[^`\n]*`/gm, "");
    const links = [...text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)]
      .map(([, link = ""]) => link)
      .filter((link) => !/^[a-z]+:/.test(link));
    expect(links.filter((link) => !existsSync(join(root, dirname(path), link)))).toEqual([]);
  });
});
