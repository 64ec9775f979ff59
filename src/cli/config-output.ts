import { setTimeout as sleep } from "node:timers/promises";
import { createAuditLog } from "../capabilities/audit-log.ts";
import { formatTomlValue } from "../config/config-edit.ts";
import { type ConfigEntry, formatKeyPath } from "../config/config-file.ts";
import { CONFIG_KEYS, type ConfigKey } from "../config/config-keys.ts";
import type { DiscoverResult } from "../config/discover.ts";
import { isValueReference } from "../config/key-types.ts";
import {
  type LiveProcess,
  listLiveProcesses,
  type ProcessKind,
  readConfigFingerprint,
} from "../config/live-settings.ts";
import { resolveReference } from "../config/settings.ts";
import { FINDING_CODES } from "../errors/finding-codes.ts";
import { SkillError } from "../errors/problem.ts";
import type { AuditEntry } from "../host/capability-contract.ts";
import type { Finding, Skill } from "../skill/skill.ts";
import { type Environment, formatDisplayPath } from "../skill/source/locations.ts";
import type { SecretOwner } from "../store/trust.ts";
import { resolveRealPath } from "../util/safe-path.ts";
import { formatCount, quoteIfNeeded } from "../util/text.ts";
import { formatSkillAddress } from "./format.ts";
import { type CommandIo, createPrinter, type Printer, printHanging, printProblem } from "./output.ts";

/** A setting for display. Secret values are included on request only. */
export interface DisplayedSetting {
  key: string;
  value: unknown;
  from: "default" | ConfigEntry["owner"];
  file?: string;
  line?: number;
  /** A description of the default if it is not a value. */
  says?: string;
  isSecret?: true;
  /** True if a mask is shown in place of the value. */
  isHidden?: true;
  /** The reason why a reference cannot be resolved; null if it resolves. */
  problem?: string | null;
}

export function toDisplayedSetting(
  entry: ConfigEntry,
  environment: Environment,
  showSecrets: boolean,
): DisplayedSetting {
  const { row, parts, value, owner, file, line } = entry;
  const place = { key: formatKeyPath(parts), from: owner, file, line };
  if (!row.isSecret) return { ...place, value };
  const shown = { ...place, isSecret: true } as const;
  if (isValueReference(value)) return { ...shown, value, problem: findReferenceProblem(String(value), environment) };
  return showSecrets ? { ...shown, value } : { ...shown, value: formatSecretMask(parts), isHidden: true };
}

/** Returns the defaults of all keys that are not set. */
export function listDefaultSettings(entries: readonly ConfigEntry[]): DisplayedSetting[] {
  const set = new Set(entries.map(({ row }) => row));
  return GENERAL_KEYS.filter((row) => !set.has(row)).map((row) => {
    const { value = null, says } = getDefaultValue(row);
    return { key: row.path, value, from: "default", ...(says === undefined ? {} : { says }) };
  });
}

/** Prints a setting. With an environment: indented, with its file and line. */
export function printSetting(out: Printer, shown: DisplayedSetting, environment?: Environment): void {
  const { key, value, says, isHidden, problem, file, line } = shown;
  const text = value === null ? out.dim(says ?? "not set") : isHidden ? String(value) : formatTomlValue(value);
  const state = problem === undefined ? "" : problem === null ? out.green("  resolves") : out.red(`  ${problem}`);
  const path = environment && file !== undefined ? `  ${formatDisplayPath(file, environment)}:${line}` : "";
  out.line`${environment ? "  " : ""}${key} = ${text}${state}${out.dim(path)}`;
}

/** The mask of a secret, the same as in redacted text. */
function formatSecretMask(parts: readonly string[]): string {
  return parts[0] === "skills" ? `[${parts.at(-1)}]` : "(set)";
}

function findReferenceProblem(value: string, { skilletHome, env }: Environment): string | null {
  let problem: string | null = null;
  try {
    resolveReference(value, { home: skilletHome, env }, (why) => {
      problem = why;
      throw new Error(why);
    });
  } catch (error) {
    problem ??= String(error);
  }
  return problem;
}

/** The default of a key: a value, or a description of it. */
interface DefaultValue {
  value?: unknown;
  says?: string;
}

/** Returns the platform's default sandbox. */
export function getDefaultSandbox(platform: NodeJS.Platform): { level: string; engine: string } {
  return platform === "darwin" ? { level: "partial", engine: "seatbelt" } : { level: "strong", engine: "bubblewrap" };
}

export function getDefaultValue(row: ConfigKey): DefaultValue {
  return row.default === undefined ? (COMPUTED_DEFAULTS[row.path] ?? {}) : { value: row.default };
}

/** The keys that are not specific to a skill or model. */
const GENERAL_KEYS: readonly ConfigKey[] = CONFIG_KEYS.filter(({ path }) => !path.includes("*"));

/** Keys whose default is not in the table: it depends on the machine, or there is no value. */
const COMPUTED_DEFAULTS: Record<string, DefaultValue> = {
  "limits.tokens": { says: "no limit" },
  "limits.cost.run": { says: "no limit" },
  "limits.cost.day": { says: "no limit" },
  "limits.cost.month": { says: "no limit" },
  "engine.url": { says: "none; runs are files of this machine" },
  "engine.tenant_slots": { says: "no limit" },
  "engine.seal_key": { says: "none; texts of runs are stored as they are" },
  "server.public_url": { says: "none" },
  "docs.url": { says: "none" },
  "server.oauth.issuer": { says: "none; only tokens of this server are accepted" },
  "server.oauth.audience": { says: "server.public_url" },
  "server.oauth.jwks_url": { says: "the one in the metadata of the issuer" },
  "server.oauth.algorithms": { value: ["RS256", "PS256", "ES256", "EdDSA"] },
  "server.oauth.user_claim": { value: "sub" },
  "server.oauth.tenant_claim": { says: "none" },
  "server.oauth.scope_prefix": { says: "none" },
  "tools.web_search.provider": { says: "none; runs have no web_search" },
  "tools.web_search.url": { says: "the provider's own" },
  "tools.web_search.api_key": { says: "none" },
  "tools.web_search.results": { value: 5 },
  "disclosure.list_intents": { value: [] },
  "disclosure.shortlist": { says: "after a list of skills; otherwise only a clear match" },
  "sandbox.level": { value: getDefaultSandbox(process.platform).level },
  "sandbox.engine": { value: getDefaultSandbox(process.platform).engine },
  "sandbox.image": { says: "none; docker and podman need one" },
  "sandbox.program": { says: "the system's own docker or podman" },
  "capabilities.vault_passphrase_file": { says: "none; a key in the system keyring, or a file next to the vault" },
  "sandbox.workspace": { says: "none; tools of runs: read-write in your own workspace" },
};

/** The running servers and chats that follow a configuration file: those that have applied its content, and those that have not. */
interface ConfigReach {
  applied: readonly LiveProcess[];
  late: readonly LiveProcess[];
}

/** Waits until every running server and chat has applied a change of a configuration file, for two seconds at most. */
export async function waitUntilApplied(file: string, { skilletHome }: Environment): Promise<ConfigReach> {
  const end = performance.now() + MAX_WAIT_MS;
  for (;;) {
    const fingerprint = readConfigFingerprint(file);
    const followers = listLiveProcesses(skilletHome).filter((one) => getAppliedFingerprint(one, file) !== undefined);
    const applied = followers.filter((one) => getAppliedFingerprint(one, file) === fingerprint);
    const late = followers.filter((one) => !applied.includes(one));
    if (late.length === 0 || performance.now() > end) return { applied, late };
    await sleep(POLL_MS);
  }
}

/** Returns the fingerprint of a file that a process has applied; undefined if it does not follow the file. Symlinks are resolved. */
function getAppliedFingerprint({ applied }: LiveProcess, file: string): string | undefined {
  return Object.entries(applied).find(([path]) => resolveRealPath(path) === resolveRealPath(file))?.[1];
}

const MAX_WAIT_MS = 2000;
const POLL_MS = 25;

/** Records a change of permissions in the audit log, so that it shows when each running server applied it. */
export async function recordChange(
  { skilletHome }: Pick<Environment, "skilletHome">,
  method: string,
  about: Partial<AuditEntry>,
): Promise<void> {
  await createAuditLog(skilletHome).add({ run: "", skill: "", source: "", outcome: "ok", ...about, method });
}

interface PrintReachOptions {
  /** The consequence for runs under way. */
  runs: string;
  /** True after revoking something: then it is also reported that no server or chat is running. */
  isRevocation?: boolean;
}

/** Reports in which running servers and chats a change is in effect, if there was one. */
export function printConfigReach(
  io: CommandIo,
  reached: ConfigReach | undefined,
  { runs, isRevocation = false }: PrintReachOptions,
): void {
  const { applied = [], late = [] } = reached ?? {};
  if (!reached || (applied.length + late.length === 0 && !isRevocation)) return;
  const out = createPrinter(io.stdout, io.env);
  const where =
    applied.length > 0 ? `in effect in ${formatProcessKinds(applied)}; ` : late.length > 0 ? "" : `${NONE_RUNNING}; `;
  printHanging(out, "  ", [`${where}a run under way ${runs}`], { indent: 2, paint: out.dim });
  if (late.length === 0) return;
  const error = createPrinter(io.stderr, io.env);
  const pids = late.map(({ pid }) => pid).join(", ");
  const message = `${formatProcessKinds(late)} ${late.length === 1 ? "has" : "have"} not applied it yet`;
  printProblem(error, error.yellow("!"), { message, fix: `stop the processes that do not answer: ${pids}` });
}

/** Processes register in the home of their user: those of other users are unknown. */
const NONE_RUNNING = "none of your servers or chats is running";

/** Returns the running servers and chats for `--json`; empty if nothing was changed. */
export function toConfigReachJson(reached: ConfigReach | undefined) {
  if (!reached) return {};
  const { applied, late } = reached;
  const running = [...applied, ...late].map((one) => ({
    kind: one.kind,
    pid: one.pid,
    isApplied: !late.includes(one),
  }));
  return { running };
}

/** `2 running servers and 1 running chat`. */
function formatProcessKinds(processes: readonly LiveProcess[]): string {
  // A server registers once for each workspace that it serves.
  const number = (kind: ProcessKind) =>
    new Set(processes.filter((one) => one.kind === kind).map(({ pid }) => pid)).size;
  const kinds = (["server", "chat"] as const).filter((kind) => number(kind) > 0);
  return kinds.map((kind) => formatCount(number(kind), `running ${kind}`)).join(" and ");
}

/** The copy of a skill that receives the values configured for its name. */
type CopyChoice =
  /** This copy, by choice or because it is the only one. */
  | { is: "copy"; skill: Skill }
  /** The copy that has them already. */
  | { is: "kept"; owner: SecretOwner }
  /** No copy is found from here. */
  | { is: "none" };

interface CopyChoiceRequest {
  name: string;
  /** `NAME@SOURCE`, if the user specified it. */
  copy?: string | undefined;
  /** The command to run again, with `NAME@SOURCE` at its end. */
  command: string;
}

/**
 * Chooses the copy that receives the values configured for a name. Earlier grants stay with their copy. With several copies, the user chooses
 * at a terminal. Throws a SkillError with the choices in non-interactive use.
 */
export async function chooseCopy(
  io: CommandIo,
  found: DiscoverResult,
  { name, copy, command }: CopyChoiceRequest,
): Promise<CopyChoice> {
  const { catalog, grants } = found;
  const problem = grants.problem();
  if (problem !== undefined) throw new SkillError("grants-unreadable", { message: problem });
  if (copy !== undefined) return { is: "copy", skill: findNamedCopy(found, name, copy) };
  const owner = grants.getOwner(name);
  if (owner) return { is: "kept", owner };
  const copies = catalog.copies(name);
  const [first, ...others] = copies;
  if (!first) return { is: "none" };
  if (others.length === 0) return { is: "copy", skill: first };
  return { is: "copy", skill: await askForCopy(io, found, copies, command) };
}

function findNamedCopy(found: DiscoverResult, name: string, copy: string): Skill {
  const { catalog } = found;
  const skill = catalog.find(copy.includes("@") ? copy : `${name}@${copy}`);
  if (skill?.name === name) return skill;
  const copies = catalog.copies(name).map((one) => formatSkillAddress(one, found));
  throw new SkillError("not-found", {
    message: `"${copy}" is not a copy of the skill '${name}'`,
    ...(copies.length === 0
      ? { fix: "there is no copy; list the skills", commands: ["skillet list"] }
      : { fix: `copies: ${copies.join(", ")}` }),
  });
}

async function askForCopy(
  io: CommandIo,
  found: DiscoverResult,
  copies: readonly Skill[],
  command: string,
): Promise<Skill> {
  const addresses = copies.map((copy) => formatSkillAddress(copy, found));
  const [name = ""] = copies.map((copy) => copy.name);
  if (!io.ask) {
    throw new SkillError("usage", {
      message: `The skill '${name}' has ${copies.length} copies, and only one can receive its configured values: ${addresses.join(", ")}`,
      fix: `choose one: ${command} ${quoteIfNeeded(addresses[0] ?? "")}`,
    });
  }
  const out = createPrinter(io.stderr, io.env);
  for (const [at, copy] of copies.entries()) {
    const { file } = copy.origin;
    out.line`${String(at + 1)}  ${addresses[at] ?? ""}  ${out.dim(file === undefined ? "" : formatDisplayPath(file, found.around))}`;
  }
  const answer = ((await io.ask("Which copy? Enter a number: ")) ?? "").trim();
  const chosen = /^\d{1,3}$/.test(answer) ? copies[Number(answer) - 1] : undefined;
  if (chosen) return chosen;
  throw new SkillError("not-confirmed", { message: "no copy was chosen; nothing was set" });
}

/** Formats a configuration file for `--json`. */
export function toConfigFileJson({ path, exists }: { path: string; exists: boolean }) {
  return { file: path, exists };
}

export function printSettings(
  out: Printer,
  title: string,
  values: readonly DisplayedSetting[],
  environment: Environment,
): void {
  if (values.length === 0) return;
  out.line`\n${out.bold(title)}`;
  for (const value of values) printSetting(out, value, environment);
}

/** `example` is a command that sets a valid value. */
export function createConfigValueError({ code, message, fix, commands }: Finding, example?: string): SkillError {
  if (fix === undefined && commands === undefined && example !== undefined)
    return new SkillError("usage", { message, fix: "for example", commands: [example] });
  const steps = commands === undefined ? {} : { commands };
  return new SkillError("usage", { message, fix: fix ?? FINDING_CODES[code].fix, ...steps });
}
