import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createRunTools, openToolSandbox } from "../support/run-tools.ts";

const isRoot = process.getuid?.() === 0;

describe("the workspace of a run", () => {
  it("is the user's own and writable by default", async () => {
    const { enclosure } = await createRunTools();
    expect(enclosure).toMatchObject({ access: "read-write", folder: "/workspace", notices: [] });
    expect(enclosure.visiblePaths).toEqual({ workspace: "/workspace", skill: "/skill" });
  });

  it("follows the settings", async () => {
    const { enclosure } = await createRunTools({
      config: '[sandbox]\nworkspace = "read"\n[skills.x]\nworkspace = "none"\n',
    });
    expect(enclosure).toMatchObject({ access: "none", folder: "/skill", notices: [] });
    expect((await createRunTools({ config: '[sandbox]\nworkspace = "read"\n' })).enclosure.access).toBe("read");
  });

  it("is available to a host that decides about trust itself, and changes need approval", async () => {
    const { found } = await createRunTools();
    const { trust: _, ...untrusting } = found;
    expect((await openToolSandbox(found, untrusting)).enclosure).toMatchObject({
      access: "read-write",
      needsWriteApproval: true,
    });
  });

  it("is read-only when it cannot be written to, with a warning", async () => {
    const { found } = await createRunTools();
    symlinkSync("/nowhere", join(found.workspace, ".git"));
    const { enclosure, call } = await openToolSandbox(found, found);
    expect(enclosure.access).toBe("read");
    expect(enclosure.notices).toMatchObject([{ code: "workspace-symlink" }]);
    expect(enclosure.notices[0]?.message).toContain("the tools of this run can read it but change nothing");
    expect((await call("bash", { command: "touch x" })).isError).toBe(true);
  });

  it.runIf(isRoot)("is read-only or hidden when only root may use it", async () => {
    const { found } = await createRunTools({ closed: true });
    chmodSync(found.workspace, 0o755);
    const reading = (await openToolSandbox(found, found)).enclosure;
    expect(reading).toMatchObject({ access: "read", notices: [{ code: "workspace-inaccessible" }] });
    chmodSync(found.workspace, 0o700);
    const none = (await openToolSandbox(found, found)).enclosure;
    expect(none).toMatchObject({ access: "none", folder: "/skill", notices: [{ code: "workspace-inaccessible" }] });
    expect(none.notices[0]?.message).toContain("do not see it");
  });

  it("is hidden when it contains the user's home, and refused on request", async () => {
    const { found } = await createRunTools();
    const wide = { ...found, workspace: found.root };
    const { enclosure } = await openToolSandbox(found, wide);
    expect(enclosure).toMatchObject({ access: "none", notices: [{ code: "workspace-too-wide" }] });
    const asked = {
      ...wide,
      settings: { ...found.settings, sandbox: { ...found.settings.sandbox, workspace: "read" as const } },
    };
    await expect(openToolSandbox(found, asked)).rejects.toMatchObject({ code: "workspace-too-wide" });
  });

  it("is checked again for each command: files that the user adds meanwhile are masked and stay", async () => {
    const { call, found } = await createRunTools();
    await call("bash", { command: "true" });
    mkdirSync(join(found.workspace, ".git"));
    writeFileSync(join(found.workspace, ".git/config"), "mine");
    chmodSync(join(found.workspace, ".git"), 0o777);
    chmodSync(join(found.workspace, ".git/config"), 0o666);
    const { text } = await call("bash", { command: "echo evil > .git/config" });
    expect(text).toContain("Read-only");
    expect(text).not.toContain("other programs obey");
    expect(readFileSync(join(found.workspace, ".git/config"), "utf8")).toBe("mine");
  });
});

describe("a command of a run", () => {
  it("reports its isolation", async () => {
    const { enclosure } = await createRunTools();
    expect(enclosure.isolation()).toBeUndefined();
    const { isolation, exitCode, stdout } = await enclosure.run(["sh", "-c", "echo $SKILL_DIR"]);
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: "/skill\n" });
    expect(enclosure.isolation()).toEqual(isolation);
  });

  it("of skillet itself gets none of the skill's variables and no network", async () => {
    const { enclosure } = await createRunTools({
      more: "env: [API_KEY]\n",
      config: '[skills.x]\nAPI_KEY = "s3cret-value"\nnetwork = ["127.0.0.1:9"]\n',
    });
    const plain = await enclosure.run(["env"], { isPlain: true, env: { A: "1" } });
    expect(plain.stdout).toContain("A=1\n");
    expect(plain.stdout).not.toMatch(/API_KEY|PROXY|SKILL_DIR/);
    const { stdout } = await enclosure.run(["env"]);
    expect(stdout).toContain("API_KEY=[API_KEY]");
    expect(stdout).toContain("HTTPS_PROXY=");
  });

  it("[Q-13] is refused for a sensitive skill without a sandbox", async () => {
    const config = '[sandbox]\nlevel = "none"\n';
    await expect(createRunTools({ more: "sensitive: true\n", config })).rejects.toMatchObject({
      code: "isolation-too-weak",
    });
  });

  it("works on real paths when nothing is mounted", async () => {
    const { enclosure, call, found } = await createRunTools({
      config: '[sandbox]\nlevel = "none"\n',
      files: { "a.txt": "held\n" },
    });
    expect(enclosure.folder).toBe(found.workspace);
    expect((await call("read_file", { path: "a.txt" })).text).toContain("\nheld\n");
    expect(await call("read_file", { path: "/etc/passwd" })).toMatchObject({ code: "path-outside" });
    expect((await call("grep", { pattern: "held" })).text).toContain("a.txt:1:held");
    expect(await call("write_file", { path: "b.txt", content: "x" })).toMatchObject({ isError: false });
  });
});
