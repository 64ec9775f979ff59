import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { NATIVE_CLIENTS } from "../../../src/remote/clients/native-clients.ts";
import { UNSUPPORTED_KEYS } from "../../../src/skill/manifest-fields.ts";
import { MAX_NAME_LENGTH, STANDARD_NAME } from "../../../src/skill/skill.ts";
import type { ClientEnvironment } from "../../../src/skill/source/locations.ts";

const PLACE: ClientEnvironment = { home: "/home/ada", workspace: "/srv/app", env: {} };
const folders = (env: ClientEnvironment["env"] = {}) =>
  Object.fromEntries(
    Object.entries(NATIVE_CLIENTS).map(([name, client]) => [
      name,
      [client.user({ ...PLACE, env }), client.project({ ...PLACE, env })],
    ]),
  );

describe("the table of native clients", () => {
  it("knows the skill folders of each client", () => {
    expect(folders()).toEqual({
      claude: ["/home/ada/.claude/skills", "/srv/app/.claude/skills"],
      codex: ["/home/ada/.codex/skills", "/srv/app/.codex/skills"],
      gemini: ["/home/ada/.gemini/skills", "/srv/app/.gemini/skills"],
      opencode: ["/home/ada/.config/opencode/skills", "/srv/app/.opencode/skills"],
      copilot: ["/home/ada/.copilot/skills", "/srv/app/.github/skills"],
      vscode: ["/home/ada/.copilot/skills", "/srv/app/.github/skills"],
      cursor: ["/home/ada/.cursor/skills", "/srv/app/.cursor/skills"],
      agents: ["/home/ada/.agents/skills", "/srv/app/.agents/skills"],
    });
  });

  it.each([
    ["CLAUDE_CONFIG_DIR", "claude", "/elsewhere/skills"],
    ["CODEX_HOME", "codex", "/elsewhere/skills"],
    ["GEMINI_CLI_HOME", "gemini", "/elsewhere/.gemini/skills"],
    ["XDG_CONFIG_HOME", "opencode", "/elsewhere/opencode/skills"],
  ])("follows %s, as the client does, for the user's own folder alone", (variable, name, folder) => {
    const moved = folders({ [variable]: "/elsewhere" });
    expect(moved).toEqual({ ...folders(), [name]: [folder, folders()[name]?.[1]] });
    expect(folders({ [variable]: "" }), "an empty one has no text").toEqual(folders());
  });

  it("has an absolute path even for an empty variable", () => {
    const [user] = folders({ CODEX_HOME: "config" })["codex"] ?? [];
    expect(user).toBe(join("/srv/app", "config", "skills"));
  });

  it("matches the documentation", () => {
    const page = readFileSync(join(import.meta.dirname, "../../../docs/export.md"), "utf8");
    for (const [name, { keys }] of Object.entries(NATIVE_CLIENTS)) {
      const [user = "", project = ""] = folders()[name] ?? [];
      const row = page.split("\n").find((line) => line.startsWith(`| \`${name}\` |`)) ?? "";
      const cells = row.split("|").map((cell) => cell.trim());
      expect(cells.slice(3, 5)).toEqual([
        `\`~/${relative(PLACE.home, user)}\``,
        `\`${relative(PLACE.workspace, project)}\``,
      ]);
      expect(cells[6]).toBe(keys.map((key) => `\`${key}\``).join(", "));
    }
  });

  it("knows the folders of other clients that a client reads, as documented", () => {
    const readers = (folder: string, level: "user" | "project") => {
      const base = level === "user" ? PLACE.home : PLACE.workspace;
      return Object.entries(NATIVE_CLIENTS).flatMap(([id, { reads, title, [level]: own }]) =>
        id !== "agents" && own(PLACE) !== join(base, folder) && reads(level, PLACE).includes(join(base, folder))
          ? [title]
          : [],
      );
    };
    const agents = ["Codex", "Gemini CLI", "OpenCode", "GitHub Copilot CLI", "VS Code", "Cursor"];
    expect(readers(".agents/skills", "user")).toEqual(agents);
    expect(readers(".agents/skills", "project")).toEqual(agents);
    expect(readers(".claude/skills", "user")).toEqual(["OpenCode", "VS Code", "Cursor"]);
    expect(readers(".claude/skills", "project")).toEqual(["OpenCode", "GitHub Copilot CLI", "VS Code", "Cursor"]);
    for (const folder of [".codex/skills", ".grok/skills"]) expect(readers(folder, "user")).toEqual(["Cursor"]);
    const page = readFileSync(join(import.meta.dirname, "../../../docs/export.md"), "utf8");
    for (const [folder, level] of [
      [".agents/skills", "user"],
      [".claude/skills", "user"],
      [".claude/skills", "project"],
    ] as const)
      expect(page).toContain(
        `${readers(folder, level)
          .join(", ")
          .replace(/, (?=[^,]*$)/, " and ")}`,
      );
  });

  it("describes for every key of a client what is lost in others", () => {
    const keys = Object.values(NATIVE_CLIENTS).flatMap((client) => client.keys);
    expect(new Set(Object.keys(UNSUPPORTED_KEYS))).toEqual(new Set(keys.filter((key) => key !== "when_to_use")));
  });

  it("names only possible skills, and the next step", () => {
    for (const [name, { reserved, builtInNames: comesWith = [], nextStep: next, title }] of Object.entries(
      NATIVE_CLIENTS,
    )) {
      const names = [...reserved, ...comesWith];
      expect(names.filter((one) => !STANDARD_NAME.test(one) || one.length > MAX_NAME_LENGTH)).toEqual([]);
      expect(new Set(names).size, `${name} names one twice`).toBe(names.length);
      expect(next).toMatch(/\w/);
      expect(title, "one of them, whose text has sentences").not.toMatch(/^$|^clients/);
    }
  });
});
