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
import { shortenHomePath } from "../../agent/policy/trust-policy.ts";
import { describeSandbox, type PlanCheck, planUse, type SandboxView } from "../../agent/run/plan-use.ts";
import type { UseRequest } from "../../agent/run/use-skill.ts";
import { openRunSandbox } from "../../agent/workspace/run-sandbox.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import type { Settings } from "../../config/settings.ts";
import { formatFix, getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import { type Sandbox, type SandboxOutcome, type SandboxPath, WORKSPACE_FOLDER } from "../../host/sandbox-contract.ts";
import { createSandbox } from "../../sandbox/create-sandbox.ts";
import { readProgramVersion } from "../../sandbox/host-tools.ts";
import { openNamedPipe, probeKilledHost } from "../../sandbox/probe-host.ts";
import { isProbeComplete, type ProbeResult, probeSandbox } from "../../sandbox/probes.ts";
import { getSandboxFolder, isRoot } from "../../sandbox/sandbox-folders.ts";
import type { Skill } from "../../skill/skill.ts";
import { SANDBOX_SKILL_FOLDER } from "../../skill/skill-code.ts";
import { createRedactor } from "../../util/redact.ts";
import { isInside } from "../../util/safe-path.ts";
import { findSystemProgram } from "../../util/system.ts";
import { compareText, formatCount, formatNumber } from "../../util/text.ts";
import { type CommandHost, type CommonOptions, EXIT } from "../command-context.ts";
import { addWorkspaceToFix } from "../format.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  printHanging,
  printJson,
  printProblem,
  runUntilInterrupted,
  type SafeText,
} from "../output.ts";
import { runWithWaitIndicator } from "../progress.ts";

interface SafetyFacts {
  level: Sandbox["level"];
  by: string;
  version?: string;
  bounds: SandboxOutcome["isolation"]["bounds"];
  user: string;
  probes: readonly ProbeResult[];
}

/** Tests every guarantee of the sandbox on this machine and prints the results. */
export async function printSafetyReport(
  io: CommandIo,
  options: Pick<CommonOptions, "json">,
  found: Pick<DiscoverResult, "settings" | "around">,
): Promise<number> {
  try {
    const card = await runWithWaitIndicator(io, "testing the sandbox", () =>
      runUntilInterrupted(io, (signal) => toSafetyJson(found, signal)),
    );
    if (options.json) printJson(io.stdout, card);
    else printSafetyFacts(createPrinter(io.stdout, io.env), card, card.held);
    const isFine = isProbeComplete(card.probes) && card.probes.every(({ holds }) => holds !== false);
    return isFine ? EXIT.fine : EXIT.findings;
  } catch (error) {
    if (!(error instanceof SkillError) || error.code === "interrupted") throw error;
    if (options.json) printJson(io.stdout, { error: error.problem });
    else {
      const out = createPrinter(io.stdout, io.env);
      out.line`${out.red("✗")} ${out.bold("Code of skills cannot run here")}`;
      out.line`  ${error.message}`;
      out.line`  ${formatFix(error)}`;
    }
    return EXIT.findings;
  }
}

/**
 * Returns the value of `doctor --sandbox --json`. Throws a SkillError if code of skills cannot run here. Once the signal is aborted, no probe
 * runs any more, and the result is incomplete.
 */
export async function toSafetyJson(
  { settings, around: environment }: Pick<DiscoverResult, "settings" | "around">,
  signal: AbortSignal,
) {
  const home = environment.skilletHome;
  const sandbox = stopAtSignal(await createSandbox({ settings: settings.sandbox, home }), signal);
  const card = await collectSafetyFacts(sandbox, home, settings, signal);
  return { ...card, held: card.probes.filter(({ holds }) => holds).length, of: card.probes.length };
}

function stopAtSignal(sandbox: Sandbox, signal: AbortSignal): Sandbox {
  return {
    ...sandbox,
    run: (command, options) =>
      sandbox.run(command, { ...options, signal: AbortSignal.any([signal, options.signal ?? signal]) }),
  };
}

async function collectSafetyFacts(
  sandbox: Sandbox,
  home: string,
  settings: Settings,
  signal: AbortSignal,
): Promise<SafetyFacts> {
  const { level, by } = sandbox;
  const client = settings.sandbox.program;
  const probed = await probeSandbox(sandbox, { home });
  if (level === "strong" && !signal.aborted)
    probed.push(...(await probeKilledHost({ settings: settings.sandbox, home })));
  probed.push(...(await probeWorkspace(sandbox, settings)));
  const probes = probed.sort((a, b) => compareText(a.id, b.id));
  const version = readProgramVersion(
    (sandbox.system === "own" && client) || findSystemProgram(by === "bubblewrap" ? "bwrap" : by),
  );
  return {
    level,
    by,
    ...(version === undefined ? {} : { version }),
    bounds: level === "none" ? "none" : await readResourceBounds(sandbox),
    user: formatUser(),
    probes,
  };
}

async function readResourceBounds(sandbox: Sandbox): Promise<SafetyFacts["bounds"]> {
  const limits = { seconds: 10, output: 1024, memory: 128 * 1024 * 1024, processes: 32, disk: 1024 * 1024 };
  const command = { argv: ["/bin/true"] as const, env: {}, folder: "/", mounts: [], network: [], limits };
  return (await sandbox.run(command, { onOutput: () => true })).isolation.bounds;
}

function formatUser(): string {
  if (!isRoot()) return `user ${process.getuid?.() ?? "?"}, who runs skillet`;
  return "a user id without an account, a different one for each run";
}

const BOUNDS_LABELS: Record<SafetyFacts["bounds"], string> = {
  tree: "memory and processes are limited for each run as a whole",
  process: "memory is monitored for each run as a whole: cgroups are not available here",
  none: "memory and processes are not limited",
};

const PROBE_TITLES: Readonly<Record<string, string>> = {
  "Q-01": "Variables and processes",
  "Q-02": "Two runs at once",
  "Q-13": "Files and kernel of the host",
  "Q-14": "Network",
  "Q-15": "End of a run",
  "Q-17": "Resource limits",
  "Q-27": "Writable workspace",
};

function printSafetyFacts(out: Printer, card: SafetyFacts, held: number): void {
  const { level, by, version = "", probes } = card;
  if (level === "none") {
    out.line`${out.red("✗")} ${out.bold("Code is not isolated")}`;
    out.line`  [sandbox] level = "none" in config.toml: code of skills runs as ${card.user},`;
    out.line`  with access to every file, process and network. Remove the line to be safe.`;
    return;
  }
  out.line`${out.bold("Sandbox")}  ${level}, by ${by} ${version}`;
  out.line`  code runs as ${card.user}`;
  out.line`  ${BOUNDS_LABELS[card.bounds]}`;
  let last = "";
  for (const { id, name, holds, detail } of probes) {
    if (id !== last) out.line`\n${out.bold(PROBE_TITLES[id] ?? id)}`;
    last = id;
    const mark = holds === undefined ? out.dim("·") : holds ? out.green("✓") : out.red("✗");
    out.line`${mark} ${holds === undefined ? out.dim(`${name}: not tried`) : name}`;
    if (holds !== true && detail !== "") out.line`    ${out.dim(detail)}`;
  }
  const untried = probes.filter(({ holds }) => holds === undefined).length;
  const rest = untried === 0 ? "" : `, ${untried} not tried`;
  out.line`\n${held} of ${formatCount(probes.length, "guarantee")} hold${rest}`;
}

interface ShowSandboxRequest {
  skill: Skill;
  asJson: boolean;
  workspace: string | undefined;
}

/** Prints the sandbox of a skill's scripts. */
export async function showSandbox(
  io: CommandIo,
  found: CommandHost,
  { skill, asJson, workspace }: ShowSandboxRequest,
): Promise<void> {
  const view = await describeSandbox(found, skill);
  if (asJson) return printJson(io.stdout, view);
  const out = createPrinter(io.stdout, io.env);
  const { level, by } = view.isolation;
  const row = (label: string, value: string) =>
    printHanging(out, out.text`  ${out.dim(label.padEnd(9))} `, [value], { indent: 12 });
  out.line`${out.bold(skill.name)}  sandbox of its scripts`;
  out.line``;
  row("level", level === "none" ? "none: NOT ISOLATED, code can do everything that you can" : `${level}, by ${by}`);
  row("starts in", view.folder);
  row("network", view.network.join(", ") || "none");
  row("variables", view.variables.join(", "));
  row("packages", formatSandboxPackages(view) || "only those of the system");
  row("limits", formatSandboxLimits(view));
  for (const [access, title] of ACCESS_TITLES) {
    const paths = view.paths.filter((path) => path.access === access);
    if (paths.length === 0) continue;
    out.line`\n${out.bold(title)}`;
    for (const path of [...paths.filter(isUserPath), ...paths.filter((path) => !isUserPath(path))])
      printHanging(out, out.text`  ${path.path.padEnd(21)} `, [formatPathOrigin(path, found)], {
        indent: 24,
        paint: out.dim,
      });
  }
  if (!view.isComplete) out.line`\n${ORIGIN_NOTES[level === "none" ? "none" : "image"]}`;
  const error = createPrinter(io.stderr, io.env);
  for (const notice of view.notices) printProblem(error, error.yellow("!"), notice, workspace);
}

const ACCESS_TITLES = [
  ["read", "Readable"],
  ["read-write", "Writable"],
] as const;

const ORIGIN_NOTES = {
  none: "And every other file that you can read or write.",
  image: "And the files of the sandbox's system or image.",
};

function isUserPath({ path }: SandboxPath): boolean {
  return path === SANDBOX_SKILL_FOLDER || path === WORKSPACE_FOLDER;
}

function formatPathOrigin({ path, access, from }: SandboxPath, found: CommandHost): string {
  if (path === SANDBOX_SKILL_FOLDER) return "the skill's files, as a copy";
  if (path === WORKSPACE_FOLDER)
    return `the workspace ${shortenHomePath(from ?? "", found)}; sockets and named pipes are masked`;
  if (from === undefined) return access === "read-write" ? "empty, private, removed afterwards" : "private";
  if (isInside(getSandboxFolder(found.home), from)) return "from skillet";
  return from === path ? "the system's" : from;
}

function formatSandboxPackages({ packages: { system, python, npm } }: SandboxView): string {
  const kinds = Object.entries({ system, Python: python, npm }).filter(([, names]) => names.length > 0);
  return kinds.map(([kind, names]) => `${kind}: ${names.join(", ")}`).join("; ");
}

function formatSandboxLimits({ limits }: SandboxView): string {
  const mib = (bytes: number) => `${formatNumber(Math.round(bytes / 1024 / 1024))} MiB`;
  return [
    `${limits.seconds} s`,
    `${mib(limits.memory)} memory`,
    formatCount(limits.processes, "process", "processes"),
    `${mib(limits.disk)} in each private writable folder`,
    `${mib(limits.output)} output`,
  ].join(", ");
}

/** Prints every check of a run and its context, without running anything. */
export async function printDryRun(
  io: CommandIo,
  found: DiscoverResult,
  request: UseRequest,
  { json: asJson, workspace }: CommonOptions,
): Promise<number> {
  const plan = await planUse(found.catalog, found, request);
  const isFine = plan.checks.every(({ refusals }) => refusals.length === 0);
  if (asJson) printJson(io.stdout, plan);
  else {
    const out = createPrinter(io.stdout, io.env);
    const short = (text: string) => shortenHome(text, found.around.home);
    const localize = (problem: Problem) => addWorkspaceToFix(problem, workspace);
    const looked = plan.checks.filter(({ isSkipped }) => !isSkipped);
    const widest = Math.max(...looked.map(({ name }) => name.length));
    for (const { refusals, ...check } of looked)
      printCheck(out, { ...check, refusals: refusals.map(localize) }, widest, short);
    if (looked.length < plan.checks.length) printSkippedChecks(out, looked);
    for (const warning of plan.warnings)
      printPlanProblem(out, out.text`${out.yellow("!")} `, localize(warning), 2, short);
    out.line``;
    out.line`${isFine ? "It would run. Nothing was run." : "It would be refused."}`;
    if (isFine) await (await import("./run.ts")).printCostEstimate(io, found, request.skill);
  }
  return isFine ? EXIT.fine : EXIT.refused;
}

/** A fixed width: the output may be read outside of a terminal. */
const DEFAULT_LAYOUT = { width: 80 };

function printCheck(out: Printer, check: PlanCheck, widest: number, short: (text: string) => string): void {
  const { name, detail, refusals } = check;
  const mark = refusals.length > 0 ? out.red("✗") : out.green("✓");
  const head = out.text`${mark} ${name.padEnd(widest)}  `;
  const indent = widest + 4;
  if (refusals.length === 0) printHanging(out, head, [short(detail)], { ...DEFAULT_LAYOUT, indent });
  for (const [index, problem] of refusals.entries())
    printPlanProblem(out, index === 0 ? head : " ".repeat(indent), problem, indent, short);
}

/** Prints a refusal or a warning with its code, and the fix below it. */
function printPlanProblem(
  out: Printer,
  prefix: SafeText | string,
  problem: Problem,
  indent: number,
  short: (text: string) => string,
): void {
  printHanging(out, prefix, [short(problem.message)], { ...DEFAULT_LAYOUT, indent, code: problem.code });
  const fix = formatFix(problem);
  if (fix !== "") printHanging(out, " ".repeat(indent), fix.split("\n").map(short), { ...DEFAULT_LAYOUT, indent });
}

/** Prints one line for all skipped checks: a hidden skill must not be described. */
function printSkippedChecks(out: Printer, looked: readonly PlanCheck[]): void {
  const isOff = looked.some(({ refusals }) => refusals.some(({ code }) => code === "disabled"));
  out.line`${out.dim("·")} the other checks were skipped: the skill is ${isOff ? "disabled" : "not available to this caller"}`;
}

/** Replaces the home folder in a text by `~`. */
function shortenHome(text: string, home: string): string {
  return home.length < 2
    ? text
    : text.replaceAll(home, (found, at) => (PATH_END.test(text[at + found.length] ?? "") ? "~" : found));
}

/** The characters that may follow a complete path. */
const PATH_END = /^[^\w.-]?$/;

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
