import { spawn } from "node:child_process";
import { parts } from "./library.mjs";

const { createSandbox, createBubblewrapArguments, createBaseMounts, findSystemProgram, ...rest } = await parts(
  "sandbox/create-sandbox.js",
  "sandbox/bubblewrap.js",
  "sandbox/sandbox-folders.js",
  "util/system.js",
  "config/limits.js",
);
const { getSandboxFolder, isRoot, NOBODY_UID, DEFAULT_SANDBOX_SETTINGS, DEFAULT_SCRIPT_LIMITS } = rest;
const TRUE = "/bin/true";
const COMMAND = {
  argv: [TRUE],
  env: {},
  folder: "/",
  mounts: [],
  network: [],
  limits: { ...DEFAULT_SANDBOX_SETTINGS, ...DEFAULT_SCRIPT_LIMITS },
};

/** The obvious first version: the same namespaces, the host's /usr, and its own writable folders. */
const BY_HAND = [
  ...["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
  ...["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000"],
  ...["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"],
  ...["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/"],
];
/** Options that need a peer at the other end of a descriptor. */
const SERVED = new Set(["--seccomp", "--block-fd", "--json-status-fd"]);

export const open = (home) => createSandbox({ settings: DEFAULT_SANDBOX_SETTINGS, home });

/** Returns every way to run `true`, by name. Contract: resolves when all processes have ended, throws on failure. */
export async function waysIn(home) {
  const sandbox = await open(home);
  const user = isRoot() ? { uid: NOBODY_UID, gid: NOBODY_UID } : {};
  const bwrap = (args) => () => spawned(findSystemProgram("bwrap"), [...args, "--", TRUE], user);
  const view = withoutServed(createBubblewrapArguments(COMMAND, createBaseMounts(getSandboxFolder(home), home)));
  return {
    bare: () => spawned(TRUE, []),
    "bwrap by hand": bwrap(BY_HAND),
    "bwrap, same view": bwrap(view),
    skillet: async ({ root } = {}) => {
      const { ending, exitCode, isolation } = await sandbox.run(root === undefined ? COMMAND : { ...COMMAND, root }, {
        onOutput: () => true,
      });
      if (ending !== "exit" || exitCode !== 0) throw new Error(`it ended with ${ending}, exit ${exitCode}`);
      return isolation;
    },
    peer: ({ file, args }) => spawned(file, args),
  };
}

export async function timed(action) {
  const start = process.hrtime.bigint();
  await action();
  return Number(process.hrtime.bigint() - start) / 1e6;
}

function spawned(file, args, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      env: {},
      cwd: "/",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 60_000,
      ...options,
    });
    let said = "";
    child.stdout.resume();
    child.stderr.on("data", (bytes) => {
      said += bytes;
    });
    child.on("error", reject);
    child.on("close", (code) =>
      code === 0 ? resolve() : reject(new Error(said.trim().split("\n")[0] || `exit ${code}`)),
    );
  });
}

function withoutServed(args) {
  const at = args.findIndex((arg) => SERVED.has(arg));
  if (at === -1) return args;
  return [...args.slice(0, at), ...withoutServed(args.slice(at + 2))];
}
