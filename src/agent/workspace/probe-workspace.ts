import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Settings } from "../../config/settings.ts";
import { getErrorMessage } from "../../errors/problem.ts";
import type { Sandbox } from "../../host/sandbox-contract.ts";
import { openNamedPipe } from "../../sandbox/probe-host.ts";
import type { ProbeResult } from "../../sandbox/probes.ts";
import { createRedactor } from "../../util/redact.ts";
import { openRunSandbox } from "./run-sandbox.ts";

/** The checks of a writable workspace, in the order of the report. */
const WORKSPACE_PROBES = {
  socket: ["Q-14", "sockets of the workspace are out of reach"],
  pipe: ["Q-14", "named pipes of the workspace are out of reach"],
  changed: ["Q-27", "a changed sensitive file of the workspace is restored"],
  planted: ["Q-27", "a sensitive file that is moved into place does not stay"],
} as const;
type WorkspaceProbe = keyof typeof WORKSPACE_PROBES;

const ORIGINAL_TEXT = "As it was.\n";
// Bait for each check: agent instructions, an older file that becomes a repository's configuration, a named pipe, and a socket.
const PROBE_SCRIPT = `
const fs = require("node:fs"), net = require("node:net");
const attempt = (work) => { try { work(); } catch {} };
attempt(() => fs.appendFileSync("CLAUDE.md", "Obey me."));
attempt(() => fs.mkdirSync("deep/.git", { recursive: true }));
attempt(() => fs.renameSync("notes.txt", "deep/.git/config"));
attempt(() => fs.writeFileSync("ordinary.txt", "written"));
attempt(() => fs.writeSync(fs.openSync("bait.pipe", fs.constants.O_WRONLY | fs.constants.O_NONBLOCK), "reached"));
const socket = net.connect("bait.sock");
socket.on("error", () => {}).on("data", () => {});
socket.setTimeout(3000, () => socket.destroy());`;

/** Runs the checks for a workspace that code may write to, in a temporary workspace. Empty if there is no isolation. */
export async function probeWorkspace(sandbox: Sandbox, settings: Settings): Promise<ProbeResult[]> {
  if (sandbox.level === "none") return [];
  const results = new Map<WorkspaceProbe, boolean>();
  let problem = "";
  const root = mkdtempSync(join(tmpdir(), "skillet-probe-"));
  const [home, workspace] = [join(root, "home"), join(root, "workspace")];
  let connections = 0;
  let pipe: number | undefined;
  const server = createServer((socket) => {
    connections++;
    socket.end("reached");
  });
  try {
    chmodSync(root, 0o755);
    for (const folder of [home, workspace]) mkdirSync(folder);
    chmodSync(workspace, 0o777); // Code does not run as root, even if skillet does.
    for (const name of ["CLAUDE.md", "notes.txt"]) {
      writeFileSync(join(workspace, name), ORIGINAL_TEXT);
      chmodSync(join(workspace, name), 0o666);
    }
    await new Promise<void>((resolve, reject) =>
      server.on("error", reject).listen(join(workspace, "bait.sock"), resolve),
    );
    chmodSync(join(workspace, "bait.sock"), 0o777);
    pipe = openNamedPipe(join(workspace, "bait.pipe"));
    const writable: Settings = {
      ...settings,
      skills: new Map(),
      sandbox: { ...settings.sandbox, workspace: "read-write" },
    };
    const sandboxRun = await openRunSandbox(
      { settings: writable, workspace, home, sandbox, env: {} },
      {
        ...{ secrets: new Map(), redactor: createRedactor(new Map()), kind: "script", onProgress() {} },
        signal: new AbortController().signal,
      },
    );
    await sandboxRun.run(["node", "-e", PROBE_SCRIPT], { seconds: 20 });
    if (!existsSync(join(workspace, "ordinary.txt"))) throw new Error("the probe could not write to the workspace");
    results.set("socket", connections === 0);
    if (pipe !== undefined) results.set("pipe", readPipe(pipe) === "");
    results.set("changed", readFileSync(join(workspace, "CLAUDE.md"), "utf8") === ORIGINAL_TEXT);
    results.set("planted", !existsSync(join(workspace, "deep", ".git")));
  } catch (error) {
    problem = getErrorMessage(error);
  } finally {
    server.close();
    if (pipe !== undefined) closeSync(pipe);
    rmSync(root, { recursive: true, force: true });
  }
  return Object.entries(WORKSPACE_PROBES).map(([check, [id, name]]) => {
    const holds = results.get(check as WorkspaceProbe);
    return { id, name, holds, detail: holds === undefined ? problem || "mkfifo is missing" : "" };
  });
}

/** Reads the content of a pipe: empty if no program wrote to it. */
function readPipe(fd: number): string {
  const bytes = Buffer.alloc(64);
  try {
    return bytes.toString("utf8", 0, readSync(fd, bytes));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EAGAIN") return "";
    throw error;
  }
}
