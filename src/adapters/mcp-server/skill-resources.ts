import { hash } from "node:crypto";
import { join } from "node:path";
import { ProtocolError, ProtocolErrorCode, type Resource } from "@modelcontextprotocol/server";
import {
  DIRECTORY_MIME_TYPE,
  type Skill as Entry,
  type SkillReadResult,
  type SkillResourceEntry,
  type SkillSource,
} from "@modelcontextprotocol/server/ext/skills";
import type { Session } from "../../agent/session/session.ts";
import { isPrivateFile, type Skill } from "../../skill/skill.ts";
import { FileSkill } from "../../skill/source/file-skill.ts";
import { RemoteSkill } from "../../skill/source/remote-skill.ts";
import { isFolderReplaced } from "../../skill/source/skill-files.ts";
import { statIfExists } from "../../util/file-access.ts";
import { omitUndefined } from "../../util/objects.ts";
import { compareText, formatCount, formatNumber, truncateLine } from "../../util/text.ts";
import { escapeLine, findInvisible, sanitizeLine } from "../../util/untrusted-text.ts";
import {
  formatSkillFileUri,
  formatSkillUri,
  getMimeType,
  isStandardName,
  isTextBytes,
  listPublishedFiles,
  listPublishedNames,
  MANIFEST_FILE,
  type PublishedManifest,
  parseSkillUri,
  publishManifest,
  readPublishedFile,
  type SkillAddress,
  toStandardDescription,
  tryOrUndefined,
} from "./published-skill.ts";

interface SkillResourceOptions {
  /** Contract: called once for files of a skill that are not served, and again when that changes. */
  onNotice?(text: string): void;
}

/** Creates the source of the Skills extension: the skills that this session's model may know. */
export function createSkillResources(session: Session, { onNotice }: SkillResourceOptions = {}): SkillSource {
  const notices = new Map<string, string | undefined>();
  const entryOf = async ({ name, skill }: ServedSkill) => {
    const published = await publishSkill(skill, name);
    if (published && published.notice !== notices.get(name)) {
      notices.set(name, published.notice);
      if (published.notice !== undefined) onNotice?.(published.notice);
    }
    return published?.entry;
  };
  return {
    async list({ cursor }) {
      if (cursor === undefined) await session.reload();
      const { items, nextCursor } = createPage(listServedSkills(session), cursor);
      const skills = [];
      for (const served of items) {
        const entry = await entryOf(served);
        if (entry) skills.push(entry);
        await new Promise(setImmediate); // Yield, so that reading many files does not block others.
      }
      return { skills, ...omitUndefined({ nextCursor }) };
    },
    async get(uri) {
      const address = parseSkillUri(uri);
      const skill = address?.path === MANIFEST_FILE ? await findServedSkill(session, address.name) : undefined;
      return address && skill ? entryOf({ name: address.name, skill, uri }) : undefined;
    },
    async read(uri) {
      const address = parseSkillUri(uri);
      const skill = address && (await findServedSkill(session, address.name));
      return skill && readSkillContent(skill, address);
    },
    async readDirectory(uri, { cursor }) {
      const address = parseSkillUri(uri.replace(/(?<=[^/])\/$/, "")); // Some clients add a slash after a folder.
      const skill = address && (await findServedSkill(session, address.name));
      if (!skill) return undefined;
      const children = listFolderChildren(address, [MANIFEST_FILE, ...(await listServedFiles(skill, address.name))]);
      if (children.length === 0) return undefined;
      const { items, nextCursor } = createPage(children, cursor);
      return { resources: items, ...omitUndefined({ nextCursor }) };
    },
    async listResources() {
      await session.reload();
      return listServedSkills(session).map(toResource);
    },
  };
}

/** Completes the text after `skill://`: the skills, then the files of the named one. */
export async function completeSkillPaths(session: Session, value: string): Promise<string[]> {
  const served = listServedSkills(session);
  const named = served.find(({ name }) => value.startsWith(`${name}/`));
  const files = named ? await listServedFiles(named.skill, named.name) : [];
  const uris = named
    ? [named.uri, ...files.flatMap((path) => formatSkillFileUri(named.name, path) ?? [])]
    : served.map(({ uri }) => uri);
  return uris.map((uri) => uri.slice("skill://".length));
}

interface ServedSkill {
  uri: string;
  name: string;
  skill: Skill;
}

/** Sorted by URI, so that a page starts where the previous one ended, even if skills were added or removed. */
function listServedSkills(session: Session): ServedSkill[] {
  const visible = new Set(session.listVisible());
  return [...listPublishedNames(session.catalog)]
    .filter(([, skill]) => visible.has(skill))
    .map(([name, skill]) => ({ name, skill, uri: formatSkillUri(name) }));
}

/** Finds a skill, also one that was just created: an unknown or no longer visible name is looked up again. */
async function findServedSkill(session: Session, name: string): Promise<Skill | undefined> {
  if (!isStandardName(name)) return undefined;
  const known = listPublishedNames(session.catalog).get(name);
  if (!known || isFileGone(known) || isFolderReplaced(known) || !session.catalog.has(known.name))
    await session.reload();
  const skill = listPublishedNames(session.catalog).get(name);
  return skill && session.listVisible().includes(skill) ? skill : undefined;
}

function isFileGone({ origin: { file } }: Skill): boolean {
  return file !== undefined && statIfExists(file) === undefined;
}

async function readSkillContent(skill: Skill, { name, path }: SkillAddress): Promise<SkillReadResult | undefined> {
  await skill.fetch?.([MANIFEST_FILE, path]);
  if (skill instanceof RemoteSkill && skill.name === name) return readRelayedFile(skill, path);
  if (path === MANIFEST_FILE) {
    const manifest = await publishManifest(skill, name);
    return manifest && { text: Buffer.from(manifest.bytes).toString("utf8"), mimeType: "text/markdown" };
  }
  if (!(await listServedFiles(skill, name)).includes(path)) return undefined;
  const bytes = await readPublishedFile(skill, path);
  if (!bytes) return undefined;
  const mimeType = omitUndefined({ mimeType: getMimeType(path) });
  return isTextBytes(bytes) ? { text: Buffer.from(bytes).toString("utf8"), ...mimeType } : { bytes, ...mimeType };
}

/** Reads a file of a remote skill, byte for byte as its server lists it. A file with hidden characters is not served. */
async function readRelayedFile(skill: RemoteSkill, path: string): Promise<SkillReadResult | undefined> {
  const isListed = path === MANIFEST_FILE || (await listPublishedFiles(skill)).some((file) => file.path === path);
  const bytes = isListed ? await tryOrUndefined(() => skill.read(path)) : undefined;
  if (!bytes) return undefined;
  const mimeType = omitUndefined({ mimeType: getMimeType(path) });
  if (!isTextBytes(bytes)) return { bytes, ...mimeType };
  const text = Buffer.from(bytes).toString("utf8");
  return findInvisible(text).length > 0 ? undefined : { text, ...mimeType };
}

/** Lists the files and folders directly in a folder. */
function listFolderChildren({ name, path }: SkillAddress, paths: readonly string[]): Resource[] {
  const prefix = path === "" ? "" : `${path}/`;
  const children = new Map<string, Resource>();
  for (const below of paths) {
    if (!below.startsWith(prefix)) continue;
    const [child = "", ...deeper] = below.slice(prefix.length).split("/");
    const uri = formatSkillFileUri(name, prefix + child) ?? "";
    const mimeType = deeper.length > 0 ? DIRECTORY_MIME_TYPE : getMimeType(child);
    children.set(uri, { uri, name: escapeLine(child), ...omitUndefined({ mimeType }) });
  }
  return [...children.values()].sort((a, b) => compareText(a.uri, b.uri));
}

function toResource({ uri, name, skill }: ServedSkill): Resource {
  return {
    uri,
    name,
    title: escapeLine(truncateLine(skill.manifest.title ?? skill.name, 200)),
    description: toStandardDescription(skill.description, name),
    mimeType: "text/markdown",
    ...omitUndefined({ size: getManifestSize(skill, name) }),
  };
}

const PAGE_SIZE = 50;
const CURSOR_PREFIX = "after:skill://";

function createPage<T extends { uri: string }>(
  all: readonly T[],
  cursor?: string,
): { items: T[]; nextCursor?: string } {
  const after = cursor === undefined ? "" : parseCursor(cursor);
  const rest = all.filter(({ uri }) => uri > after);
  const items = rest.slice(0, PAGE_SIZE);
  const last = items.at(-1);
  return { items, ...(last && rest.length > PAGE_SIZE ? { nextCursor: formatCursor(last.uri) } : {}) };
}

function formatCursor(uri: string): string {
  return Buffer.from(`after:${uri}`).toString("base64url");
}

function parseCursor(cursor: string): string {
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  const uri = text.slice("after:".length);
  if (text.startsWith(CURSOR_PREFIX) && formatCursor(uri) === cursor) return uri;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, "Invalid cursor. List from the start");
}

/** A skill in the format of the MCP Skills extension. */
interface PublishedSkill {
  entry: Entry & { resources: SkillResourceEntry[] };
  /** The files that are not served, with the reason. */
  notice?: string;
}

/** Limits of the standard: clients accept this much, and may refuse a larger skill. */
export const PUBLISH_LIMITS = { files: 512, bytes: 16 * 1024 * 1024 };

/**
 * Creates the entry of a skill: its frontmatter, and every file with its digest. Undefined if its file stopped being a skill. The result is
 * cached for all clients until a file changes.
 */
export async function publishSkill(skill: Skill, name: string): Promise<PublishedSkill | undefined> {
  if (skill instanceof RemoteSkill && skill.name === name) return { entry: await createRelayedEntry(skill, name) };
  await skill.fetch?.("all");
  const files = await listPublishedFiles(skill);
  const stamp = fingerprintSkill(
    skill,
    files.map(({ path }) => path),
  );
  const key = createCacheKey(skill, name);
  const cached = SKILL_CACHE.get(key);
  if (cached && cached.stamp === stamp.text) return cached.published;
  const manifest = await publishManifest(skill, name);
  if (!manifest) return undefined;
  const published = await createPublishedEntry({ skill, name, manifest, paths: files });
  if (!stamp.isFresh) cacheSkill(key, { published, stamp: stamp.text, own: stamp.own });
  return published;
}

/** Creates the entry of a remote skill from that of its server: nothing is fetched until a client reads it. */
async function createRelayedEntry(skill: RemoteSkill, name: string): Promise<PublishedSkill["entry"]> {
  const { frontmatter } = skill.entry;
  const uri = formatSkillUri(name);
  const files = (await skill.files()).files.flatMap(({ path }) => {
    const at = isPrivateFile(path) ? undefined : formatSkillFileUri(name, path);
    const listed = skill.resourceAt(path);
    return at !== undefined && listed ? [{ uri: at, digest: listed.digest, size: listed.size }] : [];
  });
  const own = skill.resourceAt(MANIFEST_FILE) ?? { digest: "", size: 0 };
  return { uri, frontmatter, resources: [{ uri, digest: own.digest, size: own.size }, ...files] };
}

/** Returns the size of its SKILL.md, if known without reading it. */
function getManifestSize(skill: Skill, name: string): number | undefined {
  if (skill instanceof RemoteSkill && skill.name === name) return skill.ownSize();
  const cached = SKILL_CACHE.get(createCacheKey(skill, name));
  return cached && cached.own === fingerprintSkill(skill, []).own
    ? cached.published.entry.resources[0]?.size
    : undefined;
}

/** Lists the served files except SKILL.md, in order. */
export async function listServedFiles(skill: Skill, name: string): Promise<readonly string[]> {
  const files = (await listPublishedFiles(skill)).filter(({ path }) => formatSkillFileUri(name, path) !== undefined);
  const total = files.reduce((sum, { size }) => sum + size, 0);
  const paths = files.map(({ path }) => path);
  if (paths.length < PUBLISH_LIMITS.files && total * MAX_GROWTH < PUBLISH_LIMITS.bytes - MAX_MANIFEST_BYTES)
    return paths;
  const served = new Set((await publishSkill(skill, name))?.entry.resources.map(({ uri }) => uri));
  return paths.filter((path) => served.has(formatSkillFileUri(name, path) ?? ""));
}

/** An escaped character takes at most five times the space. */
const MAX_GROWTH = 5;
const MAX_MANIFEST_BYTES = 6 * 1024 * 1024;

interface SkillMaterial {
  skill: Skill;
  name: string;
  manifest: PublishedManifest;
  paths: readonly { path: string; size: number }[];
}

// A skill over a limit is published with the files that fit: a client may refuse a larger one, and lose all of it. The other files
// are not published; read_skill_resource still reads them.
async function createPublishedEntry({ skill, name, manifest, paths }: SkillMaterial): Promise<PublishedSkill> {
  const uri = formatSkillUri(name);
  const resources: SkillResourceEntry[] = [createResourceEntry(uri, manifest.bytes)];
  const omitted: { path: string; why: string }[] = [];
  let room = PUBLISH_LIMITS.bytes - manifest.bytes.length;
  for (const { path, size } of paths) {
    const omit = (why: string) => omitted.push({ path, why });
    const at = formatSkillFileUri(name, path);
    if (at === undefined) omit("its name cannot be part of a URI");
    else if (resources.length >= PUBLISH_LIMITS.files || size > room) omit(OVER_LIMIT_REASON);
    else {
      const bytes = await readPublishedFile(skill, path);
      if (!bytes) omit(UNREADABLE_REASON);
      else if (bytes.length > room) omit(OVER_LIMIT_REASON);
      else {
        room -= bytes.length;
        resources.push(createResourceEntry(at, bytes));
      }
    }
  }
  const entry = { uri, frontmatter: manifest.frontmatter, resources };
  const [first] = omitted;
  if (!first) return { entry };
  const which = omitted.length === 1 ? "" : ", the first one";
  const notice = `Skill '${sanitizeLine(skill.name, 64)}' is served over MCP without ${formatCount(omitted.length, "file")} of ${formatNumber(paths.length + 1)}${which} "${sanitizeLine(first.path, 200)}": ${first.why}`;
  return { entry, notice };
}

const OVER_LIMIT_REASON = `the limit is ${PUBLISH_LIMITS.files} files and 16 MiB; remove files that it does not need from its folder`;

const UNREADABLE_REASON = "it cannot be read, is larger than 8 MiB, or is full of hidden characters";

function createResourceEntry(uri: string, bytes: Uint8Array): SkillResourceEntry {
  return { uri, digest: `sha256:${hash("sha256", bytes)}`, size: bytes.length };
}

interface CachedSkill {
  published: PublishedSkill;
  stamp: string;
  /** The fingerprint of SKILL.md only. */
  own: string;
}

// By path, not by skill object: every session that reads the sources again has its own objects for the same files.
const SKILL_CACHE = new Map<string, CachedSkill>();
const MAX_CACHED_FILES = 50_000;
let cachedFileCount = 0;

function cacheSkill(key: string, entry: CachedSkill): void {
  dropCachedSkill(key);
  SKILL_CACHE.set(key, entry);
  cachedFileCount += entry.published.entry.resources.length;
  for (const oldest of SKILL_CACHE.keys()) {
    if (cachedFileCount <= MAX_CACHED_FILES || oldest === key) break;
    dropCachedSkill(oldest);
  }
}

function dropCachedSkill(key: string): void {
  cachedFileCount -= SKILL_CACHE.get(key)?.published.entry.resources.length ?? 0;
  SKILL_CACHE.delete(key);
}

function createCacheKey({ origin, name: ownName }: Skill, name: string): string {
  return [origin.file ?? "", ownName, name].join("\0");
}

/** A file modified this recently may change again without a new time: file system clocks have a resolution. */
const CLOCK_TICK_MS = 20;

/** Returns a fingerprint of its files without reading them. `isFresh`: too recent to rely on, or not supported. */
function fingerprintSkill(skill: Skill, paths: readonly string[]): { text: string; own: string; isFresh: boolean } {
  const { folder = "", file } = skill.origin;
  if (!(skill instanceof FileSkill) || file === undefined) return { text: "", own: "", isFresh: true };
  let newest = 0;
  const [own = "", ...others] = [file, ...paths.map((path) => join(folder, path))].map((path) => {
    const stats = statIfExists(path);
    if (!stats) return "-";
    newest = Math.max(newest, stats.ctimeMs);
    return `${stats.mtimeMs} ${stats.ctimeMs} ${stats.size} ${stats.ino}`;
  });
  const text = hash("sha256", [own, ...others, ...paths].join("\n"));
  return { text, own, isFresh: newest > Date.now() - CLOCK_TICK_MS };
}
