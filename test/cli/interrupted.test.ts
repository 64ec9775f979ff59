import { execFileSync, spawn } from "node:child_process";
import { appendFileSync, existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { zipOf } from "../support/archives.ts";
import { skillText } from "../support/folder.ts";
import { createHome, type Place } from "../support/home.ts";
import { PROGRAM, SHARED_CODE } from "../support/program.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { startSite } from "../support/skill-site.ts";
import { openTerminal } from "../support/terminal.ts";

const HANGS = "setTimeout(() => {}, 60_000)";

/** Everything here is slow: the providers of capabilities, an MCP server, and the site of a skill. */
async function slow(): Promise<Place> {
  const at = createHome({
    "home/.skillet/skills/own/SKILL.md": skillText("own", { more: "capabilities: [slow.things]\n" }),
  });
  const archive = zipOf([{ name: "added/SKILL.md", data: skillText("added") }]);
  let asked = 0;
  const site = await startSite({ "/skills.zip": (_, response) => void (asked++ === 0 && response.end(archive)) });
  expect((await at.run(["add", `${site.url}/skills.zip`, "--yes"])).code).toBe(0);
  const command = `command = ${JSON.stringify([process.execPath, "-e", HANGS, at.project])}\n`;
  appendFileSync(at.config, `[tools.mcp.slow]\n${command}[capabilities.providers.slow]\n${command}`);
  return at;
}

/** The slow command, and the message at its end. */
const LONG: readonly [args: readonly string[], doing: string][] = [
  [["doctor"], "checking capability providers"],
  [["doctor", "--tools"], "starting MCP servers"],
  [["tools", "slow"], "starting slow"],
  [["capability", "list"], "checking capability providers"],
  [["capability", "check", "slow"], "checking slow"],
  [["outdated"], "fetching the added skills"],
  [["update"], "fetching the added skills"],
  [["add", "--frozen"], "fetching the locked skills"],
];

describe("Ctrl-C", () => {
  it("ends every slow command with 130, and leaves nothing on the screen or elsewhere", async () => {
    const interrupted = async ([args, doing]: (typeof LONG)[number]) => {
      const { home, project, run } = await slow();
      if (args.includes("--frozen")) rmSync(join(home, ".skillet/installed/added"), { recursive: true });
      const before = (await run(["list", "--installed", "--json"])).stdout;
      const shown = openTerminal(args, { home, cwd: project });
      await shown.sees(doing);
      shown.type("\u0003");
      expect(await shown.ended, `${args.join(" ")}: ${shown.written()}`).toBe(130);
      expect(shown.screen(), args.join(" ")).toMatch(/^✗ interrupted(?:: nothing .*)? {2}\[interrupted\]\n$/);
      expect(shown.left(), "the terminal is restored").toMatch(/(?<!-)icanon[\s\S]*(?<!-)echo /);
      const staging = join(home, ".skillet/staging");
      expect(existsSync(staging) ? readdirSync(staging) : [], args.join(" ")).toEqual([]);
      expect((await run(["list", "--installed", "--json"])).stdout).toBe(before);
      const running = () => execFileSync("ps", ["-eo", "args"], { encoding: "utf8" });
      await expect.poll(running, { message: args.join(" ") }).not.toContain(`${HANGS} ${project}`);
    };
    await Promise.all(sampleRows(LONG, 4).map(interrupted));
  });
});

const START = join(import.meta.dirname, "../support/start-skillet.mjs");

const LISTS = [
  ...[["list"], ["list", "--all"], ["list", "--installed"], ["list", "--json"], ["show", "own"], ["check"], ["scan"]],
  ...[["explain", "own"], ["eval"], ["config"], ["runs"], ["stats"], ["signers"], ["doctor"], ["--help"]],
];

describe("a reader that closes the pipe", () => {
  it("ends a listing silently", async () => {
    const { home, project } = createHome({ "home/.skillet/skills/own/SKILL.md": skillText("own") });
    const listed = async (args: readonly string[]) => {
      const env = { HOME: home, PATH: "/usr/bin:/bin", ...SHARED_CODE, SKILLET_TEST_PROGRAM: PROGRAM };
      const child = spawn(process.execPath, [START, ...args], { cwd: project, env });
      child.stdout.destroy();
      let said = "";
      child.stderr.on("data", (bytes) => {
        said += bytes;
      });
      const code = await new Promise((resolve) => child.on("close", resolve));
      expect([code, /EPIPE|✗|\n\s+at /.exec(said)?.[0]], args.join(" ")).toEqual([0, undefined]);
    };
    await Promise.all(sampleRows(LISTS, 6).map(listed));
  });
});
