import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  applyConnectionChanges,
  createConnectionStore,
  createUndoSpan,
  findTextSpan,
  undoSpans,
} from "../../../../src/remote/clients/apply-connection.ts";
import { parseJsonc, removeJsoncValue, setJsoncValue } from "../../../../src/remote/clients/jsonc.ts";
import { planConnection } from "../../../../src/remote/clients/plan-connection.ts";
import { planDisconnection } from "../../../../src/remote/clients/plan-disconnection.ts";
import { temporaryFolder, writeFiles } from "../../../support/folder.ts";

const program = { command: "/opt/node", args: ["/opt/skillet.cjs"] };
const server = { command: "/opt/node", args: ["/opt/skillet.cjs", "serve"] };

/** Connects and removes a client in its own folder; `between` changes its files. */
function scene(client: string, files: Record<string, string>) {
  const home = temporaryFolder(files);
  const environment = { home, workspace: home, env: {}, platform: "linux" as const };
  const at = { client, scope: "user" as const, environment, name: "skillet" };
  const records = createConnectionStore(join(home, ".skillet"));
  return {
    read: (file: string) => readFileSync(join(home, file), "utf8"),
    write: (file: string, text: string) => writeFileSync(join(home, file), text),
    async connect() {
      const changes = await planConnection({ ...at, server, program, hook: "command" }, records.entries());
      applyConnectionChanges(changes, records);
      return changes;
    },
    async remove() {
      applyConnectionChanges(await planDisconnection(at, records.entries()), records);
    },
    reset: (next: Record<string, string>) => writeFiles(home, next),
  };
}

const name = fc.constantFrom("mcpServers", "hooks", "BeforeAgent", "version", "a", "b-c", "é", "", "__proto__");
const leaf = fc.oneof(fc.string({ unit: "grapheme", maxLength: 8 }), fc.integer(), fc.boolean(), fc.constant(null));
const handler = fc.record({ type: fc.constant("command"), command: fc.string({ maxLength: 6 }) });
const groups = fc.array(fc.record({ hooks: fc.array(handler, { maxLength: 3 }) }), { maxLength: 3 });
const servers = fc.dictionary(fc.constantFrom("a", "b", "c"), fc.record({ command: fc.string() }), { maxKeys: 3 });
const document = fc
  .record(
    {
      mcpServers: servers,
      hooks: fc.record({ BeforeAgent: groups, Stop: groups }, { requiredKeys: [] }),
      theme: leaf,
      nested: fc.dictionary(
        name.filter((one) => one !== "__proto__"),
        leaf,
        { maxKeys: 3 },
      ),
    },
    { requiredKeys: [] },
  )
  .chain((value) =>
    fc
      .shuffledSubarray(Object.keys(value), { minLength: Object.keys(value).length })
      .map((keys) => Object.fromEntries(keys.map((key) => [key, (value as Record<string, unknown>)[key]]))),
  );
const style = fc.record({
  indent: fc.constantFrom("", "  ", "    ", "\t"),
  isCrlf: fc.boolean(),
  mark: fc.constantFrom("", "\ufeff"),
  end: fc.constantFrom("", "\n", "\n\n"),
  comment: fc.constantFrom("", "// about it", "/* one\n   two */"),
});

function textOf(
  value: unknown,
  {
    indent,
    isCrlf,
    mark,
    end,
    comment,
  }: { indent: string; isCrlf: boolean; mark: string; end: string; comment: string },
) {
  const json = JSON.stringify(value, null, indent);
  const commented =
    comment === "" ? json : `${comment}\n${indent === "" ? json : json.replace(/\{\n/, `{ // first\n`)}`;
  const text = commented + end;
  return mark + (isCrlf ? text.replaceAll("\n", "\r\n") : text);
}

describe("connecting a client", () => {
  it("[A-07] restores any configuration to the byte, however often it was connected", async () => {
    const at = scene("gemini", { ".gemini/x": "" });
    await fc.assert(
      fc.asyncProperty(document, style, fc.integer({ min: 1, max: 2 }), async (value, how, times) => {
        const text = textOf(value, how);
        at.write(".gemini/settings.json", text);
        for (let time = 0; time < times; time++) await at.connect();
        const connected = at.read(".gemini/settings.json");
        expect(await at.connect()).toEqual([]);
        const read = parseJsonc(connected.replace("\ufeff", "")) as {
          mcpServers: object;
          hooks: { BeforeAgent: unknown[]; PreCompress: unknown[] };
        };
        const was = value as { mcpServers?: object; hooks?: { BeforeAgent?: unknown[] } };
        expect(read).toEqual({
          ...value,
          mcpServers: { ...was.mcpServers, skillet: server },
          hooks: {
            ...was.hooks,
            BeforeAgent: [...(was.hooks?.BeforeAgent ?? []), read.hooks.BeforeAgent.at(-1)],
            PreCompress: [read.hooks.BeforeAgent.at(-1)],
          },
        });
        await at.remove();
        expect(at.read(".gemini/settings.json")).toBe(text);
      }),
      { numRuns: 25 },
    );
  });

  it("[A-07] restores the same values when another program changed the file in between", async () => {
    const at = scene("gemini", { ".gemini/x": "" });
    await fc.assert(
      fc.asyncProperty(document, style, async (value, how) => {
        at.write(".gemini/settings.json", textOf(value, how));
        await at.connect();
        const connected = parseJsonc(at.read(".gemini/settings.json").replace("\ufeff", "")) as object;
        at.write(".gemini/settings.json", JSON.stringify({ ...connected, later: 1 }, null, 3));
        await at.remove();
        expect(JSON.parse(at.read(".gemini/settings.json"))).toEqual({ ...value, later: 1 });
      }),
      { numRuns: 25 },
    );
  });

  it("[A-07] restores TOML to the byte, and removes a whole table from a changed file", async () => {
    const at = scene("codex", { ".codex/x": "" });
    const part = fc.constantFrom(
      'model = "x"',
      "# a comment",
      "",
      '[tui]\ntheme = "a"',
      '[mcp_servers.other]\ncommand = "o"\nargs = [\n  "a", # b\n]',
      "[[hooks_list]]\nname = 1",
    );
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(part, { selector: (text) => text.slice(0, 6), maxLength: 5 }),
        fc.boolean(),
        fc.constantFrom("", "\n"),
        async (parts, isCrlf, end) => {
          const root = parts.filter((one) => !one.startsWith("["));
          const text = [...root, ...parts.filter((one) => one.startsWith("["))].join("\n") + end;
          const written = isCrlf ? text.replaceAll("\n", "\r\n") : text;
          at.write(".codex/config.toml", written);
          await at.connect();
          expect(at.read(".codex/config.toml")).toContain("[mcp_servers.skillet]");
          await at.remove();
          expect(at.read(".codex/config.toml")).toBe(written);
          await at.connect();
          at.write(".codex/config.toml", `${at.read(".codex/config.toml")}\n[later]\nx = 1\n`);
          await at.remove();
          const left = at.read(".codex/config.toml");
          expect(left).not.toContain("skillet");
          expect(left).toContain("[later]");
          for (const one of parts) expect(left.replaceAll("\r\n", "\n")).toContain(one);
        },
      ),
      { numRuns: 15 },
    );
  });

  it("writes nothing when a file changed after the plan was made", async () => {
    const at = scene("gemini", { ".gemini/settings.json": "{}" });
    const records = createConnectionStore(temporaryFolder());
    const home = temporaryFolder({ ".cursor/mcp.json": "{}" });
    const environment = { home, workspace: home, env: {}, platform: "linux" as const };
    const options = {
      client: "cursor",
      scope: "user" as const,
      environment,
      name: "skillet",
      server,
      program,
      hook: "command" as const,
    };
    const changes = await planConnection(options, {});
    writeFileSync(join(home, ".cursor/mcp.json"), '{"a": 1}');
    expect(() => applyConnectionChanges(changes, records)).toThrow(
      "was changed by another program meanwhile: nothing was written",
    );
    expect(readFileSync(join(home, ".cursor/mcp.json"), "utf8")).toBe('{"a": 1}');
    expect(at.read(".gemini/settings.json")).toBe("{}");
  });
});

describe("elements of arrays in a JSON text", () => {
  it("are added after the others and removed again, and every other character stays", () => {
    for (const text of [
      '{"a": []}',
      '{"a": [1]}',
      '{\n  "a": [\n    1, // one\n    2 /* two */\n  ]\n}',
      '{\n\t"a": [\n\t\t{ "b": 1 },\n\t],\n}',
      '{"a": [[1, "]"], {"c": [2]}]}',
    ]) {
      const { a } = parseJsonc(text) as { a: unknown[] };
      const added = setJsoncValue(text, ["a", a.length], { x: ["y"] });
      expect(parseJsonc(added), text).toEqual({ a: [...a, { x: ["y"] }] });
      const inner = setJsoncValue(added, ["a", a.length, "x", 0], "z");
      expect(parseJsonc(inner)).toEqual({ a: [...a, { x: ["z"] }] });
      expect(parseJsonc(removeJsoncValue(added, ["a", a.length])), text).toEqual({ a });
      if (a.length > 0)
        expect(parseJsonc(removeJsoncValue(added, ["a", 0])), text).toEqual({ a: [...a.slice(1), { x: ["y"] }] });
    }
  });
});

describe("the span between two texts", () => {
  it("is undone to the first text, whatever they are", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "b", ",", "\n", "😀"), maxLength: 12 });
    fc.assert(
      fc.property(text, text, (before, after) => {
        const span = findTextSpan(before, after);
        expect(span === undefined).toBe(before === after);
        expect(undoSpans(after, span ? [createUndoSpan(span)] : [])).toBe(before);
      }),
    );
  });
});
