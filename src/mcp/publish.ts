import { hash } from "node:crypto";
import { join } from "node:path";
import type { Skill as Entry, SkillResourceEntry } from "@modelcontextprotocol/server/ext/skills";
import { inLine } from "../shared/prompt.ts";
import { count, grouped } from "../shared/text.ts";
import { isPrivate, type Skill } from "../skill/skill.ts";
import { statOf } from "../source/file.ts";
import { FileSkill } from "../source/file-skill.ts";
import { RemoteSkill } from "../source/remote-skill.ts";
import { fileBytes, filesNow } from "./publish-file.ts";
import { type PublishedManifest, publishManifest } from "./publish-manifest.ts";
import { SKILL_FILE, skillUri, uriOf } from "./publish-uri.ts";

/** A skill as the Skills extension of MCP has it. */
export interface Published {
  entry: Entry & { resources: SkillResourceEntry[] };
  /** What is not served of it, and why. */
  notice?: string;
}

/** What the standard lets a skill have: every client takes this much, and may refuse one that has more. */
export const LIMITS = { files: 512, bytes: 16 * 1024 * 1024 };

/**
 * The entry of a skill: its frontmatter, and every file with its digest. Nothing when its file is no skill any more.
 * What was read once is kept until a file changes, for everybody who asks.
 */
export async function publish(skill: Skill, name: string): Promise<Published | undefined> {
  if (skill instanceof RemoteSkill && skill.name === name) return { entry: relayedEntry(skill, name) };
  await skill.fetch?.("all");
  const files = filesNow(skill);
  const stamp = stampOf(
    skill,
    files.map(({ path }) => path),
  );
  const key = keyOf(skill, name);
  const kept = KEPT.get(key);
  if (kept && kept.stamp === stamp.text) return kept.published;
  const manifest = await publishManifest(skill, name);
  if (!manifest) return undefined;
  const published = entryOf({ skill, name, manifest, paths: files });
  if (!stamp.isFresh) keep(key, { published, stamp: stamp.text, own: stamp.own });
  return published;
}

/** The entry of a remote skill, made from that of its server: nothing is fetched before a client reads it. */
function relayedEntry(skill: RemoteSkill, name: string): Published["entry"] {
  const { frontmatter } = skill.entry;
  const uri = skillUri(name);
  const files = skill.files().files.flatMap(({ path }) => {
    const at = isPrivate(path) ? undefined : uriOf(name, path);
    const listed = skill.resourceAt(path);
    return at !== undefined && listed ? [{ uri: at, digest: listed.digest, size: listed.size }] : [];
  });
  const own = skill.resourceAt(SKILL_FILE) ?? { digest: "", size: 0 };
  return { uri, frontmatter, resources: [{ uri, digest: own.digest, size: own.size }, ...files] };
}

/** How long its SKILL.md is, where that is known without reading it. */
export function manifestSize(skill: Skill, name: string): number | undefined {
  if (skill instanceof RemoteSkill && skill.name === name) return skill.ownSize();
  const kept = KEPT.get(keyOf(skill, name));
  return kept && kept.own === stampOf(skill, []).own ? kept.published.entry.resources[0]?.size : undefined;
}

/** The files beside SKILL.md that are served, in order. */
export async function servedFiles(skill: Skill, name: string): Promise<readonly string[]> {
  const files = filesNow(skill).filter(({ path }) => uriOf(name, path) !== undefined);
  const total = files.reduce((sum, { size }) => sum + size, 0);
  const paths = files.map(({ path }) => path);
  if (paths.length < LIMITS.files && total * MOST_GROWTH < LIMITS.bytes - LARGEST_MANIFEST) return paths;
  const served = new Set((await publish(skill, name))?.entry.resources.map(({ uri }) => uri));
  return paths.filter((path) => served.has(uriOf(name, path) ?? ""));
}

/** A character that is written out takes at most five times the room. */
const MOST_GROWTH = 5;
const LARGEST_MANIFEST = 6 * 1024 * 1024;

interface Material {
  skill: Skill;
  name: string;
  manifest: PublishedManifest;
  paths: readonly { path: string; size: number }[];
}

// A skill over a limit is published with what fits: a client may refuse one that is larger, and then all of it would be lost. What
// does not fit is no part of what is published, and read_skill_resource still reads it.
function entryOf({ skill, name, manifest, paths }: Material): Published {
  const uri = skillUri(name);
  const resources: SkillResourceEntry[] = [resource(uri, manifest.bytes)];
  const leftOut: { path: string; why: string }[] = [];
  let room = LIMITS.bytes - manifest.bytes.length;
  for (const { path, size } of paths) {
    const leaveOut = (why: string) => leftOut.push({ path, why });
    const at = uriOf(name, path);
    if (at === undefined) leaveOut("its name cannot be written into an address");
    else if (resources.length >= LIMITS.files || size > room) leaveOut(OVER_LIMIT);
    else {
      const bytes = fileBytes(skill, path);
      if (!bytes) leaveOut(UNREADABLE);
      else if (bytes.length > room) leaveOut(OVER_LIMIT);
      else {
        room -= bytes.length;
        resources.push(resource(at, bytes));
      }
    }
  }
  const entry = { uri, frontmatter: manifest.frontmatter, resources };
  const [first] = leftOut;
  if (!first) return { entry };
  const which = leftOut.length === 1 ? "" : ", the first of them";
  const notice = `Skill '${inLine(skill.name, 64)}' is served over MCP without ${count(leftOut.length, "file")} of ${grouped(paths.length + 1)}${which} "${inLine(first.path, 200)}": ${first.why}`;
  return { entry, notice };
}

const OVER_LIMIT = `a skill may have ${LIMITS.files} files and 16 MiB there; keep what it does not need out of its folder`;

const UNREADABLE = "it cannot be read, is larger than 8 MiB, or is full of hidden characters";

function resource(uri: string, bytes: Uint8Array): SkillResourceEntry {
  return { uri, digest: `sha256:${hash("sha256", bytes)}`, size: bytes.length };
}

interface Kept {
  published: Published;
  stamp: string;
  /** That of its own file alone. */
  own: string;
}

// By place, not by skill: every session that reads the sources again has skills of its own, for the same files.
const KEPT = new Map<string, Kept>();
const MOST_KEPT = 50_000;
let keptFiles = 0;

function keep(key: string, kept: Kept): void {
  forget(key);
  KEPT.set(key, kept);
  keptFiles += kept.published.entry.resources.length;
  for (const oldest of KEPT.keys()) {
    if (keptFiles <= MOST_KEPT || oldest === key) break;
    forget(oldest);
  }
}

function forget(key: string): void {
  keptFiles -= KEPT.get(key)?.published.entry.resources.length ?? 0;
  KEPT.delete(key);
}

function keyOf({ origin, name: ownName }: Skill, name: string): string {
  return [origin.file ?? "", ownName, name].join("\0");
}

/** How near to now a file's time is when another change could leave it the same: clocks of file systems tick. */
const TICK_MS = 20;

/** What tells that a file of it changed, without reading it. `isFresh`: it cannot be told yet, or never. */
function stampOf(skill: Skill, paths: readonly string[]): { text: string; own: string; isFresh: boolean } {
  const { folder = "", file } = skill.origin;
  if (!(skill instanceof FileSkill) || file === undefined) return { text: "", own: "", isFresh: true };
  let newest = 0;
  const [own = "", ...others] = [file, ...paths.map((path) => join(folder, path))].map((path) => {
    const stats = statOf(path);
    if (!stats) return "-";
    newest = Math.max(newest, stats.ctimeMs);
    return `${stats.mtimeMs} ${stats.ctimeMs} ${stats.size} ${stats.ino}`;
  });
  const text = hash("sha256", [own, ...others, ...paths].join("\n"));
  return { text, own, isFresh: newest > Date.now() - TICK_MS };
}
