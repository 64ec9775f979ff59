import { hash } from "node:crypto";
import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { FindingCode } from "../errors/finding-codes.ts";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { parseMarkdownDocument, validateSkill } from "../skill/document.ts";
import { type Diagnostic, diagnose, hasFatalFindings, type LoadedSkills, type Source } from "../skill/skill.ts";
import type { Environment } from "../skill/source/locations.ts";
import {
  createRemoteFileCache,
  formatRemoteSourceName,
  type RemoteEntry,
  RemoteSkill,
} from "../skill/source/remote-skill.ts";
import { replaceFile } from "../store/locked-file.ts";
import { createFolder, readRegularText } from "../util/file-access.ts";
import { isJsonObject } from "../util/objects.ts";
import { formatCount } from "../util/text.ts";
import { type McpLaunch, resolveMcpLaunch } from "./mcp-connection.ts";
import type { McpSettings, Settings } from "./settings.ts";
import { getSkillsServer, MAX_SERVER_SKILLS, McpServersClosedError, type SkillsListing } from "./skills-server.ts";

/**
 * The time when a listing is refreshed. `now`: always. `soon`: if it has expired, waiting at most 3 seconds. `background`: if it has expired,
 * while the old one is used. `cached`: never. The first listing of a server is awaited, except with `cached`.
 */
export type RemoteRefresh = "now" | "soon" | "background" | "cached";

export interface RemoteSourceOptions {
  settings: Pick<Settings, "mcp">;
  environment: Pick<Environment, "skilletHome" | "env">;
  refresh: RemoteRefresh;
}

/** Returns the servers whose skills are a source. */
export function listRemoteServers({ mcp }: Pick<Settings, "mcp">): [name: string, settings: McpSettings][] {
  return [...mcp].filter(([, { skills, enabled }]) => skills === true && enabled !== false);
}

/** Returns a source for each configured server with skills. */
export function createRemoteSources(options: RemoteSourceOptions): Source[] {
  const root = getRemoteCacheFolder(options.environment.skilletHome);
  const servers = listRemoteServers(options.settings);
  if (options.refresh === "now") removeStaleCaches(root, new Set(servers.map(([name]) => name)));
  // All servers are asked in parallel: the catalog loads one source after the other.
  return servers.map(([name, settings]) => {
    const loading = loadServer(name, settings, join(root, name), options);
    return { name: formatRemoteSourceName(name), scope: "integration", load: () => loading };
  });
}

/** Returns the cache folder for listings and files of remote skills. It is not searched for skills. */
export function getRemoteCacheFolder(skilletHome: string): string {
  return join(skilletHome, "cache", "remote");
}

/** The timeout of the first listing of a server, and of an explicit refresh. */
const FIRST_LISTING_MS = 10_000;
/** The timeout for refreshing an expired listing. */
const REFRESH_MS = 3000;
/** The pause after a failure before a server is asked again. */
const RETRY_MS = 5 * 60_000;
/** The bounds of the lifetime that a server sets for its listing, and the default. */
const LISTING_TTL_MS = { min: 5 * 60_000, max: 24 * 3600_000, default: 3600_000 };

/** A listing as stored in the cache. */
interface StoredListing extends SkillsListing {
  version: 1;
  /** The hash of the command or address: a listing of another one is not used. */
  where: string;
  /** The time when it was read, or 0. */
  at: number;
  failure?: { at: number; message: string; fix: string };
}

async function loadServer(
  name: string,
  settings: McpSettings,
  folder: string,
  { environment, refresh }: RemoteSourceOptions,
): Promise<LoadedSkills> {
  let launch: McpLaunch;
  try {
    launch = resolveMcpLaunch(name, settings, { home: environment.skilletHome, env: environment.env });
  } catch (error) {
    return { skills: [], diagnostics: [diagnoseUnavailable(name, describeServerError(error))] };
  }
  const file = join(folder, "listing.json");
  const where = hash("sha256", JSON.stringify("url" in launch ? launch.url : launch.command));
  const before = readStoredListing(file, where);
  if (refresh === "now" || (refresh !== "cached" && needsRefresh(before))) {
    const ms = refresh === "soon" && before && before.at > 0 ? REFRESH_MS : FIRST_LISTING_MS;
    const refreshed = refreshListing(launch, { file, where, before, ms });
    if (refresh !== "background" || !before || before.at === 0) await refreshed;
  }
  return loadStoredListing(name, launch, folder, file, where);
}

function needsRefresh(kept: StoredListing | undefined): boolean {
  if (!kept) return true;
  if (kept.failure && Date.now() - kept.failure.at < RETRY_MS) return false;
  const { ttlMs = LISTING_TTL_MS.default, at } = kept;
  return Date.now() - at > Math.min(Math.max(ttlMs, LISTING_TTL_MS.min), LISTING_TTL_MS.max);
}

interface RefreshOptions {
  file: string;
  where: string;
  before: StoredListing | undefined;
  ms: number;
}

const PENDING_REFRESHES = new Map<string, Promise<void>>();

/** Refreshes a listing, one request at a time. Contract: never rejects; a failure is stored with the previous listing. */
function refreshListing(launch: McpLaunch, { file, where, before, ms }: RefreshOptions): Promise<void> {
  const known = PENDING_REFRESHES.get(file);
  if (known) return known;
  const work = async () => {
    try {
      storeListing(file, { version: 1, where, at: Date.now(), ...(await getSkillsServer(launch).list(ms)) });
    } catch (error) {
      if (error instanceof McpServersClosedError) return; // This process is ending: the server did not fail.
      const { failure: _, ...last } = before ?? { ...NO_LISTING, where };
      storeListing(file, { ...last, failure: { at: Date.now(), ...describeServerError(error) } });
    }
  };
  const running = work().finally(() => PENDING_REFRESHES.delete(file));
  PENDING_REFRESHES.set(file, running);
  return running;
}

const NO_LISTING = {
  version: 1,
  at: 0,
  skills: [],
  invalid: [],
  isCut: false,
} as const satisfies Partial<StoredListing>;

function describeServerError(error: unknown): { message: string; fix: string } {
  if (error instanceof SkillError) return error.problem;
  return { message: getErrorMessage(error), fix: "" };
}

/** Listings that could not be written to the cache, for this process only. */
const UNWRITTEN_LISTINGS = new Map<string, StoredListing>();
const MAX_LISTING_FILE_BYTES = 32 * 1024 * 1024;

function storeListing(file: string, kept: StoredListing): void {
  try {
    createFolder(join(file, ".."), 0o700);
    replaceFile(file, JSON.stringify(kept));
    UNWRITTEN_LISTINGS.delete(file);
  } catch {
    UNWRITTEN_LISTINGS.set(file, kept);
  }
}

function readStoredListing(file: string, where: string): StoredListing | undefined {
  const unwritten = UNWRITTEN_LISTINGS.get(file);
  if (unwritten?.where === where) return unwritten;
  try {
    const kept: unknown = JSON.parse(readRegularText(file, { limit: MAX_LISTING_FILE_BYTES, refusesLinks: true }));
    if (!isJsonObject(kept) || kept["version"] !== 1 || kept["where"] !== where) return undefined;
    if (!Array.isArray(kept["skills"]) || !Array.isArray(kept["invalid"])) return undefined;
    return kept as unknown as StoredListing;
  } catch {
    return undefined;
  }
}

/** The loaded skills of each unchanged listing file: catalogs are reloaded often, and the skill objects stay the same. */
const LOADED_LISTINGS = new Map<string, { fingerprint: string; loaded: LoadedSkills }>();

function loadStoredListing(name: string, launch: McpLaunch, folder: string, file: string, where: string): LoadedSkills {
  const fingerprint = `${readListingFingerprint(file)} ${JSON.stringify(launch)}`;
  const known = LOADED_LISTINGS.get(file);
  if (known?.fingerprint === fingerprint && !UNWRITTEN_LISTINGS.has(file)) return known.loaded;
  const kept = readStoredListing(file, where);
  const loaded = kept ? createRemoteSkills(name, launch, folder, kept) : { skills: [], diagnostics: [] };
  LOADED_LISTINGS.set(file, { fingerprint, loaded });
  return loaded;
}

function readListingFingerprint(file: string): string {
  try {
    const { mtimeMs, size, ino } = statSync(file);
    return `${mtimeMs} ${size} ${ino}`;
  } catch {
    return "";
  }
}

function createRemoteSkills(server: string, launch: McpLaunch, folder: string, kept: StoredListing): LoadedSkills {
  const source = formatRemoteSourceName(server);
  const diagnostics: Diagnostic[] = [];
  const report = (code: FindingCode, message: string, fix?: string) =>
    diagnostics.push(...diagnose([{ code, message, ...(fix ? { fix } : {}) }], source));
  if (kept.failure) diagnostics.push(diagnoseUnavailable(server, kept.failure, kept));
  if (kept.isCut) report("remote-limit", `lists more than ${MAX_SERVER_SKILLS} skills; only the first are used`);
  for (const { uri, reason: why } of kept.invalid) report("remote-entry", `lists ${uri}, which cannot be used: ${why}`);
  const skills = kept.skills.flatMap((entry) => {
    const findings = validateEntry(entry);
    if (diagnostics.length < MAX_DIAGNOSTICS)
      diagnostics.push(...diagnose(findings.slice(0, MAX_FINDINGS), `${source} ${entry.uri}`));
    if (hasFatalFindings(findings, "load")) return [];
    const files = createRemoteFileCache(
      join(folder, `${entry.frontmatter.name}-${hash("sha256", entry.uri).slice(0, 16)}`),
    );
    const download = async (of: RemoteEntry, uri: string) => {
      try {
        return await getSkillsServer(launch).read(of, uri);
      } catch (error) {
        if (error instanceof SkillError && error.code === "remote-mismatch")
          expireListing(join(folder, "listing.json"), kept.where);
        throw error;
      }
    };
    return [new RemoteSkill({ server, entry, findings, files, download })];
  });
  return { skills, diagnostics };
}

/** The maximum diagnostics per server and per skill. */
const MAX_DIAGNOSTICS = 100;
const MAX_FINDINGS = 5;

/** Validates the frontmatter with the same rules as that of a file. */
function validateEntry({ frontmatter }: RemoteEntry) {
  const document = parseMarkdownDocument(`---\n${JSON.stringify(frontmatter)}\n---\n${PLACEHOLDER_BODY}\n`);
  const { findings } = validateSkill(document, { form: "folder", stem: String(frontmatter.name), profile: "load" });
  // The positions refer to a text that does not exist.
  return findings.map(({ line: _line, column: _column, ...finding }) => finding);
}

const PLACEHOLDER_BODY = "…";

/** Marks a listing as expired, because the server has changed. */
function expireListing(file: string, where: string): void {
  const kept = readStoredListing(file, where);
  if (kept) storeListing(file, { ...kept, at: Math.min(kept.at, 1) });
}

function diagnoseUnavailable(
  server: string,
  { message, fix }: { message: string; fix: string },
  kept?: StoredListing,
): Diagnostic {
  const old =
    kept && kept.at > 0
      ? `; ${formatCount(kept.skills.length, "skill")} of its last listing can be used if they are cached`
      : "";
  const [diagnostic] = diagnose(
    [
      {
        code: "remote-unavailable",
        message: `${message}${old}`,
        fix: `${fix ? `${fix}; then` : "then"} run`,
        commands: ["skillet list --refresh"],
      },
    ],
    formatRemoteSourceName(server),
  );
  return diagnostic as Diagnostic;
}

/** Removes the caches of servers that are no longer configured. */
function removeStaleCaches(root: string, servers: ReadonlySet<string>): void {
  try {
    for (const name of readdirSync(root))
      if (!servers.has(name)) rmSync(join(root, name), { recursive: true, force: true });
  } catch {
    // There is no cache, or it cannot be removed: it is not used in either case.
  }
}
