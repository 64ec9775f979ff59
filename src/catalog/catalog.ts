import { type Problem, SkillError } from "../errors/problem.ts";
import type { SkillForm } from "../skill/frontmatter.ts";
import {
  type Diagnostic,
  diagnose,
  type LoadedSkills,
  SCOPES,
  type Skill,
  type SkillScope,
  type Source,
  withOrigin,
} from "../skill/skill.ts";
import { compareText, findNearest } from "../util/text.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";

export interface SourceSummary {
  name: string;
  scope: SkillScope;
  path?: string;
  skills: number;
}

/** A skill as it is described to a model. */
export interface SkillDescriptor {
  name: string;
  description: string;
  input_schema?: object;
}

/** Returns the reason or reasons why a skill must not be used, or undefined. */
export type IsDenied = (skill: Skill) => object | readonly object[] | undefined;

/** An immutable snapshot of all skills: the winner of each name, the copies it shadows, and the diagnostics. */
export interface Catalog {
  /** The winners, by name. */
  readonly skills: readonly Skill[];
  /** Copies shadowed by a nearer one of the same name. */
  readonly shadowed: readonly Skill[];
  readonly diagnostics: readonly Diagnostic[];
  readonly sources: readonly SourceSummary[];
  /** Returns the skill with this name, or with `name@source` (a source's name or a scope). */
  find(name: string): Skill | undefined;
  /** Like `find`, but throws a SkillError that suggests the nearest name. */
  get(name: string): Skill;
  has(name: string): boolean;
  names(): string[];
  /** Returns all copies of a name, the winner first. */
  copies(name: string): readonly Skill[];
  /** Returns the skills that are not denied: `catalog.available((skill) => findDenials(skill, host))`. */
  available(isDenied?: IsDenied): readonly Skill[];
  definitions(isDenied?: IsDenied): SkillDescriptor[];
  /** Returns why a discovered skill was excluded, if it was. */
  explainExclusion?(name: string): Problem | undefined;
  /** Reads all sources again and returns the new snapshot. */
  reload(): Promise<Catalog>;
}

/** Reads the sources and merges them: the nearer scope wins, and within a scope the later source. */
export async function loadCatalog(sources: readonly Source[]): Promise<Catalog> {
  const ordered = [...sources].sort((a, b) => SCOPES.indexOf(a.scope) - SCOPES.indexOf(b.scope));
  const loaded: LoadedSkills[] = [];
  for (const source of ordered) loaded.push(await loadSource(source));
  const byName = new Map<string, Skill[]>();
  for (const { skills } of loaded) addSource(byName, skills);
  putNestedLast(byName, loaded);
  const taken = putRemoteLast(byName, loaded);
  const winners: Skill[] = [];
  const shadowed: Skill[] = [];
  for (const name of [...byName.keys()].sort()) {
    const copies = byName.get(name) ?? [];
    if (copies[0]) winners.push(copies[0]);
    if (copies.length > 1) shadowed.push(...copies.slice(1));
  }
  const diagnostics = loaded.flatMap((result) => result.diagnostics as Diagnostic[]);
  const find = (name: string) => findSkill(byName, name);
  const available: Catalog["available"] = (isDenied) =>
    isDenied ? winners.filter((skill) => [isDenied(skill) ?? []].flat().length === 0) : winners;
  return {
    skills: winners,
    shadowed,
    diagnostics: [...diagnostics, ...findReplacedCopies(loaded, byName), ...taken, ...findCaseClashes(winners)].sort(
      compareLocation,
    ),
    sources: ordered.map(({ name, scope, path }, index) => ({
      name,
      scope,
      ...(path === undefined ? {} : { path }),
      skills: loaded[index]?.skills.length ?? 0,
    })),
    find,
    get(name) {
      const skill = find(name);
      if (skill) return skill;
      throw createSkillNotFoundError(name, byName.keys());
    },
    has: (name) => find(name) !== undefined,
    names: () => winners.map((skill) => skill.name),
    copies: (name) => byName.get(name) ?? [],
    available,
    definitions: (isDenied) => available(isDenied).map(createDescriptor),
    reload: () => loadCatalog(sources),
  };
}

async function loadSource(source: Source): Promise<LoadedSkills> {
  try {
    const { skills, diagnostics } = await source.load();
    return { skills: skills.map((skill) => withSourceOrigin(source, skill)), diagnostics: [...diagnostics] };
  } catch (error) {
    const message = `the source "${source.name}" failed: ${error instanceof Error ? error.message : String(error)}`;
    return { skills: [], diagnostics: diagnose([{ code: "source-failed", message }], source.path ?? source.name) };
  }
}

/** Returns a skill defined in code with the name and scope of the source that provides it. The same object each time: caches are by identity. */
function withSourceOrigin({ name, scope }: Source, skill: Skill): Skill {
  const { origin } = skill;
  if (origin.form !== "code" || (origin.source === name && origin.scope === scope)) return skill;
  const known = SOURCE_ORIGIN_CACHE.get(skill);
  if (known?.origin.source === name && known.origin.scope === scope) return known;
  const moved = withOrigin(skill, { ...origin, scope, source: name });
  SOURCE_ORIGIN_CACHE.set(skill, moved);
  return moved;
}

const SOURCE_ORIGIN_CACHE = new WeakMap<Skill, Skill>();

const FORM_ORDER: readonly SkillForm[] = ["folder", "markdown", "yaml", "code"];

/** Puts a source's skills before the existing ones. Within a source, a folder goes before a flat file, then the path decides. */
function addSource(byName: Map<string, Skill[]>, skills: readonly Skill[]): void {
  const repeated = new Set<string>();
  for (const skill of skills) {
    const copies = byName.get(skill.name);
    if (!copies) byName.set(skill.name, [skill]);
    else {
      copies.unshift(skill);
      repeated.add(skill.name);
    }
  }
  const own = new Set(repeated.size === 0 ? [] : skills);
  for (const name of repeated) {
    const copies = byName.get(name) ?? [];
    const others = copies.filter((copy) => !own.has(copy));
    const isKnown = (copy: Skill) =>
      copy.origin.parent !== undefined &&
      others.some((other) => other.origin.parent === undefined && isSameSkillFolder(other, copy));
    const nearer = copies.filter((copy) => own.has(copy) && !isKnown(copy)).sort(compareFormThenPath);
    const farther = others.filter((copy) => !nearer.some((skill) => isSameSkillFolder(skill, copy)));
    byName.set(name, [...nearer, ...farther]);
  }
}

/** Puts nested skills last: a skill inside another one never shadows one that is not nested. */
function putNestedLast(byName: Map<string, Skill[]>, loaded: readonly LoadedSkills[]): void {
  const isNested = ({ origin }: Skill) => origin.parent !== undefined;
  for (const { skills } of loaded) {
    for (const { name, origin } of skills) {
      const copies = origin.parent === undefined ? undefined : byName.get(name);
      if (copies && copies.length > 1) copies.sort((a, b) => Number(isNested(a)) - Number(isNested(b)));
    }
  }
}

/** Puts remote skills last: a skill of an MCP server never shadows another one, since a server could impersonate any. A server's second skill of a name is not used either. */
function putRemoteLast(byName: Map<string, Skill[]>, loaded: readonly LoadedSkills[]): Diagnostic[] {
  const diagnostics: Diagnostic[] = [];
  for (const { name, origin } of loaded.flatMap(({ skills }) => skills)) {
    const { remote, source } = origin;
    const copies = remote === undefined ? undefined : byName.get(name);
    if (!remote || !copies || copies.length < 2) continue;
    copies.sort((a, b) => Number(a.origin.remote !== undefined) - Number(b.origin.remote !== undefined));
    const [winner] = copies;
    if (!winner || winner.origin === origin) continue;
    const isSameSource = winner.origin.source === source;
    const message = `the name "${name}" is taken by the skill from ${winner.origin.source}`;
    const fix = `refer to this one as ${name}@${isSameSource ? remote.uri : source}`;
    diagnostics.push(...diagnose([{ code: "remote-name-taken", message, fix }], `${source} ${remote.uri}`));
  }
  return diagnostics;
}

function compareFormThenPath({ origin: a }: Skill, { origin: b }: Skill): number {
  return (
    FORM_ORDER.indexOf(a.form) - FORM_ORDER.indexOf(b.form) ||
    compareText(a.file ?? a.remote?.uri ?? "", b.file ?? b.remote?.uri ?? "")
  );
}

/** The same real folder reached through two sources is one skill. */
function isSameSkillFolder(a: Skill, b: Skill): boolean {
  return a.origin.folder !== undefined && a.origin.folder === b.origin.folder;
}

function findSkill(byName: Map<string, Skill[]>, name: string): Skill | undefined {
  const at = name.indexOf("@");
  if (at === -1) return byName.get(name)?.[0];
  const qualifier = name.slice(at + 1);
  const copies = byName.get(name.slice(0, at));
  return copies?.find(
    ({ origin: { source, scope, file, remote } }) =>
      source === qualifier || scope === qualifier || remote?.uri === qualifier || isFileAt(file, qualifier),
  );
}

/** Returns true if `path` is the file, or the last segments of its path. */
function isFileAt(file: string | undefined, path: string): boolean {
  return file !== undefined && (file === path || file.endsWith(`/${path.replace(/^~\//, "")}`));
}

/** Creates the error for an unknown name, with the nearest known name. */
export function createSkillNotFoundError(name: string, names: Iterable<string>): SkillError {
  const nearest = findNearest(name, names);
  return new SkillError("not-found", {
    message: `Skill '${name}' not found`,
    ...(nearest ? { fix: `did you mean "${nearest}"?` } : { fix: "list all skills", commands: ["skillet list"] }),
  });
}

/** Returns the error of the file that would be the skill of this name: by its stated name, its folder or its file name. */
export function findBrokenSkill({ diagnostics }: Pick<Catalog, "diagnostics">, name: string): Diagnostic | undefined {
  return diagnostics.find(
    ({ severity, file, name: stated }) =>
      severity === "error" && (stated === name || listPossibleNames(file, undefined).includes(name)),
  );
}

/** Returns the warning that a nearer copy of this skill does not load, so a farther one is used. */
export function findReplacedCopy({ diagnostics }: Pick<Catalog, "diagnostics">, name: string): Diagnostic | undefined {
  return diagnostics.find(
    ({ code, file, name: stated }) => code === "nearer-copy-broken" && listPossibleNames(file, stated).includes(name),
  );
}

/** Returns the note for a user whose model reads it. */
export function formatReplacedNote({ file, message }: Pick<Diagnostic, "file" | "message">): string {
  return `Note for the user: ${sanitizeLine(`${file} ${message}`, 500)}.`;
}

/** Returns the possible names of a skill whose file does not load: the stated one, otherwise its folder's or file's. */
function listPossibleNames(file: string, stated: string | undefined): string[] {
  if (stated !== undefined) return [stated];
  const [own = "", folder = ""] = file.split("/").reverse();
  return [/^skill\.md$/i.test(own) ? folder : own.replace(/\.[^.]*$/, "")];
}

/** Warns about files that do not load and are replaced by a copy of the same name from a farther source. */
function findReplacedCopies(
  loaded: readonly LoadedSkills[],
  byName: ReadonlyMap<string, readonly Skill[]>,
): Diagnostic[] {
  const warnings = new Map<string, Diagnostic>();
  for (const [at, { skills, diagnostics }] of loaded.entries()) {
    const broken = diagnostics.filter(({ severity, file }) => severity === "error" && !warnings.has(file));
    if (broken.length === 0) continue;
    const own = new Set(skills.map(({ origin }) => origin.file));
    for (const { code, file } of diagnostics) if (code === "nested-skill") own.add(file); // A nested skill would not win.
    const nearer = new Set(loaded.slice(at).flatMap((source) => source.skills));
    for (const { file, message: why, name: stated } of broken) {
      const [used] = listPossibleNames(file, stated).flatMap((name) => byName.get(name)?.[0] ?? []);
      if (!used || own.has(file) || nearer.has(used)) continue;
      const message = `does not load (${why}), so the copy of "${used.name}" from ${used.origin.source} is used instead`;
      const [warning] = diagnose([{ code: "nearer-copy-broken", message, name: used.name }], file);
      if (warning) warnings.set(file, warning);
    }
  }
  return [...warnings.values()];
}

function createDescriptor(skill: Skill): SkillDescriptor {
  const { inputSchema } = skill.manifest;
  const [name, description] = [sanitizeLine(skill.name, 64), sanitizeLine(skill.description) + formatRemoteMark(skill)];
  return inputSchema ? { name, description, input_schema: inputSchema } : { name, description };
}

/** Keeps the order the same whether a file was read or cached. */
function compareLocation(a: Diagnostic, b: Diagnostic): number {
  return compareText(a.file, b.file) || (a.line ?? 0) - (b.line ?? 0);
}

function findCaseClashes(winners: readonly Skill[]): Diagnostic[] {
  const first = new Map<string, Skill>();
  const diagnostics: Diagnostic[] = [];
  for (const skill of winners) {
    const folded = skill.name.toLowerCase();
    const other = first.get(folded);
    if (!other) first.set(folded, skill);
    else {
      const message = `the name "${skill.name}" differs from "${other.name}" (${other.origin.source}) only in case`;
      diagnostics.push(...diagnose([{ code: "name-case-collision", message }], skill.origin.file ?? skill.name));
    }
  }
  return diagnostics;
}

/**
 * Returns a catalog with only these skills, also after a reload. If the winner of a name is excluded, the name is unknown: no shadowed copy
 * takes its place.
 */
export function filterCatalog(catalog: Catalog, isKept: (skill: Skill) => boolean): Catalog {
  const skills = filterSkills(catalog.skills, isKept);
  const names = new Set(skills.map(({ name }) => name));
  const find = (name: string) => {
    const skill = catalog.find(name);
    return skill && names.has(skill.name) && isKept(skill) ? skill : undefined;
  };
  return {
    ...catalog,
    skills,
    shadowed: catalog.shadowed.filter((skill) => names.has(skill.name) && isKept(skill)),
    find,
    get(name) {
      const skill = find(name);
      if (skill) return skill;
      throw createSkillNotFoundError(name, names);
    },
    has: (name) => find(name) !== undefined,
    names: () => [...names],
    copies: (name) => (names.has(name) ? catalog.copies(name).filter(isKept) : []),
    available: (isDenied) => catalog.available(isDenied).filter(({ name }) => names.has(name)),
    // Filtered before they become definitions, whose names are sanitized.
    definitions: (isDenied) =>
      catalog.definitions((skill) => (names.has(skill.name) ? isDenied?.(skill) : { code: "left-out" })),
    reload: async () => filterCatalog(await catalog.reload(), isKept),
  };
}

/** Filters skills. The result has its own search index if the full list has one. */
function filterSkills(skills: readonly Skill[], isKept: (skill: Skill) => boolean): readonly Skill[] {
  const kept = skills.filter(isKept);
  if (kept.length === skills.length) return skills;
  const store = getSearchStore(skills)?.createFiltered?.();
  if (store) attachSearchStore(kept, store);
  return kept;
}

/** Stores the bytes of a search index between processes. It never throws: a lost index is built again. */
export interface SearchStore {
  /** Identifies everything that the index depends on besides the skills themselves. */
  readonly key: string;
  load(): Uint8Array | undefined;
  save(bytes: Uint8Array): void;
  /** Returns the store for a subset of the skills: in one store, they would replace each other's index. */
  createFiltered?(): SearchStore;
  /** The current time of the clock that sets file times. */
  now(): number;
}

/** Makes matchers of these skills store their search index. */
export function attachSearchStore(skills: readonly Skill[], store: SearchStore): void {
  SEARCH_STORES.set(skills, store);
}

export function getSearchStore(skills: readonly Skill[]): SearchStore | undefined {
  return SEARCH_STORES.get(skills);
}

// Keyed by the list: callers that extend a catalog copy it, but not its list of skills.
const SEARCH_STORES = new WeakMap<readonly Skill[], SearchStore>();

/** The default limits of a disclosure. */
export const DISCLOSURE_DEFAULTS = { maxSkills: 3, budget: 20_000, listingBudget: 2000 } as const;

/** The ways to disclose skills to a model: by the query, or as one list. */
export const DISCLOSURE_MODES = ["adaptive", "static"] as const;
export type DisclosureMode = (typeof DISCLOSURE_MODES)[number];

/** Returns the mark for the description of an MCP server's skill, so a model does not take it for a local one. Empty for others. */
export function formatRemoteMark({ origin: { remote } }: Skill): string {
  return remote ? ` (remote skill from MCP server ${sanitizeLine(remote.server, 64)})` : "";
}
