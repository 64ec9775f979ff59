import { lstatSync, realpathSync, type Stats } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { type ClientSkillText, type ListingClient, simulateClientListing } from "../../catalog/client-listings.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { getErrnoCode, getErrorMessage, SkillError } from "../../errors/problem.ts";
import {
  CLIENTS,
  type ClientFacts,
  type ClientName,
  type CopyRules,
  getProgramTitle,
  NATIVE_CLIENT_NAMES,
} from "../../skill/clients.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import { isTextOnly } from "../../skill/skill-code.ts";
import {
  CLIENT_IDS,
  type ClientEnvironment,
  type ClientId,
  type Environment,
  findReadingClients,
  formatHomePath,
  getSkillClient,
  type Location,
  resolveUserFolder,
  type SkillClient,
} from "../../skill/source/locations.ts";
import { type ClientCopy, type ClientCopyStore, hasOriginal } from "../../store/copy-records.ts";
import { hashFolder } from "../../store/folder-copy.ts";
import { filterAsync } from "../../util/async.ts";
import { statIfExists } from "../../util/file-access.ts";
import { isInside, resolveRealPath } from "../../util/safe-path.ts";
import { compareText, findNearest } from "../../util/text.ts";
import type { CopyStatus } from "./skill-copies.ts";

/** A client that finds skills in its own folders. */
export interface NativeClient extends Omit<CopyRules, "title" | "sharesFoldersOf"> {
  title: string;
  /** Its folder of skills for all projects, and for one. */
  user(environment: ClientEnvironment): string;
  project(environment: ClientEnvironment): string;
  /** Frontmatter keys that it reads in addition to the standard; all others go under `metadata`. */
  keys: readonly string[];
  /** Names that it reserves. */
  reserved: readonly string[];
  /** All folders at this level in which it finds skills: its own, and those of other clients. */
  reads(level: "user" | "project", environment: ClientEnvironment): string[];
}

/** Every client that copies can be made for, from THE table of clients. */
export const NATIVE_CLIENTS: Readonly<Record<string, NativeClient>> = Object.fromEntries(
  NATIVE_CLIENT_NAMES.map((name) => [name, createNativeClient(name)]),
);

function createNativeClient(name: ClientName): NativeClient {
  const { keys, alsoReads, copies }: ClientFacts = CLIENTS[name];
  const { title = getProgramTitle(name), sharesFoldersOf, reserved = [], ...rules } = copies;
  const folders = createFolderLookup((sharesFoldersOf ?? name) as ClientId, alsoReads);
  return { title, ...folders, ...rules, keys: keys.skill, reserved };
}

/** Returns the folder for copies of a client, and the folders it reads, from the table of folders. */
function createFolderLookup(
  id: ClientId,
  alsoReads: SkillClient["alsoReads"],
): Pick<NativeClient, "user" | "project" | "reads"> {
  const all = {
    user: (client: ClientId, environment: ClientEnvironment) =>
      getSkillClient(client).user.map((folder) => resolveUserFolder(folder, environment)),
    project: (client: ClientId, { workspace }: ClientEnvironment) =>
      getSkillClient(client).project.map((path) => join(workspace, path)),
  };
  const own = (level: "user" | "project", environment: ClientEnvironment): string => {
    const [folder] = all[level](id, environment);
    if (folder === undefined) throw new Error(`${id} has no own folder`);
    return folder;
  };
  return {
    user: (environment) => own("user", environment),
    project: (environment) => own("project", environment),
    reads: (level, environment) =>
      [id, ...CLIENT_IDS.filter((other) => alsoReads?.[level].includes(other))].flatMap((client) =>
        all[level](client, environment),
      ),
  };
}

/** A client's folder of skills. */
export interface ClientTarget {
  /** The name in the table of clients. */
  id: string;
  client: NativeClient;
  /** The real path, whether it exists or not. */
  folder: string;
  /** The path for messages. */
  displayPath: string;
}

export interface ClientTargetOptions {
  around: Environment;
  /** True for the folder of the workspace, instead of the user's. */
  isProject: boolean;
}

/** Returns the folder of a client. Throws a SkillError when it cannot exist. */
export function resolveClientTarget(id: string, { around: environment, isProject }: ClientTargetOptions): ClientTarget {
  const client = getNativeClient(id);
  const path = resolve(client[isProject ? "project" : "user"](environment));
  const base = isProject ? environment.workspace : environment.home;
  if (isInside(base, path) && !statIfExists(base)?.isDirectory()) {
    throw new SkillError("no-home", {
      message: `The ${isProject ? "workspace" : "home folder"} ${base} does not exist`,
      fix: isProject ? "check --workspace" : "set HOME to your home folder, or use --project",
    });
  }
  const folder = resolveTargetPath(path);
  // A workspace may be another author's work: a link in it must not redirect writes to the user's other files.
  if (isProject && !isInside(resolveTargetPath(base), folder)) {
    throw new SkillError("target-outside", {
      message: `${path} leads out of the workspace, to ${folder}; nothing was written`,
      fix: "replace the link with a folder",
    });
  }
  const stats = statIfExists(folder);
  if (stats && !stats.isDirectory()) {
    throw new SkillError("not-a-folder", {
      message: `${path} is not a folder, so skills cannot be copied there`,
      fix: "move it away",
    });
  }
  return { id, client, folder, displayPath: isProject ? path : formatHomePath(path, environment.home) };
}

/** Returns the client. Throws a SkillError that lists the known ones. */
export function getNativeClient(id: string): NativeClient {
  const client = Object.hasOwn(NATIVE_CLIENTS, id) ? NATIVE_CLIENTS[id] : undefined;
  if (client) return client;
  const known = Object.keys(NATIVE_CLIENTS);
  const meant = findNearest(id, known);
  throw new SkillError("usage", {
    message: `Unknown client "${id}"`,
    fix: `${meant === undefined ? "" : `did you mean ${meant}? `}Supported clients: ${known.join(", ")}`,
  });
}

/** Reads the status of a skill's path in a folder of skills. */
export function readCopyStatus(
  { folder }: Pick<ClientTarget, "folder">,
  name: string,
  installs: ClientCopyStore,
): CopyStatus {
  const environment = join(folder, name);
  const entry = installs.entries()[environment];
  const stats = lstatOrNone(environment);
  if (!stats) return { is: "nothing" };
  if (stats.isSymbolicLink()) return { is: "foreign", what: "link" };
  if (!stats.isDirectory()) return { is: "foreign", what: "file" };
  const digest = digestFolder(environment);
  if (!entry) return { is: "foreign", what: "folder", digest };
  return { is: "ours", digest, isEdited: isEditedCopy(entry, digest), isLast: !hasOriginal(entry) };
}

export function isEditedCopy({ copy, before }: ClientCopy, digest: string): boolean {
  return digest !== copy && digest !== before;
}

/** Lists the names of skillet's copies in a folder of skills, whether they exist or not. */
export function listCopyNames({ folder }: Pick<ClientTarget, "folder">, installs: ClientCopyStore): string[] {
  return Object.entries(installs.entries()).flatMap(([environment, { skill }]) =>
    // A record with any other path was not written by skillet.
    dirname(environment) === folder && basename(environment) === skill ? [skill] : [],
  );
}

/** Digests a folder. An unreadable one gets a digest that matches nothing, so that it counts as edited. */
export function digestFolder(folder: string): string {
  try {
    return hashFolder(folder).digest;
  } catch (error) {
    return `unreadable: ${getErrorMessage(error)}`;
  }
}

/** Resolves the real path of a file or folder that may not exist yet. */
function resolveTargetPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const code = getErrnoCode(error);
    if (code !== "ENOENT" && code !== "ENOTDIR") throw createUnreachableError(path, getErrorMessage(error));
    if (lstatOrNone(path)?.isSymbolicLink()) throw createUnreachableError(path, "it is a broken link");
  }
  return dirname(path) === path ? path : join(resolveTargetPath(dirname(path)), basename(path));
}

function createUnreachableError(path: string, why: string): SkillError {
  return new SkillError("target-unreachable", {
    message: `${path} cannot be reached: ${why}`,
    fix: "check the folder, and the links on the way to it",
  });
}

function lstatOrNone(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (getErrnoCode(error) === "ENOTDIR") return undefined;
    throw createUnreachableError(path, getErrorMessage(error));
  }
}

interface DuplicateListingOptions extends ClientTargetOptions {
  /** Folders of skills that will exist, in addition to the existing ones. */
  planned?: ReadonlySet<string>;
}

/** Returns a sentence for each client that finds the skill twice, since it reads another folder that has it too. */
export function findDuplicateListings(name: string, target: ClientTarget, options: DuplicateListingOptions): string[] {
  const { around: environment, isProject, planned } = options;
  const level = isProject ? "project" : "user";
  const has = (folder: string) =>
    planned?.has(join(folder, name)) || statIfExists(join(folder, name, "SKILL.md")) !== undefined;
  return Object.entries(NATIVE_CLIENTS).flatMap(([id, client]) => {
    const folders = [...new Set(client.reads(level, environment).map(resolveRealPath))];
    const other = folders.find((folder) => folder !== target.folder && has(folder));
    if (other === undefined || !folders.includes(target.folder)) return [];
    // A client that is not used here has neither its own folder nor a copy in it.
    const own = client[level](environment);
    if (![target.folder, other].includes(resolveRealPath(own)) && !statIfExists(dirname(client.user(environment))))
      return [];
    const shown = isProject ? other : formatHomePath(other, environment.home);
    return target.id === id
      ? `${client.title} reads ${shown} too, which already has this skill: it will list it twice`
      : `${client.title} reads this folder too, and already has this skill in ${shown}: it will list it twice`;
  });
}

/** A skill as a client finds it. */
export interface ClientSkill {
  name: string;
  /** The folder of skills that contains it, as `list` names it. */
  source: string;
  /** True for a copy that skillet created. */
  isCopy: boolean;
}

/** The skills that one client finds itself, in its own folders and in shared ones. */
export interface ClientView {
  id: ClientId;
  title: string;
  skills: readonly ClientSkill[];
}

/**
 * Returns the skills that each client of the table finds when it starts in this workspace, without those of other
 * packages.
 */
export function listClientViews({ catalog, locations, installs }: DiscoverResult): ClientView[] {
  const views = new Map(CLIENT_IDS.map((id) => [id, new Map<string, ClientSkill>()]));
  const add = ({ client, scope, name: source }: Location, name: string, isCopy: boolean) => {
    if (!client) return;
    for (const id of findReadingClients(client, scope === "user" ? "user" : "project"))
      views.get(id)?.set(`${source}\n${name}`, { name, source, isCopy });
  };
  const places = new Map<string, Location>();
  for (const location of locations) {
    if (location.client && location.sameAs === undefined && location.belongsTo === undefined)
      places.set(location.name, location);
  }
  for (const { name, origin } of listAllCopies(catalog)) {
    const location = places.get(origin.source);
    if (location) add(location, name, false);
  }
  const byPath = new Map([...places.values()].map((location) => [location.path, location]));
  for (const [folder, { skill }] of Object.entries(installs.entries())) {
    const location = byPath.get(dirname(folder));
    if (location) add(location, skill, true);
  }
  return CLIENT_IDS.map((id) => ({
    id,
    title: getSkillClient(id).title,
    skills: [...(views.get(id)?.values() ?? [])].sort(
      (a, b) => compareText(a.name, b.name) || compareText(a.source, b.source),
    ),
  }));
}

/** Returns the skills that one client lists: of several with the same name, the one that counts here. */
export function listClientSkills(found: DiscoverResult, id: ClientId): readonly Skill[] {
  const names = new Map<string, Skill>();
  for (const { name, source } of listClientViews(found).find((view) => view.id === id)?.skills ?? []) {
    const winner = found.catalog.find(name);
    const skill = found.catalog.copies(name).find(({ origin }) => origin.source === source) ?? winner;
    if (skill && (!names.has(name) || skill === winner)) names.set(name, skill);
  }
  return [...names.values()];
}

/** Returns the text of a skill in a client's own list. */
export function toClientSkillText(skill: Skill): ClientSkillText {
  const { name, description, manifest } = skill;
  return { name, description, whenToUse: manifest.whenToUse, isForPeople: !isInvocableBy("model", skill) };
}

/**
 * Returns the names of skills that a client lists itself and that need nothing from skillet: text alone, or a built-in
 * skill of the client. Excludes skills of which the client has another version, and skills that it drops from its list.
 */
export async function findNamesListedByClient(found: DiscoverResult, id: ListingClient): Promise<ReadonlySet<string>> {
  const own = listClientSkills(found, id);
  const listed = simulateClientListing(id, own.map(toClientSkillText)).filter(({ shown }) => shown !== "dropped");
  const names = new Set(listed.map(({ name }) => name));
  const isTheSame = async (skill: Skill) => {
    const served = found.catalog.find(skill.name);
    if (!served || served === skill) return served === skill;
    return served.description === skill.description && (await served.body()) === (await skill.body());
  };
  const isServedTwice = async (skill: Skill) =>
    names.has(skill.name) &&
    (await isTheSame(skill)) &&
    (isBuiltInToClient(skill, id, found) || (await isTextOnly(skill)));
  return new Set((await filterAsync(own, isServedTwice)).map(({ name }) => name));
}

/** Returns true for a built-in skill of the client, which restores it on start. */
function isBuiltInToClient({ origin: { folder } }: Skill, id: ClientId, { locations }: DiscoverResult): boolean {
  const { builtIn } = getSkillClient(id);
  if (builtIn === undefined || folder === undefined) return false;
  return locations.some(
    ({ client, scope, path }) => client === id && scope === "user" && isInside(join(path, builtIn), folder),
  );
}

function listAllCopies({ skills, shadowed }: DiscoverResult["catalog"]): Skill[] {
  return [...skills, ...shadowed];
}
