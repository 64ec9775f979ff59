import { chmodSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { main } from "../../src/cli/main.ts";
import type { CommandIo } from "../../src/cli/output.ts";
import { cachedBase, canBuild, lackedPackages, places } from "../sandbox/packages/place.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

const [lacked = ""] = lackedPackages(1);

type Command = readonly ["packages", "build" | "list" | "prune"];
const [buildSkillPackages, listPackages, prunePackages] = (["build", "list", "prune"] as const).map(
  (name): Command => ["packages", name],
) as [Command, Command, Command];

async function call(
  command: Command,
  cwd: string,
  more: { args?: string[]; env?: Record<string, string> } & Pick<CommandIo, "ask" | "interrupted"> = {},
) {
  const written = { stdout: "", stderr: "" };
  const stream = (name: keyof typeof written) => ({
    write(text: string) {
      written[name] += text;
    },
  });
  const env = { HOME: temporaryFolder(), ...more.env };
  const { ask, interrupted } = more;
  const io: CommandIo = {
    ...{ stdout: stream("stdout"), stderr: stream("stderr"), env, cwd },
    ...(ask && { ask }),
    ...(interrupted && { interrupted }),
  };
  const code = await main([...command, ...(more.args ?? [])], io);
  return { code, ...written };
}

const workspace = (skills: Record<string, string>) =>
  temporaryFolder(
    Object.fromEntries(
      Object.entries(skills).map(([name, packages]) => [
        `skills/${name}/SKILL.md`,
        skillText(name, { more: packages === "" ? "" : `packages: ${packages}\n` }),
      ]),
    ),
  );

function ownPlace(): Record<string, string> {
  const folder = temporaryFolder();
  chmodSync(folder, 0o755);
  return { SKILLET_PACKAGES: join(folder, "packages") };
}

describe("skillet packages", () => {
  it("[S-26] explains what to write when no skill asks for packages", async () => {
    const cwd = workspace({ plain: "" });
    const all = await call(buildSkillPackages, cwd);
    expect(all).toMatchObject({ code: 0, stdout: "", stderr: expect.stringContaining("`packages: [jq]`") });
    const one = await call(buildSkillPackages, cwd, { args: ["plain"] });
    expect(one.stderr).toContain("plain declares no system packages");
    expect((await call(listPackages, cwd, { env: ownPlace() })).code).toBe(0);
  });

  it("names the nearest skill for an unknown one", async () => {
    const cwd = workspace({ deploy: "[jq]" });
    const { code, stderr } = await call(buildSkillPackages, cwd, { args: ["deplay"] });
    expect([code, stderr]).toEqual([1, expect.stringMatching(/deplay.*\n.*"deploy"/)]);
  });

  it("[Q-18] refuses an invalid name with its skill, and keeps the packages of others", async () => {
    const cwd = workspace({ bad: '["jq=1.6"]', good: "[tar]" });
    const { code, stdout, stderr } = await call(buildSkillPackages, cwd, { env: ownPlace() });
    expect(code).toBe(1);
    expect(stderr).toContain("bad: 'jq=1.6' is not a system package name  [package-name]");
    if (canBuild) expect(stdout).toMatch(/✓ tar {2}already installed on this machine.* good/);
  });

  it("checks for an interruption before each command, and starts nothing after one", async () => {
    const cwd = workspace(Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`skill-${index}`, "[tar]"])));
    let asked = 0;
    const interrupted = () => {
      asked++;
      return Promise.resolve();
    };
    const { code, stderr } = await call(buildSkillPackages, cwd, { env: ownPlace(), interrupted });
    expect([code, asked]).toEqual([1, 1]);
    expect(stderr.match(/package-aborted/g), "only of the next command").toHaveLength(1);
  });

  it.skipIf(!canBuild)("[S-26] plans, builds, lists and prunes", { timeout: 180_000 }, async () => {
    await cachedBase();
    const env = { SKILLET_PACKAGES: places().own };
    const cwd = workspace({ one: `[${lacked}]`, two: `[${lacked}, ${lacked}]` });
    const plan = await call(buildSkillPackages, cwd, { env, args: ["--dry-run"] });
    expect(plan.stdout).toMatch(new RegExp(`✓ ${lacked} {2}would fetch .*: .*${lacked} .*one, two`));
    expect((await call(listPackages, cwd, { env })).stdout).not.toContain("one, two");

    const built = await call(buildSkillPackages, cwd, { env, args: ["--json"] });
    expect(built.code).toBe(0);
    expect(built.stderr).toContain(`setting up ${lacked}`);
    expect(JSON.parse(built.stdout)).toMatchObject({
      sets: [{ names: [lacked], skills: ["one", "two"], by: "layer", folder: expect.any(String) }],
      problems: [],
    });
    expect((await call(buildSkillPackages, cwd, { env })).stdout).toMatch(/ready, 0\.\d s/);
    expect((await call(listPackages, cwd, { env })).stdout).toMatch(new RegExp(`${lacked} .* one, two\n`));

    expect((await call(prunePackages, cwd, { env })).stdout).toBe("nothing to remove\n");
    const empty = workspace({});
    const list = `would remove ${lacked}`;
    expect(await call(prunePackages, empty, { env, args: ["--dry-run"] })).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(list),
    });
    const refused = { code: 3, stdout: "", stderr: expect.stringContaining(list) };
    const unasked = await call(prunePackages, empty, { env });
    expect(unasked).toMatchObject(refused);
    expect(unasked.stderr).toContain("remove it: skillet packages prune --yes");
    expect(await call(prunePackages, empty, { env, ask: async () => "n" })).toMatchObject(refused);
    const { code, stdout } = await call(prunePackages, empty, { env, args: ["--json"] });
    expect([code, JSON.parse(stdout)]).toMatchObject([3, { error: { code: "not-confirmed" } }]);
    const planned = await call(prunePackages, empty, { env, args: ["--json", "--dry-run"] });
    const nothingElse = { bases: [], python: 0 };
    expect(JSON.parse(planned.stdout)).toMatchObject({
      isDryRun: true,
      removed: [{ names: [lacked] }],
      ...nothingElse,
    });
    expect((await call(listPackages, cwd, { env })).stdout, "nothing is removed yet").toContain("one, two");
    const pruned = await call(prunePackages, empty, { env, ask: async () => "y" });
    expect(pruned).toMatchObject({ code: 0, stdout: expect.stringContaining(`removed ${lacked}`) });
    expect((await call(prunePackages, empty, { env, args: ["--yes"] })).stdout).toBe("nothing to remove\n");
    expect(JSON.parse((await call(listPackages, cwd, { env, args: ["--json"] })).stdout).layers).not.toContainEqual(
      expect.objectContaining({ names: [lacked], isOwn: true }),
    );
  });
});
