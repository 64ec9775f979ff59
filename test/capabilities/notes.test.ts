import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { notesProvider } from "../../examples/notes/notes.ts";
import { findInstructionCommands } from "../../src/agent/models/runbook.ts";
import { checkProvider } from "../../src/capabilities/check-provider.ts";
import { createCommandProvider } from "../../src/capabilities/command-provider.ts";
import type { CapabilityProvider } from "../../src/host/capability-contract.ts";
import { checkPath } from "../../src/skill/source/check-skills.ts";
import { temporaryFolder, writeFiles } from "../support/folder.ts";
import { callOf, catchProviderError, createCallContext } from "../support/provider.ts";

const example = join(import.meta.dirname, "../../examples/notes");

/** The program, as the configuration names it. */
function notesProgram(): CapabilityProvider {
  const folder = temporaryFolder();
  const command = [process.execPath, join(example, "provider.ts")];
  return createCommandProvider({ namespace: "notes", command, env: { NOTES_FILE: join(folder, "notes.db") }, folder });
}

describe.each([
  ["in this program", () => notesProvider(join(temporaryFolder(), "below", "notes.db"))],
  ["as a program over the bridge", notesProgram],
])("the notes of the examples, %s", (_, open) => {
  const invoke = async (provider: CapabilityProvider, operation: string, input: object, key: string = operation) =>
    (await provider.invoke(callOf(operation, input, { key }), createCallContext())).output;

  it("[S-21] pass the contract suite for providers", async () => {
    const provider = open();
    await invoke(provider, "add", { title: "First", text: "one" });
    const findings = await checkProvider(provider, {
      inputs: { "notes.notes.get": { id: 1 } },
      invokes: { "notes.notes.add": { title: "Second", text: "two" }, "notes.notes.remove": { id: 1 } },
    });
    expect(findings.filter(({ isOk }) => !isOk)).toEqual([]);
    expect(findings.map(({ title }) => title)).toEqual(
      expect.arrayContaining([
        "notes.notes.list returns output that matches its schema",
        "notes.notes.get returns no credential",
        "notes.notes.add is done once per key",
        "notes.notes.remove is done once per key",
      ]),
    );
    // Requested twice, done once.
    expect(await invoke(provider, "list", {})).toEqual({ notes: [{ id: 2, title: "Second" }] });
  });

  it("are added, found, read and removed", async () => {
    const provider = open();
    const bins = await invoke(provider, "add", { title: "Bins", text: "on Friday; it's 'quoted'" });
    expect(bins).toEqual({ id: 1, title: "Bins", text: "on Friday; it's 'quoted'" });
    await invoke(provider, "add", { title: "Garden", text: "water it" }, "another");
    expect(await invoke(provider, "list", { query: "friday" })).toEqual({ notes: [{ id: 1, title: "Bins" }] });
    expect(await invoke(provider, "list", { limit: 1 })).toEqual({ notes: [{ id: 2, title: "Garden" }] });
    expect(await invoke(provider, "get", { id: 1 })).toEqual(bins);
    expect(await invoke(provider, "remove", { id: 1 })).toEqual(bins);
    expect(await catchProviderError(invoke(provider, "get", { id: 1 }))).toMatchObject({
      code: "not-found",
      message: "There is no note 1",
    });
  });
});

describe("the example's program", () => {
  it("prints nothing on stderr, and fits on a page", async () => {
    const env = { NOTES_FILE: join(temporaryFolder(), "notes.db") };
    const child = promisify(execFile)(process.execPath, [join(example, "provider.ts")], { env });
    child.child.stdin?.end(
      '{"version":1,"id":"req_1","method":"health","namespace":"notes","params":{},"context":{},"deadline_ms":5000}\n',
    );
    const { stdout, stderr } = await child;
    expect(stdout).toBe('{"version":1,"id":"req_1","ok":true,"result":{"is_ready":true}}\n');
    expect(stderr).toBe("");
    for (const file of ["notes.ts", "provider.ts"]) {
      expect(readFileSync(join(example, file), "utf8").split("\n").length).toBeLessThan(90);
    }
  });

  it("comes with a skill that passes every check", () => {
    const { files, diagnostics } = checkPath(join(example, "skills"), { profile: "shipped" });
    expect(files.map(({ name }) => name)).toEqual(["note-taker"]);
    expect([...diagnostics, ...files.flatMap((file) => file.diagnostics)]).toEqual([]);
  });

  it.each([
    ["the bins are emptied on Friday", "the bins are emptied on Friday"],
    [`say "hi" \\ it's $HOME \`id\``, `say "hi" \\ it's $HOME \`id\``],
    ["two\nlines", "two lines"],
  ])("has commands that create a note from a message: %j", async (said, title) => {
    const text = readFileSync(join(example, "skills/note-taker/SKILL.md"), "utf8");
    const commands = findInstructionCommands(text.replace(/^---[\s\S]*?\n---\n/, ""), { names: [], arguments: said });
    expect(commands.slice(0, 2)).toEqual([
      "skillet-sb capability list",
      "skillet-sb capability invoke -c notes.notes -o list",
    ]);
    // A replacement for the sandbox command prints its arguments.
    const folder = temporaryFolder();
    writeFiles(folder, { "run.sh": `skillet-sb() { printf '%s\\n' "$@"; }\n${commands[2]}` });
    const { stdout } = await promisify(execFile)("bash", [join(folder, "run.sh")]);
    const [input = "", ...rest] = stdout.trimEnd().split("\n").reverse();
    expect(rest.reverse()).toEqual(["capability", "invoke", "-c", "notes.notes", "-o", "add", "--input"]);
    expect(JSON.parse(input)).toEqual({ title, text: "" });
  });
});
