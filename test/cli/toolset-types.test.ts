import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { IS_LONG } from "../support/sample-steps.ts";

const compiler = join(import.meta.dirname, "../../node_modules/.bin/tsc");
const compile = (cwd: string, file: string, ...options: string[]) =>
  spawnSync(compiler, ["--noEmit", "--strict", "--pretty", "false", ...options, file], { cwd, encoding: "utf8" });

describe("the types of a toolset", () => {
  it("are written by `new --toolset`: the template compiles, and its arguments have types", async () => {
    const cwd = temporaryFolder();
    const env = { HOME: temporaryFolder() };
    const { code, stdout } = await skillet(["new", "town", "--toolset"], { cwd, env });
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining("skills/node_modules") });
    const file = "skills/town/toolsets/index.ts";
    expect(compile(cwd, file)).toMatchObject({ status: 0, stdout: "" });
    if (IS_LONG) expect(compile(cwd, file, "--module", "nodenext")).toMatchObject({ status: 0, stdout: "" });
    const text = readFileSync(join(cwd, file), "utf8");
    writeFileSync(join(cwd, file), text.replace("city.trim()", "city.nothing()"));
    expect(compile(cwd, file).stdout).toContain("Property 'nothing' does not exist on type 'string'");
    writeFileSync(join(cwd, file), text);
    expect(
      (await skillet(["call", "town.describe_city", "--input", '{"city":"Rome"}'], { cwd, env })).stdout,
    ).toContain("Rome is a city.");
    // They are not skills, and git ignores them.
    expect((await skillet(["list", "--all", "--json"], { cwd, env })).stdout).not.toContain("node_modules");
    expect(readFileSync(join(cwd, "skills/node_modules/.gitignore"), "utf8")).toBe("*\n");
  });

  it("are written next to existing skills, and an installed package stays", async () => {
    const zod = { "skills/node_modules/zod/package.json": '{ "name": "zod" }' };
    const cwd = temporaryFolder({ "skills/a/SKILL.md": skillText("a"), ...zod });
    const written = JSON.parse((await skillet(["types", "skills/a", "--json"], { cwd })).stdout);
    expect(written).toMatchObject({ folder: join(cwd, "skills/node_modules"), kept: ["zod"] });
    expect(written.written).toEqual(["@agent/tools", "skillet"]);
    expect(readFileSync(join(cwd, "skills/node_modules/zod/package.json"), "utf8")).toBe('{ "name": "zod" }');
    // A second time they are those of this version.
    expect(JSON.parse((await skillet(["types", "--json"], { cwd })).stdout)).toEqual(written);
  });

  it("are not written through a symlink, nor without a folder", async () => {
    const cwd = temporaryFolder();
    mkdirSync(join(cwd, "skills"));
    mkdirSync(join(cwd, "elsewhere"));
    symlinkSync(join(cwd, "elsewhere"), join(cwd, "skills/node_modules"));
    expect(await skillet(["types"], { cwd })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("cannot be written"),
    });
    expect(await skillet(["types", "none"], { cwd })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("none is not a folder"),
    });
  });
});

describe("skillet setup", () => {
  it("installs in the folder's project, with its own package manager", async () => {
    const cwd = temporaryFolder({ "package.json": "{}", "pnpm-lock.yaml": "", "packages/app/package.json": "{}" });
    const plan = async (folder: string) =>
      JSON.parse((await skillet(["setup", "anthropic", "--dry-run", "--json"], { cwd: join(cwd, folder) })).stdout);
    const packages = ["ai@^7.0.0", "@ai-sdk/anthropic@^4.0.0"];
    expect(await plan("packages/app")).toEqual({
      folder: join(cwd, "packages/app"),
      command: ["pnpm", "add", ...packages],
      isDryRun: true,
    });
    mkdirSync(join(cwd, "src"));
    expect(await plan("src")).toMatchObject({ folder: cwd });
  });

  it("reports a package manager that cannot start, with the command", async () => {
    const cwd = temporaryFolder({ "package.json": "{}", "bun.lock": "" });
    expect(await skillet(["setup", "mcp"], { cwd, env: { PATH: cwd } })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/bun could not be started.*bun add @modelcontextprotocol\/client@\^2\.4\.0/s),
    });
  });
});
