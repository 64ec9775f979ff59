import { ProtocolError, ProtocolErrorCode, type Resource } from "@modelcontextprotocol/server";
import { DIRECTORY_MIME_TYPE, type SkillReadResult, type SkillSource } from "@modelcontextprotocol/server/ext/skills";
import type { Session } from "../session/session.ts";
import { defined } from "../shared/defined.ts";
import { findHidden, reveal } from "../shared/hidden.ts";
import { byText, oneLine } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { statOf } from "../source/file.ts";
import { isReplaced } from "../source/file-list.ts";
import { RemoteSkill } from "../source/remote-skill.ts";
import { manifestSize, publish, servedFiles } from "./publish.ts";
import { attempt, fileBytes, filesNow, isText, mimeTypeOf } from "./publish-file.ts";
import { publishManifest, standardDescription } from "./publish-manifest.ts";
import { isStandardName, publishedNames } from "./publish-name.ts";
import { type Address, addressIn, SKILL_FILE, skillUri, uriOf } from "./publish-uri.ts";

export interface SkillSourceOptions {
  /** Contract: called once for what is not served of a skill, and again when that changes. */
  onNotice?(text: string): void;
}

/** The skills that this session's model may know of, for the Skills extension. */
export function skillSource(session: Session, { onNotice }: SkillSourceOptions = {}): SkillSource {
  const said = new Map<string, string | undefined>();
  const entryOf = async ({ name, skill }: Served) => {
    const published = await publish(skill, name);
    if (published && published.notice !== said.get(name)) {
      said.set(name, published.notice);
      if (published.notice !== undefined) onNotice?.(published.notice);
    }
    return published?.entry;
  };
  return {
    async list({ cursor }) {
      if (cursor === undefined) await session.reload();
      const { items, nextCursor } = pageOf(servedBy(session), cursor);
      const skills = [];
      for (const served of items) {
        const entry = await entryOf(served);
        if (entry) skills.push(entry);
        await new Promise(setImmediate); // Reading many files keeps nobody else waiting.
      }
      return { skills, ...defined({ nextCursor }) };
    },
    async get(uri) {
      const address = addressIn(uri);
      const skill = address?.path === SKILL_FILE ? await find(session, address.name) : undefined;
      return address && skill ? entryOf({ name: address.name, skill, uri }) : undefined;
    },
    async read(uri) {
      const address = addressIn(uri);
      const skill = address && (await find(session, address.name));
      return skill && contentOf(skill, address);
    },
    async readDirectory(uri, { cursor }) {
      const address = addressIn(uri.replace(/(?<=[^/])\/$/, "")); // Some write a slash behind a folder.
      const skill = address && (await find(session, address.name));
      if (!skill) return undefined;
      const children = childrenOf(address, [SKILL_FILE, ...(await servedFiles(skill, address.name))]);
      if (children.length === 0) return undefined;
      const { items, nextCursor } = pageOf(children, cursor);
      return { resources: items, ...defined({ nextCursor }) };
    },
    async listResources() {
      await session.reload();
      return servedBy(session).map(asResource);
    },
  };
}

/** What can stand behind `skill://`, as it is written there: the skills, then the files of the one that is named. */
export async function pathsFor(session: Session, value: string): Promise<string[]> {
  const served = servedBy(session);
  const named = served.find(({ name }) => value.startsWith(`${name}/`));
  const files = named ? await servedFiles(named.skill, named.name) : [];
  const uris = named
    ? [named.uri, ...files.flatMap((path) => uriOf(named.name, path) ?? [])]
    : served.map(({ uri }) => uri);
  return uris.map((uri) => uri.slice("skill://".length));
}

interface Served {
  uri: string;
  name: string;
  skill: Skill;
}

/** By address, so that a page begins where the one before it ended, whatever came or went meanwhile. */
function servedBy(session: Session): Served[] {
  const visible = new Set(session.visible());
  return [...publishedNames(session.catalog)]
    .filter(([, skill]) => visible.has(skill))
    .map(([name, skill]) => ({ name, skill, uri: skillUri(name) }));
}

/** What was just made is found too: a name that is not there, or not for everybody any more, is looked for once more. */
async function find(session: Session, name: string): Promise<Skill | undefined> {
  if (!isStandardName(name)) return undefined;
  const known = publishedNames(session.catalog).get(name);
  if (!known || isGone(known) || isReplaced(known) || !session.catalog.has(known.name)) await session.reload();
  const skill = publishedNames(session.catalog).get(name);
  return skill && session.visible().includes(skill) ? skill : undefined;
}

function isGone({ origin: { file } }: Skill): boolean {
  return file !== undefined && statOf(file) === undefined;
}

async function contentOf(skill: Skill, { name, path }: Address): Promise<SkillReadResult | undefined> {
  await skill.fetch?.([SKILL_FILE, path]);
  if (skill instanceof RemoteSkill && skill.name === name) return relayed(skill, path);
  if (path === SKILL_FILE) {
    const manifest = await publishManifest(skill, name);
    return manifest && { text: Buffer.from(manifest.bytes).toString("utf8"), mimeType: "text/markdown" };
  }
  if (!(await servedFiles(skill, name)).includes(path)) return undefined;
  const bytes = fileBytes(skill, path);
  if (!bytes) return undefined;
  const mimeType = defined({ mimeType: mimeTypeOf(path) });
  return isText(bytes) ? { text: Buffer.from(bytes).toString("utf8"), ...mimeType } : { bytes, ...mimeType };
}

/** A file of a remote skill, byte for byte as its server listed it. One with hidden characters is not passed on. */
function relayed(skill: RemoteSkill, path: string): SkillReadResult | undefined {
  const isListed = path === SKILL_FILE || filesNow(skill).some((file) => file.path === path);
  const bytes = isListed ? attempt(() => skill.read(path)) : undefined;
  if (!bytes) return undefined;
  const mimeType = defined({ mimeType: mimeTypeOf(path) });
  if (!isText(bytes)) return { bytes, ...mimeType };
  const text = Buffer.from(bytes).toString("utf8");
  return findHidden(text).length > 0 ? undefined : { text, ...mimeType };
}

/** The files and folders directly in a folder. */
function childrenOf({ name, path }: Address, paths: readonly string[]): Resource[] {
  const prefix = path === "" ? "" : `${path}/`;
  const children = new Map<string, Resource>();
  for (const below of paths) {
    if (!below.startsWith(prefix)) continue;
    const [child = "", ...deeper] = below.slice(prefix.length).split("/");
    const uri = uriOf(name, prefix + child) ?? "";
    const mimeType = deeper.length > 0 ? DIRECTORY_MIME_TYPE : mimeTypeOf(child);
    children.set(uri, { uri, name: reveal(child), ...defined({ mimeType }) });
  }
  return [...children.values()].sort((a, b) => byText(a.uri, b.uri));
}

function asResource({ uri, name, skill }: Served): Resource {
  return {
    uri,
    name,
    title: reveal(oneLine(skill.manifest.title ?? skill.name, 200)),
    description: standardDescription(skill.description, name),
    mimeType: "text/markdown",
    ...defined({ size: manifestSize(skill, name) }),
  };
}

const PAGE = 50;
const AFTER = "after:skill://";

function pageOf<T extends { uri: string }>(all: readonly T[], cursor?: string): { items: T[]; nextCursor?: string } {
  const after = cursor === undefined ? "" : afterIn(cursor);
  const rest = all.filter(({ uri }) => uri > after);
  const items = rest.slice(0, PAGE);
  const last = items.at(-1);
  return { items, ...(last && rest.length > PAGE ? { nextCursor: cursorAfter(last.uri) } : {}) };
}

function cursorAfter(uri: string): string {
  return Buffer.from(`after:${uri}`).toString("base64url");
}

function afterIn(cursor: string): string {
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  const uri = text.slice("after:".length);
  if (text.startsWith(AFTER) && cursorAfter(uri) === cursor) return uri;
  throw new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    "The cursor is none that was given out: list from the start",
  );
}
