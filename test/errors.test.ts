import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { listConfigKeys } from "../src/config/config-keys.ts";
import { ERROR_CODES } from "../src/errors/error-codes.ts";
import { RENAMED_NAMES } from "../src/errors/renamed-names.ts";
import { checkEntryPath } from "../src/remote/entry-path.ts";
import { catchToolErrors } from "../src/skill/tool.ts";
import { temporaryFolder } from "./support/folder.ts";
import { moduleOf } from "./support/program.ts";
import { importedBy, listUsedCodes, sourceFiles, textsOf, variablesOf } from "./support/source-codes.ts";

const page = (name: string) => readFileSync(join(import.meta.dirname, "../docs", name), "utf8");
const files = sourceFiles();
const rows = Object.entries(ERROR_CODES);

it("name the path that the system refused, and a read-only file system as a possible cause", async () => {
  const folder = join(temporaryFolder(), "missing", "runs");
  const { text } = await catchToolErrors(() => {
    mkdirSync(folder); // A read-only file system gives the same error to a recursive call.
    return { text: "created", isError: false };
  });
  expect(text).toBe(`It failed: ${folder}: no such file or directory, or the file system is read-only`);
});

describe("the codes", () => {
  it("that the sources use are all in a table", () => {
    const given = listUsedCodes(files);
    expect(given.size).toBeGreaterThan(300);
    expect([...given.keys()]).toEqual(
      expect.arrayContaining(["usage", "address-ref", "request-invalid", "mcp-too-many-tools"]),
    );
    const unknown = [...given].filter(([code]) => !Object.hasOwn(ERROR_CODES, code) && !NO_CODES.has(code));
    expect(unknown).toEqual([]);
  });

  it("of the tables are all used", () => {
    const { whole, starts } = textsOf(files);
    const isGiven = (code: string) =>
      whole.has(code) || [...starts].some((start) => code.startsWith(start) && whole.has(code.slice(start.length)));
    expect([...starts].sort()).toEqual(expect.arrayContaining(["resource-", "script-", "tool-"]));
    expect(rows.map(([code]) => code).filter((code) => !isGiven(code))).toEqual([]);
  });

  it("that were renamed lead to a current code, and none of them is current", () => {
    const codes = new Set(Object.keys(ERROR_CODES));
    const renamed = Object.entries(RENAMED_NAMES.code);
    expect(renamed.filter(([old, name]) => codes.has(old) || !codes.has(name))).toEqual([]);
    const events = [...Object.values(RENAMED_NAMES.event), ...Object.values(RENAMED_NAMES.stop)];
    const { whole } = textsOf(files);
    expect(events.filter((name) => !whole.has(name))).toEqual([]);
    const former = [RENAMED_NAMES.event, RENAMED_NAMES.stop].flatMap((names) => Object.keys(names));
    expect(former.filter((old) => whole.has(old))).toEqual([]);
  });

  it("have one row each, with a meaning in a sentence and a fix", async () => {
    const tables = await Promise.all(
      files
        .filter(({ path }) => /^errors\/.*-codes\.ts$/.test(path))
        .map(({ path }) => import(/* @vite-ignore */ moduleOf(path.replace(/\.ts$/, "")))),
    );
    const single = tables.flatMap((table) => Object.values(table)).filter((value) => value !== ERROR_CODES);
    const codes = single.flatMap((table) => (typeof table === "object" ? Object.keys(table as object) : []));
    expect(codes.toSorted()).toEqual(Object.keys(ERROR_CODES).toSorted());
    for (const [code, { meaning: means, fix }] of rows) {
      expect(code).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*$/);
      expect(means, code).toMatch(/^\S[^|\n]*\.$/);
      expect(fix, code).toMatch(/^[^|\n]*[^|\n.]$/);
    }
  });

  it("of repositories in a source name every refused folder", () => {
    const folders = [".git", ".hg", ".svn"];
    for (const folder of folders)
      expect(() => checkEntryPath({ path: `a/${folder}/x`, kind: "file" })).toThrow("data of a repository");
    const { meaning } = ERROR_CODES["entry-repository"];
    expect(folders.filter((folder) => !meaning.includes(folder))).toEqual([]);
  });

  it("do not slow down the start: their tables are imported as types, except findings and renamed names", () => {
    const imports = files
      .filter(({ path }) => !path.startsWith("errors/") && path !== "cli/commands/help.ts")
      .flatMap(importedBy);
    const ofCodes = imports.filter(({ to }) => /^errors\/(?!finding-codes|problem|renamed-names)/.test(to));
    expect(ofCodes.length).toBeGreaterThan(10);
    // `help CODE` explains codes: only that command imports it.
    const others = ofCodes.filter(({ from }) => from !== "cli/commands/help.ts");
    expect(others.filter(({ isType }) => !isType)).toEqual([]);
  });

  it("name only existing configuration keys", () => {
    const keys = listConfigKeys().map(({ path }) => path);
    const named = rows.flatMap(([, { fix }]) => [...fix.matchAll(/\[([a-z]+)\] ([a-z_]+)/g)]);
    expect(named.length).toBeGreaterThan(5);
    expect(named.map(([, table, key]) => `${table}.${key}`).filter((key) => !keys.includes(key))).toEqual([]);
  });

  it("have their own anchor on their page, and every link on a page leads to an existing one", () => {
    const text = page("errors.md");
    const anchors = [...text.matchAll(/<a id="([^"]+)">/g)].map(([, id = ""]) => id);
    expect(anchors.toSorted()).toEqual(Object.keys(ERROR_CODES).toSorted());
    const headings = [...text.matchAll(/^## (.*)$/gm)].map(([, title = ""]) => anchorOf(title));
    expect(headings.filter((heading) => anchors.includes(heading))).toEqual([]);
    const links = [...text.matchAll(/\]\(#([^)]+)\)/g)].map(([, id = ""]) => id);
    expect(links.filter((id) => ![...anchors, ...headings].includes(id))).toEqual([]);
  });
});

describe("the environment variables", () => {
  it("that the sources read, or pass on, are all in the table of the page", () => {
    const [, table = ""] = page("config.md").split("## Environment variables");
    const read = variablesOf(files);
    expect([...read]).toEqual(expect.arrayContaining(["SKILLET_HOME", "NO_COLOR", "OPENAI_API_KEY", "TRACEPARENT"]));
    expect([...read].filter((name) => !NO_VARIABLES.test(name) && !table.includes(`\`${name}\``))).toEqual([]);
  });
});

/** Strings in the place of a code: parts of other codes (`resource-outside`), a command's name for another, an internal mark. */
const NO_CODES = new Set(["outside", "too-large", "callback", "left-out"]);

/** Strings in the form of a code: capabilities of Linux, errors of Node, files of git, aliases, values that a sandbox test sets. */
const NO_VARIABLES =
  /^(?:AUDIT_WRITE|DAC_OVERRIDE|SYS_CHROOT|ERR_\w+|(?:MERGE|CHERRY_PICK|REVERT)_HEAD|SQUASH_MSG|MODULE_NOT_FOUND|EAI_AGAIN|REQUEST_\w+|UPPER_CASE|GITHUB_TOKEN|API_KEY|PROBE_SECRET|SKILLET_SELF_TEST)$/;

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^a-z -]/g, "")
    .replaceAll(" ", "-");
}
