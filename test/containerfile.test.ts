import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { listCommandNames } from "../src/cli/program.ts";

const root = join(import.meta.dirname, "..");
const read = (path: string) => readFileSync(join(root, path), "utf8");
const manifest = JSON.parse(read("package.json"));

describe("the Containerfile", () => {
  const text = read("Containerfile");
  /** Instructions in order, with continued lines joined. */
  const steps = text
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll(/\\\n\s*/g, "")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => ({ name: line.split(" ")[0], rest: line.slice(line.indexOf(" ") + 1) }));
  const of = (name: string) => steps.filter((step) => step.name === name).map(({ rest }) => rest);

  it("takes its base image from an argument that the operator pins, and names no registry", () => {
    expect(of("ARG")).toEqual(["BASE=node:22-bookworm-slim"]);
    expect(of("FROM")).toEqual(["${BASE}"]);
    expect(text).not.toMatch(/[a-z0-9-]+\.[a-z]{2,}\//);
    expect(manifest.engines.node).toBe(">=22.18");
  });

  it("installs the package that npm packs, and the versions that runs in Postgres are tested with", () => {
    expect(of("COPY")).toEqual(["skillet-*.tgz /tmp/"]);
    expect(manifest.name).toBe("skillet");
    const [install = ""] = of("RUN").filter((line) => line.startsWith("npm install"));
    for (const name of ["pg", "@dbos-inc/dbos-sdk"])
      expect(install).toContain(` ${name}@${manifest.devDependencies[name]}`);
  });

  it("runs commands that exist, as a user that it creates", () => {
    expect(of("ENTRYPOINT")).toEqual(['["skillet"]']);
    expect(Object.keys(manifest.bin)).toEqual(["skillet"]);
    const [command] = JSON.parse(of("CMD")[0] ?? "[]");
    expect(listCommandNames()).toContain(command);
    expect(listCommandNames()).toContain("serve");
    const [user = ""] = of("USER");
    expect(user).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(of("RUN").join("\n")).toContain(`useradd --uid ${user.split(":")[0]} --user-group`);
    expect(steps.findIndex(({ name }) => name === "USER")).toBeGreaterThan(
      steps.findLastIndex(({ name }) => name === "RUN"),
    );
  });

  it("is built and run as docs/operating.md prints", () => {
    const page = read("docs/operating.md");
    const [port] = of("EXPOSE");
    expect(page).toContain(`serve --http 0.0.0.0:${port}`);
    const home = of("ENV")[0]?.split("=")[1];
    expect(page).toContain(`--volume ./home:${home}/.skillet`);
    expect(page).toContain(`below \`${of("WORKDIR")[0]}\``);
    expect(page).toContain(`user ${of("USER")[0]?.split(":")[0]}`);
  });
});
