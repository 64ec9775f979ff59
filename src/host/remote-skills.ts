import { hash } from "node:crypto";
import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Code } from "../codes/findings.ts";
import { SkillError } from "../shared/error.ts";
import { reason } from "../shared/inside.ts";
import { readRegularText } from "../shared/regular-file.ts";
import { count } from "../shared/text.ts";
import { isData } from "../skill/data.ts";
import { areFatal, type Diagnostic, diagnose } from "../skill/diagnostic.ts";
import { parseMarkdown } from "../skill/document.ts";
import { readSkill } from "../skill/read.ts";
import type { Surroundings } from "../source/locations.ts";
import { openRemoteFiles } from "../source/remote-files.ts";
import { type RemoteEntry, RemoteSkill, remoteSourceName } from "../source/remote-skill.ts";
import type { Loaded, Source } from "../source/source.ts";
import { replaceFile } from "./locked-file.ts";
import { type Launch, launchOf } from "./mcp/launch.ts";
import { MOST_SKILLS, ServersClosed, type SkillsListing, skillsServer } from "./mcp/skills-server.ts";
import type { McpSettings, Settings } from "./settings.ts";

/**
 * When a server is asked for its listing. `now`: always. `soon`: if it has expired, for at most 3 seconds. `background`: if it has expired,
 * while the old one is used. `cached`: never. The first listing of a server is waited for, except with `cached`.
 */
export type RemoteRefresh = "now" | "soon" | "background" | "cached";

export interface RemoteOptions {
  settings: Pick<Settings, "mcp">;
  around: Pick<Surroundings, "skilletHome" | "env">;
  refresh: RemoteRefresh;
}

/** Returns the servers whose skills are a source. */
export function remoteServers({ mcp }: Pick<Settings, "mcp">): [name: string, settings: McpSettings][] {
  return [...mcp].filter(([, { skills, enabled }]) => skills === true && enabled !== false);
}

/** Returns a source for each configured server with skills. */
export function remoteSources(options: RemoteOptions): Source[] {
  const root = remoteCache(options.around.skilletHome);
  const servers = remoteServers(options.settings);
  if (options.refresh === "now") sweep(root, new Set(servers.map(([name]) => name)));
  // All are asked at once: the catalog loads one source after the other.
  return servers.map(([name, settings]) => {
    const loading = loadServer(name, settings, join(root, name), options);
    return { name: remoteSourceName(name), scope: "integration", load: () => loading };
  });
}

/** Where listings and files of remote skills are kept: no folder in which skills are looked for. */
export function remoteCache(skilletHome: string): string {
  return join(skilletHome, "cache", "remote");
}

/** The first listing of a server, and one that is asked for. */
const LONG_MS = 10_000;
/** A new listing in the place of an expired one. */
const SHORT_MS = 3000;
/** After a failure a server is not asked again for so long. */
const RETRY_MS = 5 * 60_000;
/** What a server states as the life of its listing counts within these bounds. */
const LIFE_MS = { least: 5 * 60_000, most: 24 * 3600_000, unstated: 3600_000 };

/** A listing as it is kept. */
interface KeptListing extends SkillsListing {
  version: 1;
  /** Which server it is of: that of another command or address is not used. */
  where: string;
  /** When it was read; 0 if it never was. */
  at: number;
  failure?: { at: number; message: string; fix: string };
}

async function loadServer(
  name: string,
  settings: McpSettings,
  folder: string,
  { around, refresh }: RemoteOptions,
): Promise<Loaded> {
  let launch: Launch;
  try {
    launch = launchOf(name, settings, { home: around.skilletHome, env: around.env });
  } catch (error) {
    return { skills: [], diagnostics: [unavailable(name, problemOf(error))] };
  }
  const file = join(folder, "listing.json");
  const where = hash("sha256", JSON.stringify("url" in launch ? launch.url : launch.command));
  const before = readKept(file, where);
  if (refresh === "now" || (refresh !== "cached" && needsRefresh(before))) {
    const ms = refresh === "soon" && before && before.at > 0 ? SHORT_MS : LONG_MS;
    const refreshed = refreshListing(launch, { file, where, before, ms });
    if (refresh !== "background" || !before || before.at === 0) await refreshed;
  }
  return loadedFrom(name, launch, folder, file, where);
}

function needsRefresh(kept: KeptListing | undefined): boolean {
  if (!kept) return true;
  if (kept.failure && Date.now() - kept.failure.at < RETRY_MS) return false;
  const { ttlMs = LIFE_MS.unstated, at } = kept;
  return Date.now() - at > Math.min(Math.max(ttlMs, LIFE_MS.least), LIFE_MS.most);
}

interface Refresh {
  file: string;
  where: string;
  before: KeptListing | undefined;
  ms: number;
}

const REFRESHING = new Map<string, Promise<void>>();

/** Reads the listing again, once at a time. Contract: resolves; a failure is kept with the listing before it. */
function refreshListing(launch: Launch, { file, where, before, ms }: Refresh): Promise<void> {
  const known = REFRESHING.get(file);
  if (known) return known;
  const work = async () => {
    try {
      keep(file, { version: 1, where, at: Date.now(), ...(await skillsServer(launch).list(ms)) });
    } catch (error) {
      if (error instanceof ServersClosed) return; // The program ends: that says nothing about the server.
      const { failure: _, ...last } = before ?? { ...NO_LISTING, where };
      keep(file, { ...last, failure: { at: Date.now(), ...problemOf(error) } });
    }
  };
  const running = work().finally(() => REFRESHING.delete(file));
  REFRESHING.set(file, running);
  return running;
}

const NO_LISTING = { version: 1, at: 0, skills: [], invalid: [], isCut: false } as const satisfies Partial<KeptListing>;

function problemOf(error: unknown): { message: string; fix: string } {
  if (error instanceof SkillError) return { message: error.message, fix: error.fix ?? "" };
  return { message: reason(error), fix: "" };
}

/** Where the cache cannot be written, this process still has what it read. */
const UNWRITTEN = new Map<string, KeptListing>();
const LARGEST_FILE = 32 * 1024 * 1024;

function keep(file: string, kept: KeptListing): void {
  try {
    mkdirSync(join(file, ".."), { recursive: true, mode: 0o700 });
    replaceFile(file, JSON.stringify(kept));
    UNWRITTEN.delete(file);
  } catch {
    UNWRITTEN.set(file, kept);
  }
}

function readKept(file: string, where: string): KeptListing | undefined {
  const unwritten = UNWRITTEN.get(file);
  if (unwritten?.where === where) return unwritten;
  try {
    const kept: unknown = JSON.parse(readRegularText(file, { limit: LARGEST_FILE, refusesLinks: true }));
    if (!isData(kept) || kept["version"] !== 1 || kept["where"] !== where) return undefined;
    if (!Array.isArray(kept["skills"]) || !Array.isArray(kept["invalid"])) return undefined;
    return kept as unknown as KeptListing;
  } catch {
    return undefined;
  }
}

/** What was made of a listing, as long as its file is the same: a catalog is read again often, and its skills stay the same objects. */
const LOADED = new Map<string, { stamp: string; loaded: Loaded }>();

function loadedFrom(name: string, launch: Launch, folder: string, file: string, where: string): Loaded {
  const stamp = `${stampOf(file)} ${JSON.stringify(launch)}`;
  const known = LOADED.get(file);
  if (known?.stamp === stamp && !UNWRITTEN.has(file)) return known.loaded;
  const kept = readKept(file, where);
  const loaded = kept ? skillsOf(name, launch, folder, kept) : { skills: [], diagnostics: [] };
  LOADED.set(file, { stamp, loaded });
  return loaded;
}

function stampOf(file: string): string {
  try {
    const { mtimeMs, size, ino } = statSync(file);
    return `${mtimeMs} ${size} ${ino}`;
  } catch {
    return "";
  }
}

function skillsOf(server: string, launch: Launch, folder: string, kept: KeptListing): Loaded {
  const source = remoteSourceName(server);
  const diagnostics: Diagnostic[] = [];
  const say = (code: Code, message: string, fix?: string) =>
    diagnostics.push(...diagnose([{ code, message, ...(fix ? { fix } : {}) }], source));
  if (kept.failure) diagnostics.push(unavailable(server, kept.failure, kept));
  if (kept.isCut) say("remote-limit", `lists more than ${MOST_SKILLS} skills; only the first are used`);
  for (const { uri, reason: why } of kept.invalid) say("remote-entry", `lists ${uri}, which cannot be used: ${why}`);
  const skills = kept.skills.flatMap((entry) => {
    const findings = judgeEntry(entry);
    if (diagnostics.length < MOST_DIAGNOSTICS)
      diagnostics.push(...diagnose(findings.slice(0, MOST_FINDINGS), `${source} ${entry.uri}`));
    if (areFatal(findings, "load")) return [];
    const files = openRemoteFiles(join(folder, `${entry.frontmatter.name}-${hash("sha256", entry.uri).slice(0, 16)}`));
    const download = async (of: RemoteEntry, uri: string) => {
      try {
        return await skillsServer(launch).read(of, uri);
      } catch (error) {
        if (error instanceof SkillError && error.code === "remote-mismatch")
          expire(join(folder, "listing.json"), kept.where);
        throw error;
      }
    };
    return [new RemoteSkill({ server, entry, findings, files, download })];
  });
  return { skills, diagnostics };
}

/** Of one server, and of one skill: more would say the same. */
const MOST_DIAGNOSTICS = 100;
const MOST_FINDINGS = 5;

/** Judges the frontmatter as that of a file is judged. */
function judgeEntry({ frontmatter }: RemoteEntry) {
  const document = parseMarkdown(`---\n${JSON.stringify(frontmatter)}\n---\n${NOT_EMPTY}\n`);
  const { findings } = readSkill(document, { form: "folder", stem: String(frontmatter.name), profile: "load" });
  // Places in a text that nobody has.
  return findings.map(({ line: _line, column: _column, ...finding }) => finding);
}

const NOT_EMPTY = "…";

/** The listing is not that of the server any more: it is read again at the next opportunity. */
function expire(file: string, where: string): void {
  const kept = readKept(file, where);
  if (kept) keep(file, { ...kept, at: Math.min(kept.at, 1) });
}

function unavailable(
  server: string,
  { message, fix }: { message: string; fix: string },
  kept?: KeptListing,
): Diagnostic {
  const old =
    kept && kept.at > 0
      ? `; ${count(kept.skills.length, "skill")} of its last listing can be used as far as they are cached`
      : "";
  const [diagnostic] = diagnose(
    [
      {
        code: "remote-unavailable",
        message: `${message}${old}`,
        fix: `${fix ? `${fix}; then` : "then"} run: skillet list --refresh`,
      },
    ],
    remoteSourceName(server),
  );
  return diagnostic as Diagnostic;
}

/** Removes what is cached of servers that are not configured any more. */
function sweep(root: string, servers: ReadonlySet<string>): void {
  try {
    for (const name of readdirSync(root))
      if (!servers.has(name)) rmSync(join(root, name), { recursive: true, force: true });
  } catch {
    // Nothing is cached, or it cannot be removed: it is not used either way.
  }
}
