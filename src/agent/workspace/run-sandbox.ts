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
  mapSandboxPath,
  type ProcessStream,
  type Sandbox,
  type SandboxLimits,
  type SandboxOutcome,
  WORKSPACE_FOLDER,
} from "../../host/sandbox-contract.ts";
import { createSandbox } from "../../sandbox/create-sandbox.ts";
import {
  getSandboxFolder,
  getSkillStoreFolder,
  isRoot,
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
import { type HeldChanges, type ReviewChanges, settleHeldChanges } from "./held-changes.ts";
import { claimWorkspaceStart, type OpenWorkspace, openWorkspace } from "./open-workspace.ts";
import {
  type AccessRequest,
  checkWorkspace,
  chooseWorkspaceAccess,
  getCommandLimits,
  listGrantedSockets,
  listSkillPackages,
  parseEndpoints,
  resolveSkilletHome,
  type SkillPackages,
  watchOwnSkills,
} from "./sandbox-permissions.ts";
import { resolveSkillLibraries } from "./skill-libraries.ts";

export interface RunSandboxOptions {
  skill?: Skill;
  /** The skill's files as they were judged. Without them code sees none. */
  copy?: SkillCopy;
  /** The script that it is for, where it is for one. */
  script?: SkillScript;
  /** The variables that it declares, with their values. */
  secrets: Secrets;
  hiding: Redactor;
  /** Whose code it is, which decides over the workspace where the settings say nothing. */
  kind: AccessRequest["kind"];
  /** The script asks to write to the workspace, and the user approved it. */
  writes?: boolean | undefined;
  onProgress(text: string): void;
  signal: AbortSignal;
  /** Who stands between its code and capabilities, where it has any. */
  broker?: Pick<Broker, "door" | "halted"> | undefined;
  /** Asks whether changes of sensitive paths may be applied. Without it they stay held. */
  review?: ReviewChanges | undefined;
  /** How long was waited for people, which is nobody's time. */
  waited?: (() => number) | undefined;
}

/** What all code of one run shares. Each command has a sandbox of its own in it. */
export interface RunSandbox {
  readonly sandbox: Sandbox;
  /** The root of a system of its own, where the skill has packages. */
  readonly root: string | undefined;
  readonly mounts: readonly Mount[];
  /** Where commands start, as they see it: in the workspace, else in the skill's folder, else at home. */
  readonly folder: string;
  /** What of the user's there is, as code sees it. */
  readonly places: { readonly workspace?: string; readonly skill?: string };
  /** The real path of the workspace, where code sees it. */
  readonly workspace: string | undefined;
  readonly access: WorkspaceAccess;
  /** Whether somebody is to be asked before the workspace is changed. */
  readonly asksToWrite: boolean;
  readonly network: readonly Endpoint[];
  readonly hiding: Redactor;
  readonly review: ReviewChanges | undefined;
  /** What somebody should know before anything is run. */
  readonly notices: readonly Problem[];
  /** Packages that scripts of the skill declare and that cannot be had. */
  readonly problems: readonly Problem[];
  /** How the last command was kept apart, once there was one. */
  isolation(): Isolation | undefined;
  /** Takes note of code that ran beside: a script of the skill. */
  note(ran: { isolation: Isolation | undefined; planted: readonly Problem[] }): void;
  /** Throws a SkillError when it cannot be started. */
  run(argv: readonly [string, ...string[]], options?: RunCommandOptions): Promise<RunCommandOutcome>;
  /** Gives what its commands left that nobody should obey. */
  close(): Problem[];
}

export interface RunCommandOptions {
  stdin?: string;
  /** At most that of the settings. */
  seconds?: number;
  /** Bytes of output, at most those of the settings unless it is kept raw. */
  output?: number;
  /** Where it starts, as mounts name it. */
  folder?: string;
  signal?: AbortSignal | undefined;
  /** A command of ours: it gets none of the skill's variables. */
  isPlain?: boolean;
  /** Whether what is open to the skill is open to it. When left out: unless it is ours. */
  hasNetwork?: boolean;
  /** It only reads, so that nothing has to be watched. */
  access?: "read";
  /** Also gives the bytes that it printed as they are, secrets and all: for ourselves, never for a model. */
  isRaw?: boolean;
  env?: Readonly<Record<string, string>>;
  mounts?: readonly Mount[];
  onText?(stream: ProcessStream, text: string): void;
}

export interface RunCommandOutcome extends SandboxOutcome, CollectedOutput {
  /** What it printed on its standard output, where that was asked for. */
  bytes?: Buffer;
  limits: SandboxLimits;
}

/** Throws a SkillError when something of it cannot be had. */
export async function openRunSandbox(host: Host, request: RunSandboxOptions): Promise<RunSandbox> {
  const { skill, copy, secrets, hiding } = request;
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
  const { libraries, problems } = await resolveSkillLibraries(host, packages, {
    ...request,
    ...{ sandbox, mount: files[0], places: getPackageFolders(host) },
  });
  const { access, asksToWrite, notices } = chooseWorkspaceAccess(host, {
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
  const env = createCommandEnv(secrets, { places, workspace: whole[0]?.from });
  const planted: Problem[] = [];
  let isolation: Isolation | undefined;
  return {
    ...{
      sandbox,
      root,
      mounts,
      places,
      access,
      asksToWrite,
      network,
      hiding,
      notices,
      problems,
      review: request.review,
    },
    folder: seen(start),
    workspace: whole[0]?.from,
    isolation: () => isolation,
    close: () => planted,
    note(ran) {
      isolation = ran.isolation ?? isolation;
      planted.push(...ran.planted);
    },
    async run(argv, options = {}) {
      const limits = limitCommand(getCommandLimits(host), options);
      const way =
        request.broker && !options.isPlain ? await createBrokerAccess(request.broker, sandbox, home) : undefined;
      const hidden = way ? combineRedactors(hiding, createRedactor(way.secrets)) : hiding;
      const output = collectOutput(limits.output, hidden, options.onText ?? (() => {}));
      const raw = options.isRaw ? collectBytes(limits.output) : undefined;
      const given = access === "none" ? access : (options.access ?? access);
      const claim = given === "none" ? undefined : await claimWorkspaceStart(host, { access: given, home, sandbox });
      // Opened anew each time: what the user makes between two commands is neither open to the second nor its doing.
      let workspace: OpenWorkspace;
      try {
        workspace = openWorkspace(host, {
          ...{ access: given, home, sandbox },
          ...{ skill: skill?.name ?? "", sockets: listGrantedSockets(opened), seconds: limits.seconds },
        });
      } catch (error) {
        claim?.release();
        throw error;
      }
      let left: Problem[] = [];
      const mayWrite = workspace.mounts.some((mount) => mount.access === "read-write") || sandbox.level === "none";
      const begin = () =>
        sandbox.run(
          {
            argv,
            env: { ...(options.isPlain ? {} : { ...libraries.env, ...env }), ...options.env, ...way?.env },
            folder: options.folder ?? start,
            mounts: [
              ...[...files, ...libraries.mounts, ...workspace.mounts],
              ...[...(options.mounts ?? []), ...(way?.mounts ?? [])],
            ],
            ...(way ? { doors: [way.door] } : {}),
            network: (options.hasNetwork ?? !options.isPlain) ? network : [],
            limits,
            ...(root === undefined ? {} : { root }),
            ...(workspace.user === undefined ? {} : { user: workspace.user }),
            ...(options.stdin === undefined ? {} : { stdin: options.stdin }),
          },
          {
            onOutput: (stream, bytes) => (raw && stream === "stdout" ? raw.take(bytes) : output.take(stream, bytes)),
            signal: AbortSignal.any([request.signal, options.signal, way?.halted].filter((one) => one !== undefined)),
            ...(request.waited ? { waited: request.waited } : {}),
            ...(claim ? { onMounted: claim.release } : {}),
          },
        );
      const { notices: said = [], ...outcome } = await (mayWrite ? watchOwnSkills(host, begin) : begin()).finally(
        async () => {
          claim?.release();
          left = await settleWorkspace(workspace, home, request.review);
          planted.push(...left);
        },
      );
      isolation = outcome.isolation;
      const printed = output.end({ isCut: outcome.ending !== "exit" });
      return { ...outcome, ...printed, ...(raw ? raw.end() : {}), notices: [...said, ...left], limits };
    },
  };
}

/** Holds changes of sensitive paths, and asks about them. Those of a run that was killed are only reported. */
async function settleWorkspace(
  workspace: OpenWorkspace,
  home: string,
  review: ReviewChanges | undefined,
): Promise<Problem[]> {
  const { held, problem } = workspace.close();
  const settle = (one: HeldChanges, isRecovered: boolean) =>
    settleHeldChanges(home, one, isRecovered ? { isRecovered } : { review });
  const left: Problem[] = problem ? [problem] : [];
  for (const one of workspace.recovered) left.push(...(await settle(one, true)));
  if (held) left.push(...(await settle(held, false)));
  return left;
}

/** The way to the broker, for one command: its socket, its token, and the command that speaks with it. */
async function createBrokerAccess(broker: Pick<Broker, "door" | "halted">, sandbox: Sandbox, home: string) {
  const { prepareCommandMounts } = await import("../../capabilities/sb-command.ts");
  const { door, env } = await broker.door();
  const mounts = prepareCommandMounts(getSandboxFolder(home), sandbox);
  const folder = sandbox.mapsPaths ? undefined : dirname(mounts[0]?.from ?? "/");
  const path = folder === undefined ? {} : { PATH: `${folder}:${FIXED_VARIABLES["PATH"]}` };
  return { door, mounts, env: { ...env, ...path }, secrets: new Map(Object.entries(env)), halted: broker.halted };
}

/** Returns the variables of a command, besides those that every process has. */
export function createCommandEnv(
  secrets: Secrets,
  { places, workspace }: Pick<RunSandbox, "places" | "workspace">,
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

/** Where the caller is root, code is somebody else, and git looks into nobody's folder but its own user's unless it is told. */
function createGitTrustEnv(folder: string): Record<string, string> {
  return { GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: "safe.directory", GIT_CONFIG_VALUE_0: folder };
}

function limitCommand(limits: SandboxLimits, { seconds, output }: RunCommandOptions): SandboxLimits {
  return { ...limits, seconds: Math.min(limits.seconds, seconds ?? limits.seconds), output: output ?? limits.output };
}

/** Where there is nothing to start in: at home, but where that is another one each time. */
function getFallbackFolder({ mapsPaths }: Sandbox): string {
  return mapsPaths ? HOME_FOLDER : "/";
}

function requireIsolation({ name, manifest }: Skill, { level }: Sandbox): void {
  if (level !== "none" || (!manifest.sensitive && manifest.capabilities.length === 0)) return;
  throw new SkillError("isolation-too-weak", {
    message: `Skill '${name}' is sensitive or has capabilities, and nothing keeps its code apart here`,
    fix: 'remove [sandbox] level = "none" from config.toml',
  });
}

function createSkillMounts(copy: SkillCopy, home: string): Mount[] {
  return [{ from: storeSkillCopy(copy, getSkillStoreFolder(home)), to: SANDBOX_SKILL_FOLDER, access: "read" }];
}

/** What is fetched for Python and npm is kept beside the system packages. */
export function getPackageFolders(host: Host): PackageFolders {
  return resolvePackageFolders({ skilletHome: resolveSkilletHome(host), env: host.env ?? {} });
}

/** The sandbox that the host gives, or the one that its settings choose. */
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

/** Opened once for settings and a home: what it found out of the machine is kept. */
const CREATED_SANDBOXES = new WeakMap<SandboxSettings, Map<string, Sandbox>>();

const NO_PACKAGES: SkillPackages = { system: [], python: [], npm: [] };

/** The system with the packages that the skill declares or is given: found, or built now, before anything runs. */
async function resolveSystemRoot(
  { name }: Skill,
  packages: readonly string[],
  host: Host,
  { onProgress, signal, sandbox }: RunSandboxOptions & { sandbox: Sandbox },
): Promise<string | undefined> {
  if (packages.length === 0 || sandbox.system === "own") return undefined; // An image has them, or it has not.
  if (sandbox.by !== "bubblewrap") {
    throw new SkillError("packages-missing", {
      message: `Skill '${name}' needs system packages (${packages.join(", ")}), which are brought only into a sandbox of bubblewrap`,
      fix: "remove level and engine under [sandbox] in config.toml, or install the packages and take them out of the skill",
    });
  }
  const { buildPackages, findPackageRoot } = await import("../../sandbox/packages/apt-packages.ts");
  const places = getPackageFolders(host);
  let found = findPackageRoot(packages, places);
  if (found.kind === "missing") {
    await buildPackages(packages, places, { onProgress, signal });
    found = findPackageRoot(packages, places);
  }
  if (found.kind !== "missing") return found.kind === "layer" ? found.root : undefined;
  throw new SkillError("packages-missing", {
    message: `The packages ${packages.join(", ")} are not there`,
    fix: found.fix,
  });
}

/** The sandbox of a run for the tools that skills bring: what they start has what any command of the run has. */
export function createToolSandbox(enclosure: RunSandbox): ToolSandbox {
  return {
    async run(argv, { stdin, seconds, signal } = {}) {
      const { ending, exitCode, stdout, stderr } = await enclosure.run(argv, {
        ...(stdin === undefined ? {} : { stdin }),
        ...(seconds === undefined ? {} : { seconds }),
        ...(enclosure.asksToWrite ? { access: "read" } : {}),
        signal,
      });
      return { ending, stdout, stderr, ...(exitCode === undefined || exitCode === null ? {} : { exitCode }) };
    },
  };
}

/** Where the tools of a run work, and for whom. */
export interface SandboxToolContext {
  enclosure: RunSandbox;
  host: Host;
  /** Whose run it is. */
  skill?: Skill;
  /** Who stands between it and capabilities, where it has any. */
  broker?: Broker | undefined;
  /** How long was waited for people, which is nobody's time. */
  waited?(): number;
}

/** A change of the workspace, for whoever is to agree to it. */
export const WORKSPACE_CHANGE: ToolEffect = { on: "workspace" };
