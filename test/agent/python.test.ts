import { randomUUID } from "node:crypto";
import { chmodSync, existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { runScript } from "../../src/agent/run/run-script.ts";
import type { Sandbox } from "../../src/host/sandbox-contract.ts";
import {
  createUvAccess,
  fetchScriptPackages,
  findStaleFetches,
  findUnusedFetches,
  isScriptFetched,
  removeFetches,
} from "../../src/sandbox/libraries/python-packages.ts";
import { skillet } from "../support/command.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { openToolSandbox } from "../support/run-tools.ts";

const SCRIPT = `# /// script
# dependencies = ["greeting>=1"]
# ///
import greeting, sys
print(greeting.hello(sys.argv[1]))
`;

// This imitates the parts of uv that matter here. It refuses what it is not promised, fetches over the proxy when it
// syncs, and runs offline from what was fetched.
const UV = `#!/usr/bin/python3
import os, sys, subprocess, urllib.request
cache = os.environ["UV_CACHE_DIR"]
assert os.environ["UV_NO_BUILD"] == "1" and os.environ["UV_PYTHON_DOWNLOADS"] == "never" and os.environ["UV_NO_CONFIG"] == "1"
if sys.argv[1:3] == ["sync", "--script"] and sys.argv[3:] == ["/skill/scripts/go.py"]:
    text = urllib.request.urlopen("http://127.0.0.1:" + open("/skill/port").read() + "/greeting.py").read()
    os.makedirs(cache + "/environments-v2/go", exist_ok=True)
    open(cache + "/environments-v2/go/greeting.py", "wb").write(text)
elif sys.argv[1:4] == ["run", "--offline", "--script"] and os.environ["UV_OFFLINE"] == "1":
    open(cache + "/lock", "w").write("uv writes to its cache")
    os.environ["PYTHONPATH"] = cache + "/environments-v2/go"
    sys.exit(subprocess.call(["/usr/bin/python3"] + sys.argv[4:]))
else:
    sys.exit("unexpected: " + " ".join(sys.argv[1:]))
`;

async function scene(
  withUv: boolean,
  onAsked?: () => void,
): Promise<{ found: Scene; asked: string[]; close: () => void }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    if (onAsked) return onAsked();
    response.end("def hello(name): return 'hello ' + name\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  onTestFinished(close);
  const { port } = server.address() as AddressInfo;
  const found = await discoverIn({
    "home/.skillet/skills/x/SKILL.md": skillText("x"),
    // The script decides what was fetched: each test has its own.
    "home/.skillet/skills/x/scripts/go.py": `${SCRIPT}# ${randomUUID()}\n`,
    ...(onAsked && {
      "home/.skillet/skills/y/SKILL.md": skillText("y"),
      "home/.skillet/skills/y/scripts/go.py": SCRIPT,
    }),
    "home/.skillet/skills/x/scripts/tool.sh": "uvx ruff check; echo $?",
    "home/.skillet/skills/x/port": String(port),
    "home/.skillet/config.toml": `[sandbox]\npython_index = ["127.0.0.1:${port}"]\n`,
    ...(withUv ? { "home/.local/bin/uv": UV, "home/.local/bin/uvx": '#!/bin/sh\necho "uvx $*"\n' } : {}),
  });
  if (withUv) for (const name of ["uv", "uvx"]) chmodSync(join(found.root, "home/.local/bin", name), 0o755);
  chmodSync(found.root, 0o755);
  return { found, asked, close };
}

const run = (found: Scene, script: string, args: string[] = []) =>
  runScript(found, { skill: found.skill("x"), script, args });

describe("a Python script that declares its packages (with a test executable in place of uv)", () => {
  it("[S-27] runs with `uv run`, offline, from the fetched packages", async () => {
    const { found, asked, close } = await scene(true);
    const first = run(found, "go.py", ["you"]);
    const events: string[] = [];
    for await (const event of first) events.push(event.type);
    expect(await first).toMatchObject({ stdout: "hello you\n", stderr: "", exitCode: 0 });
    expect(events).toEqual(["packages-built", "script-started", "script-printed"]);
    expect(asked).toEqual(["/greeting.py"]);
    close();
    expect(await run(found, "go.py", ["again"])).toMatchObject({ stdout: "hello again\n", exitCode: 0 });
    expect(asked).toHaveLength(1);
  });

  it("[S-27] has its packages fetched by `packages build`, and writes of a run do not persist", async () => {
    const { found, asked } = await scene(true);
    const env = { HOME: join(found.root, "home") };
    expect(await skillet(["packages", "build", "x"], { env })).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("scripts/go.py  Python packages ready"),
    });
    expect(asked).toHaveLength(1);
    expect((await run(found, "go.py", ["you"])).stdout).toBe("hello you\n");
    expect(asked).toHaveLength(1);
    expect((await skillet(["packages", "build", "x", "--update"], { env })).code).toBe(0);
    expect(asked).toHaveLength(2);
  });

  it("[S-27] can run for the first time twice at once", async () => {
    const { found } = await scene(true);
    const runs = Array.from({ length: 4 }, (_, index) => run(found, "go.py", [`${index}`]));
    const results = await Promise.all(runs);
    expect(results.map(({ stdout }) => stdout)).toEqual(["hello 0\n", "hello 1\n", "hello 2\n", "hello 3\n"]);
  });

  it("[S-27] is not fetched further by `packages build` after an interruption", async () => {
    const controller = new AbortController();
    const { found, asked } = await scene(true, () => controller.abort());
    const env = { HOME: join(found.root, "home") };
    const { code, stdout, stderr } = await skillet(["packages", "build"], { env, signal: controller.signal });
    expect([code, stdout, asked.length]).toEqual([1, "", 1]);
    expect(stderr.match(/was canceled {2}\[package-aborted\]/g)).toHaveLength(1);
    expect(stderr).not.toContain("python-packages");
  });

  it("[S-27] is refused without uv when only uv can read its declaration, and the missing uvx is reported", async () => {
    const found = await discoverIn({
      "home/.skillet/skills/x/SKILL.md": skillText("x"),
      "home/.skillet/skills/x/scripts/go.py": SCRIPT.replace("greeting>=1", "greeting @ https://example.org/g.whl"),
      "home/.skillet/skills/x/scripts/tool.sh": "uvx ruff check; echo $?",
    });
    expect((await run(found, "go.py")).refusals).toMatchObject([
      {
        code: "library-specifier",
        message: expect.stringContaining("greeting @ https://example.org/g.whl"),
        fix: expect.stringContaining("install uv"),
      },
    ]);
    expect(await run(found, "tool.sh")).toMatchObject({
      stdout: "127\n",
      stderr: expect.stringContaining("uv is not installed on this machine"),
    });
  });

  it("[S-27] finds uvx if it is installed", async () => {
    const { found } = await scene(true);
    expect((await run(found, "tool.sh")).stdout).toBe("uvx ruff check\n0\n");
  });

  it("[S-43] is found by `uv run` in the shell of a run too, with the same variables and packages", async () => {
    const { found, asked, close } = await scene(true);
    expect((await run(found, "go.py", ["you"])).exitCode).toBe(0);
    close();
    const { call } = await openToolSandbox(found, found);
    const { text } = await call("bash", {
      command: "uv run --offline --script /skill/scripts/go.py shell; uvx ruff",
    });
    expect(text).toContain("hello shell");
    expect(text).toContain("uvx ruff");
    expect(asked).toHaveLength(1);
  });

  it("reports why its packages cannot be fetched, and leaves nothing half-built", async () => {
    const { found, close } = await scene(true);
    close();
    const [refusal] = (await run(found, "go.py")).refusals;
    expect(refusal).toMatchObject({ code: "python-packages", fix: expect.stringContaining("python_index") });
    expect((await run(found, "go.py")).refusals).toMatchObject([{ code: "python-packages" }]);
  });
});

describe("fetched packages of Python scripts", () => {
  const HOUR_MS = 60 * 60 * 1000;
  const script = (path: string) => ({ path: `/skill/scripts/${path}`, bytes: Buffer.from(path) });

  /** The embedder's own sandbox, which writes a text where uv would, when the test decides. */
  function fetcher(folder: string) {
    const started: { put: (text: string) => void }[] = [];
    const sandbox = {
      run: ({ mounts }: { mounts: { from: string; access: string }[] }) =>
        new Promise((resolve) => {
          const draft = mounts.find(({ access }) => access === "read-write")?.from ?? "";
          const put = (text: string) => {
            writeFileSync(join(draft, "wheel"), text);
            resolve({ exitCode: 0, ending: "exit" });
          };
          started.push({ put });
        }),
    } as unknown as Sandbox;
    const fetch = (path: string, update = false) =>
      fetchScriptPackages(script(path), {
        ...{ sandbox, folder, update, index: [], onProgress: () => {}, signal: new AbortController().signal },
        skill: { from: folder, to: "/skill", access: "read" },
      });
    return { fetch, started };
  }

  const placeOf = (folder: string, path: string) => createUvAccess([script(path)], folder).mounts[0]?.from ?? "";
  const textOf = (folder: string, path: string) => readFileSync(join(placeOf(folder, path), "wheel"), "utf8");

  it("[S-27] are the same when two first runs fetch them at once, and the first stays in place", async () => {
    const folder = temporaryFolder();
    const { fetch, started } = fetcher(folder);
    const both = [fetch("go.py"), fetch("go.py")];
    started[1]?.put("second");
    await both[1];
    started[0]?.put("first");
    await both[0];
    expect(textOf(folder, "go.py"), "a run may be reading it").toBe("second");
    expect(readdirSync(join(folder, "python"))).toHaveLength(1);
  });

  it("[S-27] are replaced by an update, and readers keep the former ones for an hour", async () => {
    const folder = temporaryFolder();
    const { fetch, started } = fetcher(folder);
    for (const [index, text] of ["old", "new"].entries()) {
      const fetched = fetch("go.py", index > 0);
      started[index]?.put(text);
      if (index > 0) utimesSync(placeOf(folder, "go.py"), 0, 0); // Fetched long ago.
      await fetched;
    }
    expect(textOf(folder, "go.py")).toBe("new");
    const [old = ""] = readdirSync(join(folder, "python")).filter((name) => name.includes("."));
    const aside = join(folder, "python", old);
    expect(readFileSync(join(aside, "wheel"), "utf8")).toBe("old");
    expect(findStaleFetches(folder)).toEqual([]);
    utimesSync(aside, new Date(), new Date(Date.now() - 2 * HOUR_MS));
    expect(findStaleFetches(folder)).toEqual([aside]);
    const another = fetch("other.py");
    started[2]?.put("other");
    await another;
    expect(existsSync(aside)).toBe(false);
  });

  it("[S-27] are pruned by script, except while they are being fetched", async () => {
    const folder = temporaryFolder();
    const { fetch, started } = fetcher(folder);
    for (const [index, path] of ["kept.py", "gone.py"].entries()) {
      const fetched = fetch(path);
      started[index]?.put(path);
      await fetched;
    }
    const fetching = fetch("coming.py");
    expect(findUnusedFetches(folder, [script("kept.py")])).toEqual([placeOf(folder, "gone.py")]);
    removeFetches([...findUnusedFetches(folder, [script("kept.py")]), ...findStaleFetches(folder)]);
    started[2]?.put("coming");
    await fetching;
    expect(["kept.py", "gone.py", "coming.py"].map((path) => isScriptFetched(script(path), folder))).toEqual([
      true,
      false,
      true,
    ]);
  });
});
