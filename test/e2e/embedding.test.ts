import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { PEER_GROUPS, PEER_RANGES } from "../../src/util/peer-packages.ts";
import { createProject, type EmbeddingProject, PRINTED } from "../embed/project.ts";

const root = join(import.meta.dirname, "..", "..");
const BLOCK = 4096;
const bin = (name: string) => join(root, "node_modules", ".bin", name);

/** One bundler and one compiler: `npm run test:long` has the others. */
describe("a program that embeds the packed package", () => {
  let project: EmbeddingProject;
  beforeAll(() => {
    project = createProject();
    return project.remove;
  }, 120_000);

  it("installs no other package, in less than 15 MB", () => {
    const installed = join(project.folder, "node_modules");
    expect(readdirSync(installed).filter((name) => !name.startsWith("."))).toEqual(["skillet"]);
    // In blocks, as a disk stores files. `du` also counts folders, whose size depends on the file system.
    const files = readdirSync(installed, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const blocks = files.map(({ parentPath, name }) => Math.ceil(statSync(join(parentPath, name)).size / BLOCK));
    expect(blocks.reduce((sum, count) => sum + count, 0) * BLOCK).toBeLessThan(15 * 1024 * 1024);
    const { scripts, dependencies } = JSON.parse(readFileSync(join(installed, "skillet/package.json"), "utf8"));
    expect(dependencies).toBeUndefined();
    // npm warns about those of a package that is installed from a file or a repository.
    for (const name of ["preinstall", "install", "postinstall", "prepare"]) expect(scripts).not.toHaveProperty(name);
  });

  it("finds, discloses, uses and loads skills from the package", () => {
    const { folder, run } = project;
    const printed = JSON.parse(run(process.execPath, "app.mjs", join(folder, "home"), join(folder, "workspace")));
    expect(printed).toMatchObject({ ...PRINTED, names: expect.arrayContaining(["rates", "skillmaker"]) });
  });

  it("does the same in one file that esbuild wrote, without the package", () => {
    project.run(bin("esbuild"), "app.mjs", "--bundle", "--platform=node", "--format=esm", "--outfile=out/app.mjs");
    expect(project.runBundled("out", "app.mjs")).toEqual({ ...PRINTED, names: ["rates"] });
  });

  it("type-checks without skipLibCheck, with no other package", () => {
    const options = ["--noEmit", "--strict", "--target", "es2022", "--module", "node16", "--types", "node"];
    const types = ["--typeRoots", join(root, "node_modules/@types")];
    project.run(bin("tsc"), ...options, ...types, "types.mts");
  });

  it("gets instructions to install an optional package that it lacks", () => {
    const script = `import { discover, useSkill } from "skillet";
      const home = ${JSON.stringify(join(project.folder, "home"))};
      const env = { HOME: home, ANTHROPIC_API_KEY: "sk-none" };
      const found = await discover({ home, workspace: ".", env });
      const { refusals, content } = await useSkill(found.catalog, { ...found, env }, { skill: "rates", message: "hi" });
      console.log(JSON.stringify({ refusals, content }));`;
    const printed = JSON.parse(project.run(process.execPath, "--input-type=module", "-e", script));
    expect(JSON.stringify(printed)).toContain("npm install ai@^7.0.0");
    expect(JSON.stringify(printed)).toContain("optional-package-missing");
  });
});

it("names the versions of optional packages as package.json does", () => {
  const { peerDependencies, peerDependenciesMeta } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const { "@anthropic-ai/claude-agent-sdk": _, ...others } = peerDependencies;
  expect(others).toEqual(PEER_RANGES);
  for (const name of Object.keys(peerDependencies)) expect(peerDependenciesMeta[name]).toEqual({ optional: true });
  expect(new Set(Object.values(PEER_GROUPS).flat())).toEqual(new Set(Object.keys(PEER_RANGES)));
});

it("has the types of all exports, and no others", () => {
  const types = join(root, "dist/types");
  const files = readdirSync(types, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".d.ts"));
  const missing = files.flatMap((path) =>
    [...readFileSync(join(types, path), "utf8").matchAll(/from "(\.[^"]+)\.[jt]s"/g)]
      .map(([, to = ""]) => join(types, dirname(path), `${to}.d.ts`))
      .filter((to) => !existsSync(to)),
  );
  expect(missing).toEqual([]);
  expect(files.some((path) => path.startsWith("cli/"))).toBe(false);
});
