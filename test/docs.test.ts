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

/** The commands in the program's own help, to the last level. */
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

/** Questions of a user's first ten minutes, with the sentences that answer them. */
const QUESTIONS: Readonly<Record<string, readonly RegExp[]>> = {
  "what is it?": [/The toolkit for \*\*Agent Skills\*\* \(folders with a `SKILL\.md`\)/],
  "who is it for?": [/## You use agents/, /## You write skills/, /## You build agents/, /## You run skills for a team/],
  "how do I install it?": [
    /`git clone`/,
    /npm ci && npm start/,
    /npm install --global \./,
    /Node 20 or newer to install/,
  ],
  "how do I fix a skill that does not load?": [/skillet check --fix/, /`skillet list --all` shows it with the reason/],
  "how do I give it to Claude Code?": [/skillet connect claude/],
  "what is sandboxed, and what is not?": [/\*\*Sandboxed:\*\* scripts/, /\*\*Not sandboxed:\*\* TypeScript tools/],
  "what does it cost?": [/is free, under the MIT license/, /You pay only your model provider/, /No API key is needed/],
  "how does it compare to `npx skills`?": [
    /\| \| skillet \| `npx skills` \| Claude Code \|/,
    /\| clients \| 7 \| \*\*79\*\*/,
  ],
  "how does a team use it?": [
    /--project --yes # one repository: files and a lock file to commit/,
    /skillet token create/,
    /skillet serve --http 127\.0\.0\.1:7400 # one server: all skills at http:\S+\/mcp/,
    /Ada adds the proxy's `https` address/,
    /`Authorization: Bearer TOKEN`/,
  ],
  "where do I report a vulnerability?": [/Report a vulnerability privately, in the \*\*Security\*\* tab/],
};

describe("the documentation", () => {
  it("generated from the program is up to date: `npm run docs` writes it", async () => {
    for (const [path, text] of Object.entries(await pages()))
      expect(readFileSync(join(root, path), "utf8"), path).toBe(text);
  });

  it("has a section for every command in the help, and for every exit code", async () => {
    const page = readFileSync(join(root, "docs/cli.md"), "utf8");
    const paths = await commandsBelow([]);
    expect(paths).toEqual(expect.arrayContaining(["run", "chat", "config", "config set", "skill validate"]));
    expect(paths.filter((path) => !page.includes(`\n## skillet ${path}\n`))).toEqual([]);
    const [, codes = ""] = /Exit codes: (.*?)\n\n/s.exec(page) ?? [];
    expect(codes.match(/\d+/g)).toEqual(Object.values(EXIT).map(String));
  });

  it.each(Object.entries(QUESTIONS))("answers in the README and Getting started: %s", (_, answers) => {
    const pages = ["README.md", "docs/getting-started.md"].map((path) => readFileSync(join(root, path), "utf8"));
    const text = pages.join("\n").replaceAll(/\s+/g, " ");
    for (const answer of answers) expect(text).toMatch(answer);
  });

  it.each(markdown)("%s links only to existing files", (path) => {
    const text = readFileSync(join(root, path), "utf8").replace(/^```[\s\S]*?^```|`[^`\n]*`/gm, "");
    const links = [...text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)]
      .map(([, link = ""]) => link)
      .filter((link) => !/^[a-z]+:/.test(link));
    expect(links.filter((link) => !existsSync(join(root, dirname(path), link)))).toEqual([]);
  });
});
