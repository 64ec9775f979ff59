import { statSync } from "node:fs";
import { dirname } from "node:path";
import type { Broker } from "../../capabilities/capability-broker.ts";
import type { Host } from "../../config/host.ts";
import type { SandboxSettings, WorkspaceAccess } from "../../config/limits.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import {
  type Endpoint,
  FIXED_VARIABLES,
  HOME_FOLDER,
  type Isolation,
  type Mount,
  type ProcessStream,
  type Sandbox,
  type SandboxCommand,
  type SandboxLimits,
  type SandboxOutcome,
  type SandboxRunOptions,
  WORKSPACE_FOLDER,
} from "../../host/sandbox-contract.ts";
import { createSandbox } from "../../sandbox/create-sandbox.ts";
import {
  getSandboxFolder,
  getSkillStoreFolder,
  isRoot,
  mapSandboxPath,
  type PackageFolders,
  resolvePackageFolders,
  storeSkillCopy,
} from "../../sandbox/sandbox-folders.ts";
import { hasFolder, type Skill } from "../../skill/skill.ts";
import { SANDBOX_SKILL_FOLDER, type SkillScript } from "../../skill/skill-code.ts";
import type { SkillCopy } from "../../skill/source/skill-copy.ts";
import type { ToolEffect, ToolSandbox } from "../../skill/tool.ts";
import { combineRedactors, createRedactor, type Redactor, type Secrets } from "../../util/redact.ts";
import { getUserHome } from "../../util/system.ts";
import { type CollectedOutput, collectBytes, collectOutput } from "../tools/tool-output.ts";
import type { HeldChanges, ReviewChanges, ReviewContext } from "./held-changes.ts";
import type { OpenWorkspace, OpenWorkspaceOptions } from "./open-workspace.ts";
import {
  type AccessRequest,
  checkWorkspace,
  chooseWorkspaceAccess,
  getCommandLimits,
  listGrantedSockets,
  listSkillPackages,
  mayDeclarePackages,
  parseEndpoints,
  resolveSkilletHome,
  type SkillPackages,
  watchOwnSkills,
} from "./sandbox-permissions.ts";
import type { LibraryAccess, SkillLibraryRequest } from "./skill-libraries.ts";

export interface RunSandboxOptions {
  skill?: Skill;
  /** The verified files of the skill. Without them, code sees no skill files. */
  copy?: SkillCopy;
  /** The script to run, if any. */
  script?: SkillScript;
  /** The variables that the skill declares, with their values. */
  secrets: Secrets;
  redactor: Redactor;
  /** The origin of the code. It decides the workspace access if the settings do not. */
  kind: AccessRequest["kind"];
  /** True if the script asks to write to the workspace and the user approved it. */
  writes?: boolean | undefined;
  onProgress(text: string): void;
  signal: AbortSignal;
  /** The broker for capabilities, if the skill has any. */
  broker?: Pick<Broker, "forCall" | "halted"> | undefined;
  /** Asks for approval of changes of sensitive paths. Without it they stay held. */
  review?: ReviewChanges | undefined;
  /** Returns the time spent waiting for users. It does not count towards limits. */
  waited?: (() => number) | undefined;
}

/** The shared state of all code of one run. Each command has its own sandbox in it. */
export interface RunSandbox {
  readonly sandbox: Sandbox;
  /** The root of the skill's own system, if it has packages. */
  readonly root: string | undefined;
  readonly mounts: readonly Mount[];
  /** The working directory of commands, as they see it: the workspace, else the skill's folder, else the home. */
  readonly folder: string;
  /** The user's folders that are visible, as code sees them. */
  readonly visiblePaths: { readonly workspace?: string; readonly skill?: string };
  /** The real path of the workspace, if visible. */
  readonly workspace: string | undefined;
  readonly access: WorkspaceAccess;
  /** True if changes of the workspace need approval. */
  readonly needsWriteApproval: boolean;
  readonly network: readonly Endpoint[];
  readonly redactor: Redactor;
  readonly review: ReviewChanges | undefined;
  /** Notices to show before anything runs. */
  readonly notices: readonly Problem[];
  /** Unavailable packages that scripts of the skill declare. */
  readonly problems: readonly Problem[];
  /** Returns the isolation of the last command; undefined before the first. */
  isolation(): Isolation | undefined;
  /** Records code that ran separately: a script of the skill. */
  recordScript(ran: { isolation: Isolation | undefined; planted: readonly Problem[] }): void;
  /** Runs a command. Throws a SkillError when it cannot be started. */
  run(argv: readonly [string, ...string[]], options?: RunCommandOptions): Promise<RunCommandOutcome>;
  /** Closes the sandbox. Returns the problems that its commands left behind. */
  close(): Problem[];
}

export interface RunCommandOptions {
  /** The tool call that the command belongs to, for its requests to the broker. */
  callId?: string | undefined;
  stdin?: string;
  /** Time limit. At most that of the settings. */
  seconds?: number;
  /** Output limit in bytes. At most that of the settings, unless the output is raw. */
  output?: number;
  /** The working directory, as mounts name it. */
  folder?: string;
  signal?: AbortSignal | undefined;
  /** True for an internal command: it gets none of the skill's variables. */
  isPlain?: boolean;
  /** Gives it the network access of the skill. Defaults to true, except for internal commands. */
  hasNetwork?: boolean;
  /** Read-only access, so that no changes need to be tracked. */
  access?: "read";
  /** Also returns the raw output bytes, without redaction: for internal use, never for a model. */
  isRaw?: boolean;
  env?: Readonly<Record<string, string>>;
  mounts?: readonly Mount[];
  onText?(stream: ProcessStream, text: string): void;
}

export interface RunCommandOutcome extends SandboxOutcome, CollectedOutput {
  /** Raw standard output, if requested. */
  bytes?: Buffer;
  limits: SandboxLimits;
}

/** Opens the sandbox of a run. Throws a SkillError when a part of it is unavailable. */
export async function openRunSandbox(host: Host, request: RunSandboxOptions): Promise<RunSandbox> {
  const { skill, copy, secrets, redactor } = request;
  const home = resolveSkilletHome(host);
  const { settings } = host;
  const own = skill && settings.skills.get(skill.name);
  const opened = [...settings.sandbox.network, ...(own?.network ?? [])];
  const network = parseEndpoints(opened);
  const sandbox = await resolveSandbox(host);
  if (skill) requireIsolation(skill, sandbox);
  const files = copy && skill && hasFolder(skill.origin) ? createSkillMounts(copy, home) : [];
  const packages = skill ? listSkillPackages(skill, host) : NO_PACKAGES;
  const root = skill && (await resolveSystemRoot(skill, packages.system, host, { ...request, sandbox }));
  const { libraries, problems } = await resolveRunLibraries(host, packages, {
    ...request,
    ...{ sandbox, mount: files[0], places: getPackageFolders(host) },
  });
  const {
    access,
    needsWriteApproval: asksToWrite,
    notices,
  } = chooseWorkspaceAccess(host, {
    ...{ skill, home, kind: request.kind, writes: request.writes },
  });
  const workspaceFolder = checkWorkspace(host, { access, home })?.folder;
  const whole: Mount[] =
    workspaceFolder === undefined || access === "none" ? [] : [{ from: workspaceFolder, to: WORKSPACE_FOLDER, access }];
  const mounts = [...files, ...whole];
  const start =
    mounts.length === 0 ? getFallbackFolder(sandbox) : access === "none" ? SANDBOX_SKILL_FOLDER : WORKSPACE_FOLDER;
  const seen = (path: string) => mapSandboxPath(sandbox, mounts, path);
  const places = {
    ...(access === "none" ? {} : { workspace: seen(WORKSPACE_FOLDER) }),
    ...(files.length === 0 ? {} : { skill: seen(SANDBOX_SKILL_FOLDER) }),
  };
  const env = createCommandEnv(secrets, { visiblePaths: places, workspace: whole[0]?.from });
  const planted: Problem[] = [];
  let isolation: Isolation | undefined;
  return {
    ...{
      sandbox,
      root,
      mounts,
      visiblePaths: places,
      access,
      needsWriteApproval: asksToWrite,
      network,
      redactor,
      notices,
      problems,
      review: request.review,
    },
    folder: seen(start),
    workspace: whole[0]?.from,
    isolation: () => isolation,
    close: () => planted,
    recordScript(ran) {
      isolation = ran.isolation ?? isolation;
      planted.push(...ran.planted);
    },
    async run(argv, options = {}) {
      const limits = limitCommand(getCommandLimits(host), options);
      const way =
        request.broker && !options.isPlain
          ? await createBrokerAccess(request.broker, options.callId, sandbox, home)
          : undefined;
      const hidden = way ? combineRedactors(redactor, createRedactor(way.secrets)) : redactor;
      const output = collectOutput(limits.output, hidden, options.onText ?? (() => {}));
      const raw = options.isRaw ? collectBytes(limits.output) : undefined;
      const granted = access === "none" ? access : (options.access ?? access);
      const { claim, workspace } = await claimWorkspace(host, {
        ...{ access: granted, home, sandbox },
        ...{ skill: skill?.name ?? "", sockets: listGrantedSockets(opened), seconds: limits.seconds },
      });
      let unsettled: Problem[] = [];
      const mayWrite = workspace.mounts.some((mount) => mount.access === "read-write") || sandbox.level === "none";
      const command: SandboxCommand = {
        argv,
        env: { ...(options.isPlain ? {} : { ...libraries.env, ...env }), ...options.env, ...way?.env },
        folder: options.folder ?? start,
        mounts: [
          ...[...files, ...libraries.mounts, ...workspace.mounts],
          ...[...(options.mounts ?? []), ...(way?.mounts ?? [])],
        ],
        ...(way ? { sockets: [way.door] } : {}),
        network: (options.hasNetwork ?? !options.isPlain) ? network : [],
        limits,
        ...(root === undefined ? {} : { root }),
        ...(workspace.user === undefined ? {} : { user: workspace.user }),
        ...(options.stdin === undefined ? {} : { stdin: options.stdin }),
      };
      const control: SandboxRunOptions = {
        onOutput: (stream, bytes) => (raw && stream === "stdout" ? raw.take(bytes) : output.take(stream, bytes)),
        signal: AbortSignal.any([request.signal, options.signal, way?.halted].filter((one) => one !== undefined)),
        ...(request.waited ? { getWaitedMs: request.waited } : {}),
        ...(claim ? { onMounted: claim.release } : {}),
      };
      let ended: SandboxOutcome;
      try {
        ended = await (mayWrite
          ? watchOwnSkills(host, () => sandbox.run(command, control))
          : sandbox.run(command, control));
      } finally {
        claim?.release();
        unsettled = await settleWorkspace(workspace, home, request.review);
        planted.push(...unsettled);
      }
      const { notices = [], ...outcome } = ended;
      isolation = outcome.isolation;
      const printed = output.end({ isCut: outcome.ending !== "exit" });
      return { ...outcome, ...printed, ...(raw ? raw.end() : {}), notices: [...notices, ...unsettled], limits };
    },
  };
}

/** Opens the workspace for one command: files that the user creates between two commands are not attributed to the second. */
async function claimWorkspace(
  host: Host,
  options: OpenWorkspaceOptions,
): Promise<{ claim?: { release(): void } | undefined; workspace: OpenWorkspace }> {
  const { access } = options;
  if (access === "none") return { workspace: NO_WORKSPACE };
  const { claimWorkspaceStart, openWorkspace } = await import("./open-workspace.ts");
  const claim = await claimWorkspaceStart(host, options);
  try {
    return { claim, workspace: openWorkspace(host, options) };
  } catch (error) {
    claim?.release();
    throw error;
  }
}

const NO_WORKSPACE: OpenWorkspace = { mounts: [], recovered: [], close: () => ({}) };

/** Holds changes of sensitive paths, and asks for approval. Those of a killed run are only reported. */
async function settleWorkspace(
  workspace: OpenWorkspace,
  home: string,
  review: ReviewChanges | undefined,
): Promise<Problem[]> {
  const { held, problem } = workspace.close();
  const problems: Problem[] = problem ? [problem] : [];
  if (!held && workspace.recovered.length === 0) return problems;
  const { settleHeldChanges } = await import("./held-changes.ts");
  const settle = (one: HeldChanges, isRecovered: boolean) =>
    settleHeldChanges(home, one, isRecovered ? { isRecovered } : { review });
  for (const one of workspace.recovered) problems.push(...(await settle(one, true)));
  if (held) problems.push(...(await settle(held, false)));
  return problems;
}

/** Creates the review of held changes. Its module is loaded when there are some. */
export function createLazyReview(context: ReviewContext): ReviewChanges {
  return async (held) => (await import("./held-changes.ts")).createChangeReview(context)(held);
}

/** Creates the access to the broker for one command: its socket, its token, and the program that talks to it. */
async function createBrokerAccess(
  broker: Pick<Broker, "forCall" | "halted">,
  callId: string | undefined,
  sandbox: Sandbox,
  home: string,
) {
  const { prepareCommandMounts } = await import("../../capabilities/sb-command.ts");
  const { door, env } = await broker.forCall(callId ?? "0").createSocket();
  const mounts = prepareCommandMounts(getSandboxFolder(home), sandbox);
  const folder = sandbox.mapsPaths ? undefined : dirname(mounts[0]?.from ?? "/");
  const path = folder === undefined ? {} : { PATH: `${folder}:${FIXED_VARIABLES["PATH"]}` };
  return { door, mounts, env: { ...env, ...path }, secrets: new Map(Object.entries(env)), halted: broker.halted };
}

/** Returns the environment variables of a command, in addition to those of every process. */
export function createCommandEnv(
  secrets: Secrets,
  { visiblePaths: places, workspace }: Pick<RunSandbox, "visiblePaths" | "workspace">,
): Record<string, string> {
  return {
    ...Object.fromEntries(secrets),
    ...(places.skill === undefined ? {} : { SKILL_DIR: places.skill }),
    ...(workspace === undefined || isOwnedByCaller(workspace) ? {} : createGitTrustEnv(places.workspace ?? "")),
  };
}

/** Returns true if the folder is the caller's, so that code, which runs as the caller, owns it too. */
function isOwnedByCaller(folder: string): boolean {
  return !isRoot() && statSync(folder).uid === process.getuid?.();
}

/** Marks a folder as safe for git: if the caller is root, code runs as another user, and git rejects folders of other users. */
function createGitTrustEnv(folder: string): Record<string, string> {
  return { GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: "safe.directory", GIT_CONFIG_VALUE_0: folder };
}

function limitCommand(limits: SandboxLimits, { seconds, output }: RunCommandOptions): SandboxLimits {
  return { ...limits, seconds: Math.min(limits.seconds, seconds ?? limits.seconds), output: output ?? limits.output };
}

/** Returns the working directory if there is no other: the home, unless that is a new one each time. */
function getFallbackFolder({ mapsPaths }: Sandbox): string {
  return mapsPaths ? HOME_FOLDER : "/";
}

function requireIsolation({ name, manifest }: Skill, { level }: Sandbox): void {
  if (level !== "none" || (!manifest.sensitive && manifest.capabilities.length === 0)) return;
  throw new SkillError("isolation-too-weak", {
    message: `Skill '${name}' is sensitive or has capabilities, and its code would run without isolation here`,
    fix: 'remove [sandbox] level = "none" from config.toml',
  });
}

function createSkillMounts(copy: SkillCopy, home: string): Mount[] {
  return [{ from: storeSkillCopy(copy, getSkillStoreFolder(home)), to: SANDBOX_SKILL_FOLDER, access: "read" }];
}

const NO_PACKAGES: SkillPackages = { system: [], python: [], npm: [] };

/** Returns the system root with the packages of the skill. A missing one is built now, before anything runs. */
async function resolveSystemRoot(
  { name }: Skill,
  packages: readonly string[],
  host: Host,
  { onProgress, signal, sandbox }: RunSandboxOptions & { sandbox: Sandbox },
): Promise<string | undefined> {
  if (packages.length === 0 || sandbox.system === "own") return undefined; // An image contains them or not.
  if (sandbox.by !== "bubblewrap") {
    throw new SkillError("system-packages-missing", {
      message: `Skill '${name}' needs system packages (${packages.join(", ")}), which are available only in a bubblewrap sandbox`,
      fix: "remove level and engine under [sandbox] in config.toml, or install the packages and remove them from the skill",
    });
  }
  const { buildPackages, findPackageRoot } = await import("../../sandbox/packages/apt-packages.ts");
  const packageFolders = getPackageFolders(host);
  let found = findPackageRoot(packages, packageFolders);
  if (found.kind === "missing") {
    await buildPackages(packages, packageFolders, { onProgress, signal });
    found = findPackageRoot(packages, packageFolders);
  }
  if (found.kind !== "missing") return found.kind === "layer" ? found.root : undefined;
  throw new SkillError("system-packages-missing", {
    message: `The packages ${packages.join(", ")} are not installed`,
    fix: found.fix,
    ...(found.commands ? { commands: found.commands } : {}),
  });
}

/** Resolves the Python and npm packages of a skill. Their module is loaded only if there may be some. */
async function resolveRunLibraries(
  host: Host,
  packages: SkillPackages,
  request: SkillLibraryRequest,
): Promise<{ libraries: LibraryAccess; problems: readonly Problem[] }> {
  const { python, npm } = packages;
  const mayNeedSome = python.length > 0 || npm.length > 0 || (request.copy && mayDeclarePackages(request.copy));
  if (!mayNeedSome) return { libraries: { mounts: [], env: {} }, problems: [] };
  const { resolveSkillLibraries } = await import("./skill-libraries.ts");
  return resolveSkillLibraries(host, packages, request);
}

/** Creates the sandbox for tools of skills: their processes get the same access as any command of the run. */
export function createToolSandbox(sandbox: RunSandbox, callId?: string): ToolSandbox {
  return {
    async run(argv, { stdin, seconds, signal } = {}) {
      const { ending, exitCode, stdout, stderr } = await sandbox.run(argv, {
        ...(stdin === undefined ? {} : { stdin }),
        ...(seconds === undefined ? {} : { seconds }),
        ...(sandbox.needsWriteApproval ? { access: "read" } : {}),
        ...{ signal, callId },
      });
      return { ending, stdout, stderr, ...(exitCode === undefined || exitCode === null ? {} : { exitCode }) };
    },
  };
}

/** The context of the tools of a run. */
export interface SandboxToolContext {
  sandbox: RunSandbox;
  host: Host;
  /** The skill of the run. */
  skill?: Skill;
  /** The broker for capabilities, if the skill has any. */
  broker?: Broker | undefined;
  /** Returns the time spent waiting for users. It does not count towards limits. */
  waited?(): number;
}

/** A change of the workspace, for an approval request. */
export const WORKSPACE_CHANGE: ToolEffect = { on: "workspace" };

/** Returns the package folders. Python and npm packages are stored next to the system packages. */
export function getPackageFolders(host: Host): PackageFolders {
  return resolvePackageFolders({ skilletHome: resolveSkilletHome(host), env: host.env ?? {} });
}

/** Returns the sandbox of the host, or the one that its settings choose. */
export async function resolveSandbox(host: Host): Promise<Sandbox> {
  if (host.sandbox) return host.sandbox;
  const settings = host.settings.sandbox;
  const where = { home: resolveSkilletHome(host), userHome: getUserHome(host.env ?? process.env) };
  const key = JSON.stringify(where);
  const opened = CREATED_SANDBOXES.get(settings) ?? new Map<string, Sandbox>();
  const sandbox = opened.get(key) ?? (await createSandbox({ settings, ...where }));
  CREATED_SANDBOXES.set(settings, opened.set(key, sandbox));
  return sandbox;
}

/** Created once for settings and a home: it caches facts about the machine. */
const CREATED_SANDBOXES = new WeakMap<SandboxSettings, Map<string, Sandbox>>();
