import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { adaptSkill } from "../../../src/remote/clients/adapt-skill.ts";
import { NATIVE_CLIENTS, type NativeClient } from "../../../src/remote/clients/native-clients.ts";
import { parseMarkdownDocument } from "../../../src/skill/document.ts";
import type { Skill } from "../../../src/skill/skill.ts";
import { CLIENT_IDS, type ClientId, findReadingClients, getSkillClient } from "../../../src/skill/source/locations.ts";
import { skillet } from "../../support/command.ts";
import { discoverIn } from "../../support/discover.ts";
import { temporaryFolder } from "../../support/folder.ts";

/** Requests of real clients to a model, recorded by `npm run test:clients -- --record`. */
interface Captured {
  client: ClientId;
  version: string;
  /** The canary skills in the first request, by their folder. */
  folders: Record<string, boolean>;
  /** Exported skills, and the lines of the request about them. */
  exported: Record<string, { description: string; more: string }>;
  listing: string[];
  /** A prompt, and the part of the request with the hook's text. */
  hook: { prompt: string; skill: string; part: string };
}

const ROOT = join(import.meta.dirname, "../../..");
const FIXTURES = join(ROOT, "test", "fixtures", "clients");
const captured = readdirSync(FIXTURES)
  .filter((file) => file.endsWith(".json"))
  .map((file): [string, Captured] => [
    file.replace(".json", ""),
    JSON.parse(readFileSync(join(FIXTURES, file), "utf8")),
  ]);

/** Clients write text as XML, or in one line. */
function plain(text: string): string {
  const entities: [string, string][] = [
    ["&lt;", "<"],
    ["&gt;", ">"],
    ["&quot;", '"'],
    ["&#39;", "'"],
    ["&apos;", "'"],
    ["&amp;", "&"],
  ];
  return entities.reduce((all, [entity, sign]) => all.replaceAll(entity, sign), text).replace(/\s+/g, " ");
}

describe.each(captured)("a request that %s sent to its model", (id, request) => {
  it("[A-01] has the skills of the folders that the table lists, and of no others", () => {
    for (const [canary, isRead] of Object.entries(request.folders)) {
      const [, level = "", owner = "", index = ""] =
        /^canary-(user|start|above|root)-([a-z]+)-(\d)$/.exec(canary) ?? [];
      if (level === "") continue; // Plugins and others without a row in the table.
      const readers = findReadingClients(owner as ClientId, level === "user" ? "user" : "project") as string[];
      const folders = getSkillClient(owner as ClientId)[level === "user" ? "user" : "project"];
      expect(folders.length, canary).toBeGreaterThan(Number(index));
      // Gemini CLI reads a project's folders where it starts, and none above.
      const isAbove = id === "gemini" && (level === "above" || level === "root");
      // The additional folder in Cursor's row is its own alone.
      const isCursors = owner === "cursor" && index !== "0" && id !== "cursor";
      expect(isRead, `${id}: ${canary}`).toBe(readers.includes(id) && !isAbove && !isCursors);
    }
    expect(Object.values(request.folders).filter(Boolean).length).toBeGreaterThan(2);
    expect(new Set(Object.keys(request.folders).map((canary) => canary.split("-")[2]))).toEqual(
      new Set([
        ...CLIENT_IDS,
        ...Object.keys(request.folders).flatMap((one) => /^canary-extra-([a-z]+)/.exec(one)?.[1] ?? []),
      ]),
    );
  });

  it("lists exported skills as `skillet export` writes them now", async () => {
    const client = NATIVE_CLIENTS[id] as NativeClient;
    const files = Object.entries(request.exported).map(([name, { description, more }]) => [
      `skills/${name}/SKILL.md`,
      `---\nname: ${name}\ndescription: ${description}\n${more}\n---\n\nRun $SKILL_DIR/x.sh.\n`,
    ]);
    const { catalog } = await discoverIn(Object.fromEntries(files));
    // To its end: a description that lost its last sentence is a prefix of the whole one.
    const lines = request.listing.map((line) => plain(line).replace(/<\/description>$| \(file: [^)]*\)$/, ""));
    for (const name of Object.keys(request.exported)) {
      const skill = catalog.get(name) as Skill;
      const { skillMd, files: more } = await adaptSkill(skill, client);
      const { description, when_to_use: cue } = parseMarkdownDocument(skillMd).data;
      const isHidden =
        !skill.manifest.invocation.byModel &&
        (client.keys.includes("disable-model-invocation") || Object.keys(more).length > 0);
      const text = plain(`${description}${cue ? ` - ${cue}` : ""}`);
      expect(
        lines.some((line) => line.endsWith(text)),
        `${name}: ${text.slice(0, 80)}`,
      ).toBe(!isHidden);
    }
  });

  it("[A-07] has the text that the prompt hook returns now", async () => {
    const { corpusFiles } = await import(join(ROOT, "tools", "clients", "corpus", "skills.mjs"));
    const files = Object.entries<string>(corpusFiles()).map(([path, text]) => [`home/.skillet/skills/${path}`, text]);
    const root = temporaryFolder({ ...Object.fromEntries(files), "work/readme": "", "none/readme": "" });
    const { code, stdout } = await skillet(["hook", id], {
      cwd: join(root, "work"),
      env: { HOME: join(root, "home"), SKILLS_DIR: join(root, "none") },
      stdin: JSON.stringify({ prompt: request.hook.prompt, session_id: "a", cwd: join(root, "work") }),
    });
    expect(code).toBe(0);
    const answer = JSON.parse(stdout);
    const text: string = answer.additionalContext ?? answer.hookSpecificOutput?.additionalContext ?? "";
    expect(text).toContain(request.hook.skill);
    const description = /^- .*$/m.exec(text)?.[0] ?? "";
    expect(plain(request.hook.part)).toContain(plain(description));
  });
});

describe("the captured requests", () => {
  it("are of the five clients that can be tested", () => {
    expect(captured.map(([id]) => id).sort()).toEqual(["claude", "codex", "copilot", "gemini", "opencode"]);
    expect(existsSync(join(ROOT, "tools", "clients", "package.json"))).toBe(true);
    const { dependencies } = JSON.parse(readFileSync(join(ROOT, "tools", "clients", "package.json"), "utf8"));
    expect(Object.values(dependencies).sort()).toEqual(captured.map(([, { version }]) => version).sort());
  });
});
