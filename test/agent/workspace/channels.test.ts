import { chmodSync, chownSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { runScript } from "../../../src/agent/run/run-script.ts";
import { walkWorkspace } from "../../../src/agent/workspace/walk-workspace.ts";
import { createFolderRights } from "../../../src/agent/workspace/workspace-files.ts";
import { discoverIn } from "../../support/discover.ts";
import { skillText } from "../../support/folder.ts";
import { waitFor } from "../../support/wait-for.ts";
import { type ChannelsCame, SOCKETS, tryChannelsAs } from "./channels.ts";

const isRoot = process.getuid?.() === 0;

describe.each([
  ["root", false],
  ["an ordinary user", true],
])("sockets and named pipes of a workspace, for %s", (user, isOrdinary) => {
  let came: ChannelsCame | undefined;
  beforeAll(async () => {
    came = isRoot || isOrdinary ? await tryChannelsAs({ isOrdinary }) : undefined;
  }, 60_000);

  it.runIf(isRoot || isOrdinary)(`[Q-14] are masked, however the workspace is mounted (${user})`, () => {
    for (const got of [came?.read, came?.written]) {
      expect(SOCKETS.map((path) => got?.[path])).toEqual(SOCKETS.map(() => "ECONNREFUSED"));
      expect(got?.["pipe"]).toBe("EACCES");
    }
    expect(came?.connections.ungranted).toBe(0);
  });

  it.runIf(isRoot || isOrdinary)(`[Q-14] are reachable when they are granted, and no others (${user})`, () => {
    const answers = SOCKETS.map((path) => came?.granted[path]);
    expect(answers).toEqual(["answer of the host", "ECONNREFUSED", "ECONNREFUSED", "answer of the host"]);
    expect(came?.connections.granted).toBe(2);
  });

  it.runIf(isRoot || isOrdinary)(`[Q-14] work for code that created them itself (${user})`, () => {
    expect(came?.written["own"]).toBe("own");
  });
});

describe("sockets that cannot be masked reliably", () => {
  const closing: (() => void)[] = [];
  afterEach(() => {
    for (const close of closing.splice(0)) close();
  });

  async function scene(access: "read" | "read-write", socket: string, more = "") {
    const found = await discoverIn({
      "home/.skillet/skills/x/SKILL.md": skillText("x"),
      "home/.skillet/skills/x/scripts/go.sh": "true\n",
      "home/.skillet/skills/x/scripts/wait.sh":
        "cd /workspace; touch runs; while [ ! -e stops ]; do sleep 0.02; done\n",
      "home/.skillet/config.toml": `[sandbox]\nworkspace = "${access}"\n${more}`,
      "README.md": "",
    });
    chmodSync(found.root, 0o755);
    chmodSync(found.workspace, 0o777);
    mkdirSync(dirname(join(found.workspace, socket)), { recursive: true });
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(found.workspace, socket), resolve));
    closing.push(() => server.close());
    const run = (script: string) => runScript(found, { skill: found.skill("x"), script });
    return { ...found, run };
  }

  it.each(["read", "read-write"] as const)("[Q-14] refuses folders with too long paths, to %s", async (access) => {
    const found = await scene(access, "a.sock");
    mkdirSync(join(found.workspace, `${"d".repeat(200)}/`.repeat(16)), { recursive: true });
    expect(await found.run("go.sh")).toMatchObject({ refusals: [{ code: "workspace-sockets" }] });
  });

  it.runIf(isRoot)("[Q-14] finds folders of other users that can be entered and not listed", async () => {
    const found = await scene("read", "other/a.sock");
    chownSync(join(found.workspace, "other"), 4343, 4343);
    chmodSync(join(found.workspace, "other"), 0o711);
    process.seteuid?.(4242);
    try {
      const walk = walkWorkspace(found.workspace, { rights: createFolderRights(found.workspace) });
      expect(walk).toMatchObject({ channels: [], unsearched: ["other"] });
    } finally {
      process.seteuid?.(0);
    }
  });

  it("[Q-14] starts no second command while a command can move their folders", async () => {
    const found = await scene("read-write", "sub/a.sock");
    const first = found.run("wait.sh");
    await waitFor(() => existsSync(join(found.workspace, "runs")));
    expect(await found.run("go.sh")).toMatchObject({ refusals: [{ code: "workspace-sockets" }] });
    writeFileSync(join(found.workspace, "stops"), "");
    expect(await first).toMatchObject({ isError: false });
    expect(await found.run("go.sh")).toMatchObject({ isError: false });
  });

  it("[Q-14] refuses a grant whose path code could fill with another socket", async () => {
    const grant = 'network = ["unix:tmp/a.sock"]\n';
    const found = await scene("read-write", "sub/a.sock", grant);
    expect(await found.run("go.sh")).toMatchObject({ refusals: [{ code: "workspace-sockets" }] });
    for (const [access, socket] of [
      ["read", "sub/a.sock"],
      ["read-write", "sub/b.sock"],
      ["read-write", "a.sock"],
      ["read-write", "tmp/a.sock"],
    ] as const)
      expect(await (await scene(access, socket, grant)).run("go.sh"), socket).toMatchObject({ isError: false });
  });

  it("[Q-14] starts a second command when none can move them", async () => {
    const found = await scene("read-write", "a.sock");
    const first = found.run("wait.sh");
    await waitFor(() => existsSync(join(found.workspace, "runs")));
    expect(await found.run("go.sh")).toMatchObject({ isError: false });
    writeFileSync(join(found.workspace, "stops"), "");
    expect(await first).toMatchObject({ isError: false });
  });
});
