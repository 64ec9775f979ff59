import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { beforeAll, describe, expect, it } from "vitest";
import { ORDINARY_USER } from "../support/ordinary-user.ts";
import { installPacked } from "../support/packed.ts";
import { openTerminal } from "../support/terminal.ts";

const isRoot = process.getuid?.() === 0;
const id = String(ORDINARY_USER);
const ORDINARY = isRoot ? ["setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--"] : [];
/** Text of a file, and paths, which a terminal folds unchanged. */
const ITS_OWN = /^ +[+-]|\/tmp\//;
const SECRET = "k3y-of-the-weather";
const DONE = `---
name: weather
description: Tells the weather of a city. Use when somebody asks whether it rains, or what to wear.
env: [WEATHER_KEY]
---

# Weather

Run: \`echo "asked with $WEATHER_KEY"\`
`;

/** A new user's first ten minutes, at a terminal of 80 columns, with the published package and a new home. */
describe("a new user", () => {
  let bin = "";
  let place = { home: "", cwd: "" };
  const screens: string[] = [];

  beforeAll(() => {
    const packed = installPacked();
    bin = packed.bin;
    place = { home: join(packed.folder, "home"), cwd: join(packed.folder, "project") };
    chmodSync(packed.folder, 0o755);
    for (const folder of [place.home, place.cwd]) {
      mkdirSync(folder);
      if (isRoot) chownSync(folder, ORDINARY_USER, ORDINARY_USER);
    }
    return packed.remove;
  }, 120_000);

  /** Types a command and the answers to its questions. Returns the final screen. */
  async function types(line: string, { answers = [], code = 0 }: { answers?: [string, string][]; code?: number } = {}) {
    const at = openTerminal([line], { ...place, bin, with: ORDINARY });
    for (const [question, answer] of answers) {
      await at.sees(question);
      at.type(`${answer}\n`);
    }
    const ended = await at.ended;
    const screen = at.screen().trimEnd();
    screens.push(`$ skillet ${line}\n${screen}\n[${ended}]`);
    expect(ended, screen).toBe(code);
    for (const row of screen.split("\n").filter((row) => !ITS_OWN.test(row))) {
      expect(row.length, row).toBeLessThanOrEqual(80);
    }
    expect(at.written()).not.toContain(SECRET);
    return screen;
  }

  it("lists the skills", async () => {
    expect(await types("")).toContain("host-report");
    expect(await types("list")).toContain("summarize");
    expect(await types("--help")).toContain("Usage: skillet");
  });

  it("creates a skill, and reads what is wrong with it", async () => {
    await types("new weather --description 'Tells the weather of a city. Use when asked whether it rains.'");
    const file = join(place.cwd, "skills/weather/SKILL.md");
    expect(readFileSync(file, "utf8")).toContain("name: weather");
    await types("check skills/weather");
    writeFileSync(file, DONE.replace("description: Tells", "descripton: Tells"));
    expect(await types("check skills/weather", { code: 1 })).toContain("description");
    writeFileSync(file, DONE);
    await types("check skills/weather --profile agentskills", { code: 1 });
    await types("check skills/weather");
  });

  it("sees the prompt for a model", async () => {
    expect(await types("explain 'does it rain in Ghent?'")).toContain("weather");
    expect(await types("chat 'List available skills'")).toContain("weather");
  });

  it("reads which key is missing, sets it, and uses the skill", async () => {
    const refused = await types("run weather Ghent", { code: 3 });
    expect(refused).toContain("skillet config set skills.weather.WEATHER_KEY");
    await types("config set skills.weather.WEATHER_KEY", { answers: [["WEATHER_KEY", SECRET]] });
    const asked = await types("run weather Ghent", { answers: [["[y/N]", "y"]] });
    expect(asked).toContain("asked with [WEATHER_KEY]");
    await types("run host-report");
    await types("runs");
    await types("stats");
  });

  it("connects an MCP client", async () => {
    const { snippet } = JSON.parse(await types("mcp-config --for claude --json"));
    const { command, args } = snippet.mcpServers.skillet;
    const client = new Client({ name: "journey", version: "1.0.0" });
    const env = { HOME: place.home, PATH: "/usr/bin:/bin" };
    const [program = "", ...rest] = [...ORDINARY, command, ...args];
    await client.connect(new StdioClientTransport({ command: program, args: rest, env, cwd: place.cwd }));
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain("load_skill");
    const loaded = await client.callTool({ name: "load_skill", arguments: { skill: "host-report" } });
    expect(JSON.stringify(loaded.content)).toContain("report.sh");
    await client.close();
  });

  it("copies a skill to where Claude finds it, and removes it again", async () => {
    await types("export weather --to claude --dry-run");
    await types("export weather --to claude");
    const copy = join(place.home, ".claude/skills/weather/SKILL.md");
    expect(readFileSync(copy, "utf8")).toContain("# Weather");
    await types("export --remove weather");
    expect(existsSync(copy)).toBe(false);
    await types("doctor");
  });

  it("reads screens that name the next step", () => {
    const file = process.env["SKILLET_SCREENS"];
    if (file) writeFileSync(file, `${screens.join("\n\n")}\n`);
    expect(screens.length).toBeGreaterThan(20);
  });
});
