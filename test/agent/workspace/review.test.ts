import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runScript } from "../../../src/agent/run/run-script.ts";
import { readHeldChanges } from "../../../src/agent/workspace/held-changes.ts";
import type { Approval, ApprovalRequest } from "../../../src/host/approval.ts";
import { skillet } from "../../support/command.ts";
import { discoverIn, type Scene } from "../../support/discover.ts";
import { skillText } from "../../support/folder.ts";
import { PROGRAM } from "../../support/program.ts";
import { answerApprovals, eventsOf, useScene } from "../../support/use.ts";
import { waitFor } from "../../support/wait-for.ts";

const START = join(import.meta.dirname, "../../support/start-skillet.mjs");
const CONFIG = '[sandbox]\nworkspace = "read-write"\n';

/** One of the user's own skills, whose script runs in a workspace that it can write to. */
async function scene(script: string, files: Record<string, string> = {}): Promise<Scene> {
  const found = await discoverIn({
    "home/.skillet/skills/x/SKILL.md": skillText("x"),
    "home/.skillet/skills/x/scripts/go.sh": `cd /workspace\n${script}\n`,
    "home/.skillet/config.toml": CONFIG,
    "README.md": "",
    ...files,
  });
  chmodSync(found.root, 0o755);
  chmodSync(found.workspace, 0o777);
  for (const path of Object.keys(files)) chmodSync(join(found.workspace, path), 0o666);
  return found;
}

const run = (found: Scene, approve?: (effect: ApprovalRequest) => Promise<Approval | undefined>) =>
  runScript({ ...found, ...(approve ? { approve } : {}) }, { skill: found.skill("x"), script: "go.sh" });
const textIn = (found: Scene, path: string) => readFileSync(join(found.workspace, path), "utf8");
const commandIn = (found: Scene) => ({ cwd: found.workspace, env: { HOME: join(found.root, "home") } });
const heldIn = (found: Scene) =>
  readdirSync(join(found.root, "home/.skillet/held")).filter((name) => name.startsWith("held-"));

const EDIT = "echo two > CLAUDE.md; echo new > .envrc; echo fine > fine";

describe("changes of sensitive paths", () => {
  it("[Q-27] are applied when the host approves them, with the complete diff", async () => {
    const found = await scene(EDIT, { "CLAUDE.md": "one\n" });
    const { asked, approve } = answerApprovals({ isApproved: true });
    const result = await run(found, approve);
    expect(result).toMatchObject({ isError: false, warnings: [] });
    expect([textIn(found, "CLAUDE.md"), textIn(found, ".envrc"), textIn(found, "fine")]).toEqual([
      "two\n",
      "new\n",
      "fine\n",
    ]);
    expect(asked).toMatchObject([{ skill: "x", tool: "workspace", on: "workspace", isOnce: true, amount: "2 paths" }]);
    expect(asked[0]?.input).toEqual({
      "CLAUDE.md (changed)": "@@ -1,1 +1,1 @@\n-one\n+two",
      ".envrc (added)": "@@ -0,0 +1,1 @@\n+new",
    });
    expect(heldIn(found)).toEqual([]);
  });

  it("[Q-27] are held when the host does not approve them, or cannot be asked", async () => {
    for (const answer of [{ isApproved: false }, undefined]) {
      const found = await scene(EDIT, { "CLAUDE.md": "one\n" });
      const result = await run(found, async () => answer);
      expect(result).toMatchObject({ isError: true, warnings: [{ code: "workspace-protected" }] });
      expect(result.warnings[0]?.message).toContain("CLAUDE.md (changed), .envrc (added)");
      expect(result.warnings[0]?.data?.["diff"]).toContain("-one\n+two");
      expect([textIn(found, "CLAUDE.md"), textIn(found, "fine")]).toEqual(["one\n", "fine\n"]);
      expect(existsSync(join(found.workspace, ".envrc"))).toBe(false);
    }
  });

  it("[Q-27] need approval each time: neither an earlier approval nor --yes covers them", async () => {
    const write = (path: string) => () => [{ tool: "write_file", input: { path, content: "x\n" } }];
    const turns = [write("a.txt"), write("CLAUDE.md"), write("AGENTS.md"), () => "Done."];
    const { use, found } = await useScene({ skills: { x: {} }, turns });
    const { asked, approve } = answerApprovals(
      { isApproved: true, scope: "always" },
      { isApproved: true, scope: "always" },
    );
    const { result, events } = await use({ skill: "x", message: "go" }, { approve });
    expect(asked.map(({ tool }) => tool)).toEqual(["write_file", "workspace", "workspace"]);
    expect(["a.txt", "CLAUDE.md", "AGENTS.md"].filter((path) => existsSync(join(found.workspace, path)))).toEqual([
      "a.txt",
      "CLAUDE.md",
    ]);
    expect(eventsOf(events, "approval-requested")).toHaveLength(3);
    expect(result).toMatchObject({ isError: true, warnings: [{ code: "workspace-protected" }] });
  });

  it("[Q-27] do not reveal their content to the model", async () => {
    const turns = [
      () => [{ tool: "write_file", input: { path: "CLAUDE.md", content: "SECRET-ORDER\n" } }],
      () => "Done.",
    ];
    const { use, server } = await useScene({ skills: { x: {} }, turns, config: CONFIG });
    await use({ skill: "x", message: "go" });
    const [, second] = server.requests;
    const told = JSON.stringify(second);
    expect(told).toContain("CLAUDE.md (added)");
    expect(told).not.toContain("SECRET-ORDER");
  });

  it("[Q-27] of a runbook are held too", async () => {
    const found = await discoverIn({
      "home/.skillet/skills/x/SKILL.md": skillText("x", { body: "```sh\necho evil > .envrc\n```" }),
      "home/.skillet/config.toml": `[models.default]\nprovider = "runbook"\n${CONFIG}`,
      "README.md": "",
    });
    chmodSync(found.root, 0o755);
    chmodSync(found.workspace, 0o777);
    const { stdout } = await skillet(["run", "x", "go", "--yes", "--json"], commandIn(found));
    expect(JSON.parse(stdout).warnings).toMatchObject([
      { code: "workspace-protected", data: { diff: expect.stringContaining("+evil") } },
    ]);
    expect(existsSync(join(found.workspace, ".envrc"))).toBe(false);
  });

  it("[Q-27] are shown for approval at a terminal, with their diff", async () => {
    const found = await scene(EDIT, { "CLAUDE.md": "one\n" });
    const env = { ...commandIn(found).env, NO_COLOR: "1" };
    const at = { cwd: found.workspace, env, isTTY: true, ask: async () => "y" };
    const ran = await skillet(["script", "x", "go.sh"], at);
    expect(ran.stderr).toContain("workspace wants to change files in the workspace");
    expect(ran.stderr).toMatch(/-one\n.*\+two/);
    expect(ran.code).toBe(0);
    expect(textIn(found, "CLAUDE.md")).toBe("two\n");
  });
});

describe("held changes", () => {
  it("[Q-27] are listed, shown and applied by approve", async () => {
    const found = await scene(EDIT, { "CLAUDE.md": "one\n" });
    const ran = await skillet(["script", "x", "go.sh"], commandIn(found));
    const [id = ""] = heldIn(found);
    expect(ran.code).toBe(1);
    expect(ran.stderr).toContain(`skillet approve ${id}`);
    expect((await skillet(["approve"], commandIn(found))).stdout).toContain(id);
    const unasked = await skillet(["approve", id], commandIn(found));
    expect(unasked.code).toBe(3);
    expect(unasked.stderr).toContain("-one");
    expect(textIn(found, "CLAUDE.md")).toBe("one\n");
    const applied = await skillet(["approve", id, "--yes"], commandIn(found));
    expect(applied).toMatchObject({ code: 0 });
    expect([textIn(found, "CLAUDE.md"), textIn(found, ".envrc")]).toEqual(["two\n", "new\n"]);
    expect(heldIn(found)).toEqual([]);
  });

  it("[Q-27, Q-28] of a new repository show what git obeys first, and count objects with a digest and a list of them", async () => {
    const make = [
      "git init -q .; git config core.fsmonitor ./evil; echo evil > .git/hooks/pre-commit",
      "mkdir -p .git/info; echo '* filter=evil' > .git/info/attributes",
      "git add README.md; git -c user.name=a -c user.email=a@example.com commit -q --no-verify -m one",
    ];
    const found = await scene(make.join("\n"));
    await skillet(["script", "x", "go.sh"], commandIn(found));
    const [id = ""] = heldIn(found);
    const shown = await skillet(["approve", id, "--details", "--json"], commandIn(found));
    const [{ path, diff, details }] = JSON.parse(shown.stdout).held.changes;
    expect(path).toBe(".git");
    const files = diff.split("\n").filter((line: string) => !/^[-+@ ]/.test(line));
    expect(files.slice(0, 4)).toEqual(["HEAD", "config", "hooks/pre-commit", "info/attributes"]);
    expect(diff).toMatch(/\+ref: refs\/heads\/[\s\S]*\+\s*fsmonitor = .\/evil[\s\S]*\+evil[\s\S]*\+\* filter=evil/);
    expect(diff).not.toContain("objects/");
    const digest = createHash("sha256").update(details).digest("hex");
    const count = details.split("\n").length;
    expect(diff).toContain(`@@ and ${count} files of objects, refs, logs and samples, sha256 ${digest} @@`);
    expect(diff).toContain(`skillet approve ${id} --details`);
    expect(details).toMatch(/^objects\/[0-9a-f]{2}\/[0-9a-f]{38} {2}[\d,]+ bytes {2}sha256 [0-9a-f]{64}$/m);
    expect(details).toMatch(/^refs\/heads\//m);
    const text = await skillet(["approve", id, "--details"], commandIn(found));
    for (const line of details.split("\n")) expect(text.stdout).toContain(line);
    expect(heldIn(found)).toEqual([id]);
  });

  it("[Q-27, Q-28] are applied only as they were shown: later writes to them are refused", async () => {
    const found = await scene(EDIT, { "CLAUDE.md": "one\n" });
    await skillet(["script", "x", "go.sh"], commandIn(found));
    const [id = ""] = heldIn(found);
    const stored = join(found.root, "home/.skillet/held", id);
    const names = readdirSync(stored).filter((name) => /^\d+$/.test(name));
    // Like a process of another run that has the file open.
    for (const name of names) writeFileSync(join(stored, name), "evil\n");
    const applied = await skillet(["approve", id, "--yes"], commandIn(found));
    expect(applied).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("it was changed after it was held"),
    });
    expect(textIn(found, "CLAUDE.md")).toBe("one\n");
    expect(existsSync(join(found.workspace, ".envrc"))).toBe(false);
  });

  it("[Q-27] are not applied over later changes, and can be removed", async () => {
    const found = await scene(EDIT, { "CLAUDE.md": "one\n" });
    await run(found);
    const [id = ""] = heldIn(found);
    writeFileSync(join(found.workspace, "CLAUDE.md"), "mine\n");
    const { code, stderr } = await skillet(["approve", id, "--yes"], commandIn(found));
    expect([code, stderr]).toEqual([expect.any(Number), expect.stringContaining("CLAUDE.md has changed")]);
    expect([textIn(found, "CLAUDE.md"), existsSync(join(found.workspace, ".envrc"))]).toEqual(["mine\n", false]);
    expect(await skillet(["approve", id, "--deny"], commandIn(found))).toMatchObject({ code: 0 });
    expect(heldIn(found)).toEqual([]);
  });

  it("[Q-27] apply a removal and a folder", async () => {
    const found = await scene("rm AGENTS.md; mkdir -p .github/workflows; echo on > .github/workflows/a.yml", {
      "AGENTS.md": "one\n",
    });
    await run(found);
    expect(textIn(found, "AGENTS.md")).toBe("one\n");
    const [id = ""] = heldIn(found);
    expect(await skillet(["approve", id, "--yes"], commandIn(found))).toMatchObject({ code: 0 });
    expect(existsSync(join(found.workspace, "AGENTS.md"))).toBe(false);
    expect(textIn(found, ".github/workflows/a.yml")).toBe("on\n");
  });
});

describe("a run whose process was killed", () => {
  it("[Q-27] is compared by the next one; later files of the user stay", async () => {
    const found = await scene("echo evil > CLAUDE.md; echo evil > .envrc; touch ready; sleep 60", {
      "CLAUDE.md": "one\n",
    });
    const { HOME } = commandIn(found).env;
    const child = spawn(process.execPath, [START, "script", "x", "go.sh"], {
      cwd: found.workspace,
      env: { HOME, PATH: "/usr/bin:/bin", SKILLET_TEST_PROGRAM: PROGRAM },
      stdio: "ignore",
    });
    await waitFor(() => existsSync(join(found.workspace, "ready")));
    const ended = new Promise((resolve) => child.on("close", resolve));
    child.kill("SIGKILL");
    await ended;
    expect(textIn(found, "CLAUDE.md")).toBe("evil\n");
    // As if the killed command had ended before the user's own change.
    const [running = ""] = readdirSync(join(HOME, ".skillet/held/running"));
    const file = join(HOME, ".skillet/held/running", running, "snapshot.json");
    const snapshot = JSON.parse(readFileSync(file, "utf8"));
    const until = Math.max(...[".envrc", "CLAUDE.md"].map((path) => statSync(join(found.workspace, path)).ctimeMs));
    writeFileSync(file, JSON.stringify({ ...snapshot, until }));
    mkdirSync(join(found.workspace, "later"));
    await waitFor(() => {
      writeFileSync(join(found.workspace, "later/AGENTS.md"), "mine\n");
      return statSync(join(found.workspace, "later/AGENTS.md")).ctimeMs > until + 20;
    });
    writeFileSync(join(HOME, ".skillet/skills/x/scripts/go.sh"), "true\n");
    const result = await run(await found.again());
    expect(result.warnings).toMatchObject([{ code: "workspace-protected" }]);
    expect(result.warnings[0]?.message).toContain("A killed run changed");
    expect(textIn(found, "CLAUDE.md")).toBe("one\n");
    expect(existsSync(join(found.workspace, ".envrc"))).toBe(false);
    expect(textIn(found, "later/AGENTS.md")).toBe("mine\n");
    expect(await run(await found.again())).toMatchObject({ isError: false, warnings: [] });
  });
});

describe("two concurrent commands in a workspace", () => {
  const waits = (name: string) => `touch ${name}-runs; while [ ! -e ${name}-stops ]; do sleep 0.02; done`;
  const EVIL = "echo evil > CLAUDE.md; echo evil > .envrc; mkdir -p .vscode; echo evil > .vscode/tasks.json";

  async function both() {
    const found = await scene("", { "CLAUDE.md": "one\n" });
    const scripts = join(found.root, "home/.skillet/skills/x/scripts");
    writeFileSync(join(scripts, "evil.sh"), `cd /workspace\n${EVIL}\n${waits("evil")}\n`);
    writeFileSync(join(scripts, "plain.sh"), `cd /workspace\n${waits("plain")}\n`);
    const again = await found.again();
    const start = async (name: string) => {
      const ended = runScript(again, { skill: again.skill("x"), script: `${name}.sh` });
      await waitFor(() => existsSync(join(found.workspace, `${name}-runs`)));
      return async () => {
        writeFileSync(join(found.workspace, `${name}-stops`), "");
        return ended;
      };
    };
    return { found, start };
  }

  it.each([
    ["first", ["evil", "plain"]],
    ["last", ["plain", "evil"]],
  ])("[Q-27] leave no unapproved change when the one that made it ends %s", async (_, order) => {
    const { found, start } = await both();
    const ends = new Map([
      ["evil", await start("evil")],
      ["plain", await start("plain")],
    ]);
    for (const name of order) await ends.get(name)?.();
    expect(textIn(found, "CLAUDE.md")).toBe("one\n");
    for (const path of [".envrc", ".vscode/tasks.json"]) expect(existsSync(join(found.workspace, path))).toBe(false);
    // Nothing is lost: held changes can be approved.
    const [held, ...more] = heldIn(found).map((id) => readHeldChanges(join(found.root, "home/.skillet"), id));
    expect(held?.changes.map(({ path, change }) => `${path} ${change}`)).toEqual(
      expect.arrayContaining(["CLAUDE.md changed", ".envrc added"]),
    );
    expect(held?.changes.find(({ path }) => path === "CLAUDE.md")?.diff).toContain("-one\n+evil");
    expect(more).toEqual([]);
  });
});
