import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { getErrorMessage } from "../errors/problem.ts";
import {
  FIXED_VARIABLES,
  type Mount,
  type Sandbox,
  type SandboxCommand,
  type SandboxLimits,
  type SandboxOutcome,
} from "../host/sandbox-contract.ts";
import {
  createProbeBait,
  findHostProcesses,
  PROBE_CHECKS,
  type ProbeBait,
  type ProbeCheck,
  waitUntilGone,
} from "./probe-host.ts";
import type { ProbeInput, ProbeLine } from "./probe-program.ts";
import { getMaxFileCount } from "./resource-limits.ts";
import { mapSandboxPath } from "./sandbox-folders.ts";
import { INSPECTED_CALLS, SYSTEM_CALLS } from "./seccomp.ts";

export interface ProbeResult {
  /** The ID of the guarantee that it belongs to. */
  id: string;
  /** The guarantee, as a sentence without a period. */
  name: string;
  /** Undefined if it could not be tested. */
  holds: boolean | undefined;
  detail: string;
}

export interface ProbeOptions {
  /** Skillet's own folder. */
  home: string;
  /** Called with each result as soon as it is known. Contract: does not throw. */
  onProbe?: (result: ProbeResult) => void;
}

const MIB = 1024 * 1024;
const PROBE_LIMITS: SandboxLimits = { seconds: 30, output: MIB, memory: 256 * MIB, processes: 64, disk: 4 * MIB };
const CALL_NUMBERS = {
  x64: { mmap: 9, memfd: 319, prctl: 157, inotify: 294 },
  arm64: { mmap: 222, memfd: 279, prctl: 167, inotify: 26 },
};
// Asynchronous I/O from before io_uring: not on the allowlist, and known to kernels of every age.
const UNLISTED_CALLS = { x64: { io_setup: 206, io_destroy: 207 }, arm64: { io_setup: 0, io_destroy: 1 } };
const SECRET_NAME = "PROBE_SECRET";

/**
 * Tests the guarantees of a sandbox, with decoys on the host and a program inside that tries to reach them. Without
 * isolation nothing is run and the result is empty.
 */
export async function probeSandbox(sandbox: Sandbox, { home, onProbe }: ProbeOptions): Promise<ProbeResult[]> {
  if (sandbox.level === "none") return [];
  const bait = await createProbeBait(home);
  const results = new Map<ProbeCheck, ProbeResult>();
  const report: ReportCheck = (check, holds, detail = "") => {
    if (!isProbeCheck(check) || results.has(check)) return;
    const [id, name] = PROBE_CHECKS[check];
    const isNotPromised = holds === false && sandbox.by !== "bubblewrap" && BUBBLEWRAP_CHECKS.has(check);
    const result = isNotPromised
      ? { id, name, holds: undefined, detail: `${sandbox.by} does not guarantee it` }
      : { id, name, holds: holds ?? undefined, detail };
    results.set(check, result);
    onProbe?.(result);
  };
  const context: ProbeContext = { sandbox, bait, report, secret: `secret-${randomUUID()}` };
  try {
    let problem = "the probe did not finish";
    const tried = (action: Promise<unknown>) =>
      action.catch((error) => {
        problem = getErrorMessage(error);
      });
    await Promise.all([probeFromInside, probeEndings, probeConcurrentRuns].map((action) => tried(action(context))));
    await Promise.all([tried(runProbePart(context, "disk")), tried(probeForks(context))]);
    await Promise.all([tried(probeFiles(context)), tried(probeInotify(context))]);
    for (const kind of MEMORY_CHECKS) await tried(probeMemory(context, kind)); // One by one: each takes memory from the host.
    report("reached", bait.reached() === 0, bait.reached() === 0 ? "" : `${bait.reached()} connections`);
    for (const check of Object.keys(PROBE_CHECKS)) report(check, undefined, problem);
  } finally {
    bait.remove();
  }
  return Object.keys(PROBE_CHECKS).flatMap((check) => results.get(check as ProbeCheck) ?? []);
}

/** Guarantees of bubblewrap only. */
const BUBBLEWRAP_CHECKS: ReadonlySet<ProbeCheck> = new Set([
  "open-files",
  "inotify",
  "file-count",
  "unknown-calls",
  "mounts",
]);

type ReportCheck = (check: string, holds: boolean | null | undefined, detail?: string) => void;

interface ProbeContext {
  sandbox: Sandbox;
  bait: ProbeBait;
  report: ReportCheck;
  secret: string;
}

function isProbeCheck(name: string): name is ProbeCheck {
  return Object.hasOwn(PROBE_CHECKS, name);
}

async function probeFromInside(context: ProbeContext): Promise<void> {
  let isAtEnd = false;
  const { isolation, ending, exitCode } = await runProbePart(context, "look", {
    onLine({ check, holds, detail }) {
      context.report(check, holds, detail);
      if (check === "end") isAtEnd = true;
    },
  });
  if (!isAtEnd) throw new Error(describeIncompleteProbe(context.sandbox, ending, exitCode));
  context.report("level", isolation.level === context.sandbox.level, `${isolation.level}, ${isolation.by}`);
}

/** Returns true if the program that inspects the sandbox finished: without it little is known. */
export function isProbeComplete(results: readonly ProbeResult[]): boolean {
  return results.some(({ name, holds }) => name === PROBE_CHECKS.level[1] && holds !== undefined);
}

function describeIncompleteProbe(
  { system }: Sandbox,
  ending: SandboxOutcome["ending"],
  exitCode: number | undefined,
): string {
  const needed = system === "own" && exitCode === 127 ? "; the image must contain node" : "";
  return `the probe ended with ${exitCode === undefined ? ending : `exit ${exitCode}`}${needed}`;
}

interface ProbePartOptions {
  limits?: Partial<SandboxLimits>;
  signal?: AbortSignal;
  /** An extra command-line argument of the program, by which its process is found. */
  token?: string;
  otherToken?: string;
  onLine?: (line: ProbeLine) => void;
}

/**
 * Reads the mount points of the host's file systems by device: a list of mounts names paths from the root of their file
 * system.
 */
function readHostMounts(): Record<string, string> {
  let text = "";
  try {
    text = readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    // Not Linux: the sandbox has no such list either.
  }
  const rows = text.split("\n").map((line) => line.split(" "));
  return Object.fromEntries(
    rows.flatMap(([, , device, root, at]) => (root === "/" && device && at ? [[device, at]] : [])),
  );
}

/** Runs one part of the program. Its lines are reported unless `onLine` is set. */
async function runProbePart(
  context: ProbeContext,
  name: string,
  options: ProbePartOptions = {},
): Promise<SandboxOutcome> {
  const { sandbox, bait, secret } = context;
  const limits = { ...PROBE_LIMITS, ...options.limits };
  const mounts: Mount[] = [
    { from: bait.program, to: "/skill", access: "read" },
    { from: bait.workspace, to: "/workspace", access: "read-write" },
  ];
  const seen = (path: string) => mapSandboxPath(sandbox, mounts, path);
  const isAllOurs = sandbox.system === "host" && sandbox.mapsPaths;
  const input: ProbeInput = {
    strangers: isAllOurs ? null : Object.keys(process.env),
    variables: [...Object.keys(FIXED_VARIABLES), SECRET_NAME, "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME"],
    secret,
    hostToken: bait.token,
    otherToken: options.otherToken ?? "",
    secretFiles: bait.files,
    hiddenFolders: bait.hiddenFolders,
    namedFolders: bait.namedFolders,
    hostMounts: readHostMounts(),
    port: bait.port,
    abstractSocket: bait.abstractSocket,
    socket: bait.socket,
    readOnly: seen("/skill"),
    workspace: seen("/workspace"),
    disk: limits.disk,
    memory: limits.memory,
    files: 4 * getMaxFileCount(limits.disk),
    systemCalls: Object.fromEntries(
      Object.keys(SYSTEM_CALLS)
        .filter((call) => !INSPECTED_CALLS.has(call) && getCallNumber(call) !== -1)
        .map((call) => [call, getCallNumber(call)]),
    ),
    unlistedCalls: UNLISTED_CALLS[process.arch === "arm64" ? "arm64" : "x64"],
    calls: { ...CALL_NUMBERS[process.arch === "arm64" ? "arm64" : "x64"], clone: getCallNumber("clone") },
  };
  const node = isAllOurs ? "/opt/skillet/bin/node" : sandbox.system === "own" ? "node" : process.execPath;
  const argv: SandboxCommand["argv"] = [node, seen("/skill/probe.cjs"), name, options.token ?? ""];
  return runInProbe(context, { ...options, argv, mounts, limits, stdin: JSON.stringify(input) });
}

interface ProbeRun extends Omit<ProbePartOptions, "limits"> {
  argv: SandboxCommand["argv"];
  mounts?: readonly Mount[];
  limits: SandboxLimits;
  stdin?: string;
  onText?: (text: string) => boolean;
}

async function runInProbe({ sandbox, secret, report }: ProbeContext, options: ProbeRun): Promise<SandboxOutcome> {
  const {
    argv,
    mounts = [],
    limits,
    stdin,
    signal,
    onLine = ({ check, holds, detail }) => report(check, holds, detail),
  } = options;
  let rest = "";
  const onText = (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines.map(parseProbeLine)) if (line) onLine(line);
    return true;
  };
  const take = options.onText ?? onText;
  const command = { argv, env: { [SECRET_NAME]: secret }, folder: "/", mounts, network: [], limits };
  return sandbox.run(
    { ...command, ...(stdin === undefined ? {} : { stdin }) },
    {
      onOutput: (stream, bytes) => (stream === "stdout" ? take(bytes.toString()) : true),
      ...(signal === undefined ? {} : { signal }),
    },
  );
}

/** Parses a line of the program, and skips others, such as a warning of Node. */
function parseProbeLine(text: string): ProbeLine | undefined {
  try {
    const line = JSON.parse(text);
    return typeof line?.check === "string" ? line : undefined;
  } catch {
    return undefined;
  }
}

// Forks twice into the background, with its own session, and ignores signals.
const LINGERING_SCRIPT = `trap '' TERM HUP INT
(setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 0.2; done' "$1" > /dev/null 2>&1 < /dev/null &)
sleep 0.3; echo ready
[ "$2" = output ] && exec yes "$1"
while :; do sleep 0.2; done`;

/** Starts processes that do not end by themselves, and checks from outside that they are gone. */
async function probeEndings(context: ProbeContext): Promise<void> {
  await Promise.all(
    (["timeout", "abort", "output"] as const).map(async (ending) => {
      const token = `linger-${randomUUID()}`;
      const stop = new AbortController();
      let alive = 0;
      let bytes = 0;
      const outcome = await runInProbe(context, {
        argv: ["/bin/sh", "-c", LINGERING_SCRIPT, "sh", token, ending],
        limits: { ...PROBE_LIMITS, seconds: ending === "timeout" ? 1 : PROBE_LIMITS.seconds },
        signal: stop.signal,
        onText(text) {
          if (text.startsWith("ready")) alive = probeFromOutside(context, token);
          if (ending === "abort") stop.abort();
          bytes += text.length;
          return bytes < MIB;
        },
      });
      const ms = await waitUntilGone(token, 1000);
      if (alive === 0) context.report(ending, undefined, "its processes are not visible from outside");
      else
        context.report(ending, ms !== undefined && outcome.ending === ending, ms === undefined ? "some still run" : "");
    }),
  );
}

/** Counts the processes of a run, and reports the checks that can be made from outside. */
function probeFromOutside({ report, secret }: ProbeContext, token: string): number {
  const found = findHostProcesses(token) ?? [];
  if (found.length < 2) return 0;
  const users = new Set(found.flatMap((one) => one.users));
  report("user", !users.has(0), `user ${[...users].join(", ")}`);
  report("host-command-lines", findHostProcesses(secret)?.length === 0);
  return found.length;
}

/** Starts two runs at once, of which the second looks for the first. */
async function probeConcurrentRuns(context: ProbeContext): Promise<void> {
  const token = `one-${randomUUID()}`;
  const stop = new AbortController();
  let second: Promise<SandboxOutcome> | undefined;
  await runProbePart(context, "one", {
    token,
    signal: stop.signal,
    onLine({ check }) {
      if (check === "ready") second = runProbePart(context, "two", { otherToken: token }).finally(() => stop.abort());
    },
  });
  await second;
}

/** Reads the last number that a shell printed while it started one process after the other. */
async function probeForks(context: ProbeContext): Promise<void> {
  const text = 'i=0; while [ "$i" -lt 200 ]; do sleep 2 & i=$((i + 1)); echo "$i"; done';
  let output = "";
  const { isolation } = await runInProbe(context, {
    argv: ["/bin/sh", "-c", text],
    limits: { ...PROBE_LIMITS, processes: 24 },
    onText(piece) {
      output += piece;
      return true;
    },
  });
  const started = Number(output.trim().split("\n").at(-1));
  context.report(
    "forks",
    started > 0 && started < 24,
    `${started} of 24, ${isolation.bounds === "tree" ? "counted per run" : "counted per user"}`,
  );
}

/** Creates four times as many files as allowed. */
async function probeFiles(context: ProbeContext): Promise<void> {
  let isBegun = false;
  const { ending } = await runProbePart(context, "file-count", {
    onLine() {
      isBegun = true;
    },
  });
  if (isBegun) context.report("file-count", ending === "memory", ending);
}

// A separate program: one process has one inotify instance for everything it watches.
const WATCH_PROGRAM = 'require("node:fs").watch("/", () => {}).close()';

/** Takes all inotify instances it can get, while a program of this user and another run need some. */
async function probeInotify(context: ProbeContext): Promise<void> {
  const stop = new AbortController();
  let others: Promise<unknown> | undefined;
  const lookNow = async () => {
    let another = "0";
    await runProbePart(context, "inotify-one", {
      onLine({ check, detail }) {
        if (check === "held") another = detail;
      },
    });
    const own = await new Promise<boolean>((resolve) =>
      spawn(process.execPath, ["-e", WATCH_PROGRAM], { stdio: "ignore", env: {} })
        .once("error", () => resolve(false))
        .once("exit", (code) => resolve(code === 0)),
    );
    const isRefused = held === "0" && another === "0";
    context.report("inotify", own && (another === "1" || isRefused), isRefused ? "refused" : `${held} taken`);
  };
  let held = "0";
  await runProbePart(context, "inotify", {
    signal: stop.signal,
    onLine({ check, detail }) {
      if (check !== "held") return;
      held = detail;
      others = lookNow().finally(() => stop.abort());
    },
  });
  await others;
}

const MEMORY_CHECKS = ["memory", "shared-mapping", "system-v-memory", "memory-file", "socket-buffers"] as const;

/** Allocates four times the limit, and counts what it got. */
async function probeMemory(context: ProbeContext, kind: (typeof MEMORY_CHECKS)[number]): Promise<void> {
  const limits = { memory: (kind === "memory" ? 256 : 128) * MIB };
  let got = 0;
  let [isKept, isAtEnd] = [false, false];
  const outcome = await runProbePart(context, kind, {
    limits,
    onLine({ check, holds, detail }) {
      if (check === kind) got = Math.max(got, Number(detail));
      if (check === kind && holds === false) isKept = true;
      if (check === "end") isAtEnd = true;
    },
  });
  const share = outcome.isolation.bounds === "tree" ? "all processes together" : "watched by the host";
  const isTried = kind === "memory" ? got > 0 : isAtEnd || outcome.ending === "memory";
  const detail = `${got / MIB} of ${limits.memory / MIB} MiB, ${share}`;
  // Where the kernel does not count, the host checks at intervals.
  const isBounded = outcome.isolation.bounds === "tree" || kind === "memory" ? got <= limits.memory : !isKept;
  context.report(kind, isTried ? isBounded : undefined, isTried ? detail : "Perl is not installed");
}

function getCallNumber(call: string): number {
  return SYSTEM_CALLS[call]?.[process.arch === "arm64" ? 1 : 0] ?? -1;
}
