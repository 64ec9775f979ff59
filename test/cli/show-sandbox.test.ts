import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import type { SandboxView } from "../../src/agent/run/plan-use.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { grantValuesIn } from "../support/grant-values.ts";
import { pythonIndex } from "../support/package-servers.ts";

/** Walks everything outside the given paths, tries to write everywhere, and prints its findings. */
const PROBE = `import { readdirSync, lstatSync, statSync, openSync, closeSync, readSync, writeFileSync, rmSync, accessSync, constants } from "node:fs";
import { connect } from "node:net";
const { paths, port } = JSON.parse(await new Response(process.stdin).text());
const listed = new Map(paths.map((one) => [one.path, one]));
const unlisted = [], unreadable = [], written = [];
const join = (folder, name) => (folder === "/" ? "/" : folder + "/") + name;
const writes = (folder) => { try { const file = join(folder, ".probe"); writeFileSync(file, "x"); rmSync(file); return true; } catch { return false; } };
const isAbove = (path) => path === "/" || [...listed.keys()].some((one) => one.startsWith(path + "/"));
(function walk(folder) {
  if (writes(folder)) written.push(folder);
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (listed.has(path)) continue;
    if (lstatSync(path).isDirectory() && isAbove(path)) walk(path);
    else unlisted.push(path);
  }
})("/");
for (const [path] of listed) {
  const look = () => { if (statSync(path).isDirectory()) return readdirSync(path); const fd = openSync(path, "r"); readSync(fd, Buffer.alloc(1)); closeSync(fd); };
  try { look(); } catch { unreadable.push(path); }
  let isFolder = false;
  try { isFolder = readdirSync(path) !== undefined; } catch {}
  let canWrite = isFolder ? writes(path) : false;
  if (!isFolder) try { accessSync(path, constants.W_OK); canWrite = true; } catch {}
  if (canWrite) written.push(path);
}
const reached = await new Promise((resolve) => connect(port, "127.0.0.1").once("connect", () => resolve(true)).once("error", () => resolve(false)));
console.log(JSON.stringify({ folder: process.cwd(), variables: Object.keys(process.env).sort(), unlisted, unreadable, written: written.sort(), reached }));
`;

function scene(config = "", more = "", env: Record<string, string> = {}) {
  const root = temporaryFolder();
  const home = join(root, "home");
  const workspace = join(home, "work");
  mkdirSync(workspace, { recursive: true });
  const skill = join(home, ".skillet/skills/x/scripts");
  mkdirSync(skill, { recursive: true });
  writeFileSync(join(skill, "../SKILL.md"), skillText("x", { more }));
  writeFileSync(join(skill, "probe.mjs"), PROBE);
  writeFileSync(join(home, ".skillet/config.toml"), config, { mode: 0o600 });
  for (const path of [root, home]) chmodSync(path, 0o755);
  chmodSync(workspace, 0o777);
  grantValuesIn(home);
  const run = (args: string[], stdin?: string) =>
    skillet(args, { env: { HOME: home, ...env }, cwd: workspace, ...(stdin === undefined ? {} : { stdin }) });
  const view = async (): Promise<SandboxView> => JSON.parse((await run(["show", "x", "--sandbox", "--json"])).stdout);
  return { home, workspace, run, view };
}

async function probe({ run }: ReturnType<typeof scene>, { paths }: SandboxView, options: string[] = []) {
  const server = createServer((socket) => socket.end());
  onTestFinished(() => void server.close());
  const port = await new Promise<number>((resolve) =>
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port)),
  );
  const ran = await run(["script", "--stdin", ...options, "x", "probe.mjs"], JSON.stringify({ paths, port }));
  expect(ran.stderr).toContain("exit 0");
  return JSON.parse(ran.stdout);
}

const writable = ({ paths }: SandboxView) =>
  paths
    .filter(({ access }) => access === "read-write")
    .map(({ path }) => path)
    .sort();

describe("skillet show --sandbox", () => {
  it.each([
    ["by default", "", "", "/workspace"],
    ["without the workspace", '[skills.x]\nworkspace = "none"\n', "", "/skill"],
    ["with the workspace to write to", '[skills.x]\nworkspace = "read-write"\n', "", "/workspace"],
    ["with variables", '[skills.x]\nAPI_KEY = "abcdefgh"\n', "env: [API_KEY]\n", "/workspace"],
  ])("[T-14, Q-01, Q-14] prints exactly what a probe finds, %s", async (_, config, more, folder) => {
    const place = scene(config, more);
    const view = await place.view();
    expect(view).toMatchObject({ isComplete: true, network: [], notices: [], folder });
    expect(await probe(place, view)).toEqual({
      folder,
      variables: view.variables,
      unlisted: [],
      unreadable: [],
      written: writable(view),
      reached: false,
    });
    expect(writable(view).includes("/workspace")).toBe(config.includes("read-write"));
  });

  it("names the proxy variables when a network is open", async () => {
    const place = scene('[skills.x]\nnetwork = ["example.com:443"]\n');
    const view = await place.view();
    expect(view.network).toEqual(["example.com:443"]);
    expect((await probe(place, view)).variables).toEqual(view.variables);
    expect(view.variables).toContain("HTTPS_PROXY");
  });

  it("[S-45] includes the packages that the user adds, once they are built", async () => {
    const index = await pythonIndex({ name: "words", version: "1.0", files: { "words.py": "A = 1\n" } });
    onTestFinished(() => index.close());
    const packages = temporaryFolder();
    chmodSync(packages, 0o755);
    const env = { PIP_INDEX_URL: index.url, SKILLET_PACKAGES: packages, PATH: process.env["PATH"] ?? "" };
    const place = scene('[skills.x]\npython = ["words"]\n', "", env);
    const before = await place.view();
    expect(before.packages).toEqual({ system: [], python: ["words"], npm: [] });
    expect(before.notices).toMatchObject([{ code: "system-packages-missing" }]);
    await place.run(["packages", "build", "x"]);
    const view = await place.view();
    expect(view.notices).toEqual([]);
    expect(view.paths.length).toBe(before.paths.length + 1);
    expect(await probe(place, view)).toMatchObject({ unlisted: [], unreadable: [], variables: view.variables });
  });

  it("is readable for users, with the source of each path, and shows no value", async () => {
    const place = scene('[skills.x]\nAPI_KEY = "abcdefgh"\n', "env: [API_KEY]\n");
    const { stdout, code } = await place.run(["show", "x", "--sandbox"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/ {2}\/workspace +the workspace ~\/work; sockets and named pipes/);
    expect(stdout).toMatch(/ {2}\/skill +the skill's files, as a copy/);
    expect(stdout).toContain("level     strong, by bubblewrap");
    expect(stdout).toContain("API_KEY");
    expect(stdout).not.toContain("abcdefgh");
  });

  it("explains why the workspace is missing, and why nothing would run", async () => {
    const place = scene("", "env: [API_KEY]\n");
    const { stderr } = await skillet(["show", "x", "--sandbox"], { env: { HOME: place.home }, cwd: place.home });
    expect(stderr).toContain("is your home folder");
    expect(stderr).toContain("needs API_KEY");
  });

  it("shows that nothing is isolated if the operator chose that", async () => {
    const place = scene('[sandbox]\nlevel = "none"\n');
    const view = await place.view();
    expect(view).toMatchObject({ isComplete: false, isolation: { level: "none" }, folder: place.workspace });
    expect((await place.run(["show", "x", "--sandbox"])).stdout).toContain("NOT ISOLATED");
  });
});
