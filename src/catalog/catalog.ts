import type { ErrorCode } from "../codes/codes.ts";
import { SkillError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";
import { byText, nearest } from "../shared/text.ts";
import { type Diagnostic, diagnose } from "../skill/diagnostic.ts";
import type { Form } from "../skill/frame.ts";
import { SCOPES, type Scope, type Skill } from "../skill/skill.ts";
import { type Loaded, type Source, withOrigin } from "../source/source.ts";
import { remoteMark } from "./describe-skill.ts";

export interface SourceSummary {
  name: string;
  scope: Scope;
  path?: string;
  skills: number;
}

/** What a model is told of a skill it may use. */
export interface Definition {
  name: string;
  description: string;
  input_schema?: object;
}

/** What speaks against using a skill: one thing, a list of them, or nothing. */
export type IsDenied = (skill: Skill) => object | readonly object[] | undefined;

/** Why a skill is not there, and what to do about it. */
export interface LeftOut {
  code: ErrorCode;
  message: string;
  fix: string;
}

/** An immutable snapshot of all skills: who won each name, whom they shadow, and what is wrong. */
export interface Catalog {
  /** The winners, by name. */
  readonly skills: readonly Skill[];
  /** Copies that a nearer one of the same name hides. */
  readonly shadowed: readonly Skill[];
  readonly diagnostics: readonly Diagnostic[];
  readonly sources: readonly SourceSummary[];
  /** The skill of this name, or of `name@source` (a source's name or a scope). */
  find(name: string): Skill | undefined;
  /** As `find`, but throws a SkillError that names the nearest one. */
  get(name: string): Skill;
  has(name: string): boolean;
  names(): string[];
  /** All copies of a name, the winner first. */
  copies(name: string): readonly Skill[];
  /** The skills that nothing speaks against: `catalog.available((skill) => denials(skill, host))`. */
  available(isDenied?: IsDenied): readonly Skill[];
  definitions(isDenied?: IsDenied): Definition[];
  /** Why a skill that was found is not in it, where somebody took it out. */
  leftOut?(name: string): LeftOut | undefined;
  /** Reads all sources again and gives the new snapshot. */
  reload(): Promise<Catalog>;
}

/** Reads the sources and merges them: the nearer scope wins, and within a scope the later source. */
export async function openCatalog(sources: readonly Source[]): Promise<Catalog> {
  const ordered = [...sources].sort((a, b) => SCOPES.indexOf(a.scope) - SCOPES.indexOf(b.scope));
  const loaded: Loaded[] = [];
  for (const source of ordered) loaded.push(await loadSafely(source));
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
    diagnostics: [...diagnostics, ...replacedCopies(loaded, byName), ...taken, ...caseClashes(winners)].sort(byPlace),
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
      throw notFound(name, byName.keys());
    },
    has: (name) => find(name) !== undefined,
    names: () => winners.map((skill) => skill.name),
    copies: (name) => byName.get(name) ?? [],
    available,
    definitions: (isDenied) => available(isDenied).map(definition),
    reload: () => openCatalog(sources),
  };
}

async function loadSafely(source: Source): Promise<Loaded> {
  try {
    const { skills, diagnostics } = await source.load();
    return { skills: skills.map((skill) => placedIn(source, skill)), diagnostics: [...diagnostics] };
  } catch (error) {
    const message = `the source "${source.name}" failed: ${error instanceof Error ? error.message : String(error)}`;
    return { skills: [], diagnostics: diagnose([{ code: "source-failed", message }], source.path ?? source.name) };
  }
}

/** Returns a skill defined in code with the name and scope of the source that provides it. The same object each time: caches are by identity. */
function placedIn({ name, scope }: Source, skill: Skill): Skill {
  const { origin } = skill;
  if (origin.form !== "code" || (origin.source === name && origin.scope === scope)) return skill;
  const known = PLACED.get(skill);
  if (known?.origin.source === name && known.origin.scope === scope) return known;
  const placed = withOrigin(skill, { ...origin, scope, source: name });
  PLACED.set(skill, placed);
  return placed;
}

const PLACED = new WeakMap<Skill, Skill>();

const FORMS: readonly Form[] = ["folder", "markdown", "yaml", "code"];

/** Puts a source's skills before what is there. Within a source a folder goes before a flat file, then the path decides. */
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
      others.some((other) => other.origin.parent === undefined && isSamePlace(other, copy));
    const nearer = copies.filter((copy) => own.has(copy) && !isKnown(copy)).sort(byFormThenPath);
    const farther = others.filter((copy) => !nearer.some((skill) => isSamePlace(skill, copy)));
    byName.set(name, [...nearer, ...farther]);
  }
}

/** A skill inside another one never hides one that is not: what a name means is not decided deep in the folder of another skill. */
function putNestedLast(byName: Map<string, Skill[]>, loaded: readonly Loaded[]): void {
  const isNested = ({ origin }: Skill) => origin.parent !== undefined;
  for (const { skills } of loaded) {
    for (const { name, origin } of skills) {
      const copies = origin.parent === undefined ? undefined : byName.get(name);
      if (copies && copies.length > 1) copies.sort((a, b) => Number(isNested(a)) - Number(isNested(b)));
    }
  }
}

/** A skill of an MCP server never takes the name of another skill: a server could pass its own for any. The second one of a server has no name either. */
function putRemoteLast(byName: Map<string, Skill[]>, loaded: readonly Loaded[]): Diagnostic[] {
  const diagnostics: Diagnostic[] = [];
  for (const { name, origin } of loaded.flatMap(({ skills }) => skills)) {
    const { remote, source } = origin;
    const copies = remote === undefined ? undefined : byName.get(name);
    if (!remote || !copies || copies.length < 2) continue;
    copies.sort((a, b) => Number(a.origin.remote !== undefined) - Number(b.origin.remote !== undefined));
    const [winner] = copies;
    if (!winner || winner.origin === origin) continue;
    const isSameSource = winner.origin.source === source;
    const message = `has the name of "${name}" from ${winner.origin.source}, which keeps it`;
    const fix = `to name this one: ${name}@${isSameSource ? remote.uri : source}`;
    diagnostics.push(...diagnose([{ code: "remote-name-taken", message, fix }], `${source} ${remote.uri}`));
  }
  return diagnostics;
}

function byFormThenPath({ origin: a }: Skill, { origin: b }: Skill): number {
  return (
    FORMS.indexOf(a.form) - FORMS.indexOf(b.form) ||
    byText(a.file ?? a.remote?.uri ?? "", b.file ?? b.remote?.uri ?? "")
  );
}

/** One real folder reached through two sources is one skill. */
function isSamePlace(a: Skill, b: Skill): boolean {
  return a.origin.folder !== undefined && a.origin.folder === b.origin.folder;
}

function findSkill(byName: Map<string, Skill[]>, name: string): Skill | undefined {
  const at = name.indexOf("@");
  if (at === -1) return byName.get(name)?.[0];
  const place = name.slice(at + 1);
  const copies = byName.get(name.slice(0, at));
  return copies?.find(
    ({ origin: { source, scope, file, remote } }) =>
      source === place || scope === place || remote?.uri === place || isFileAt(file, place),
  );
}

/** Whether `place` is the file, or the end of its path from some folder on. */
function isFileAt(file: string | undefined, place: string): boolean {
  return file !== undefined && (file === place || file.endsWith(`/${place.replace(/^~\//, "")}`));
}

/** There is none of this name; the nearest of these is. */
export function notFound(name: string, names: Iterable<string>): SkillError {
  const meant = nearest(name, names);
  return new SkillError("not-found", {
    message: `Skill '${name}' not found`,
    fix: meant ? `did you mean "${meant}"?` : "`skillet list` shows what there is",
  });
}

/** What is wrong with the file that would be the skill of this name, if it could be read: by the name it states, its folder's or its own. */
export function brokenSkill({ diagnostics }: Pick<Catalog, "diagnostics">, name: string): Diagnostic | undefined {
  return diagnostics.find(
    ({ severity, file, name: stated }) =>
      severity === "error" && (stated === name || namesOf(file, undefined).includes(name)),
  );
}

/** The warning that a nearer copy of this skill does not load, so that a farther one is used. */
export function replacedCopy({ diagnostics }: Pick<Catalog, "diagnostics">, name: string): Diagnostic | undefined {
  return diagnostics.find(
    ({ code, file, name: stated }) => code === "nearer-copy-broken" && namesOf(file, stated).includes(name),
  );
}

/** Returns the note for a user whose model reads it. */
export function sayReplaced({ file, message }: Pick<Diagnostic, "file" | "message">): string {
  return `Note for the user: ${inLine(`${file} ${message}`, 500)}.`;
}

/** The names that the skill in a file can have when the file does not load: the stated one, else its folder's or its own. */
function namesOf(file: string, stated: string | undefined): string[] {
  if (stated !== undefined) return [stated];
  const [own = "", folder = ""] = file.split("/").reverse();
  return [/^skill\.md$/i.test(own) ? folder : own.replace(/\.[^.]*$/, "")];
}

/** Warns of files that do not load where a copy of the same name from a farther source is used in their place. */
function replacedCopies(loaded: readonly Loaded[], byName: ReadonlyMap<string, readonly Skill[]>): Diagnostic[] {
  const warnings = new Map<string, Diagnostic>();
  for (const [at, { skills, diagnostics }] of loaded.entries()) {
    const broken = diagnostics.filter(({ severity, file }) => severity === "error" && !warnings.has(file));
    if (broken.length === 0) continue;
    const own = new Set(skills.map(({ origin }) => origin.file));
    for (const { code, file } of diagnostics) if (code === "nested-skill") own.add(file); // It would not be the nearest.
    const nearer = new Set(loaded.slice(at).flatMap((source) => source.skills));
    for (const { file, message: why, name: stated } of broken) {
      const [used] = namesOf(file, stated).flatMap((name) => byName.get(name)?.[0] ?? []);
      if (!used || own.has(file) || nearer.has(used)) continue;
      const message = `does not load (${why}), so the copy of "${used.name}" from ${used.origin.source} is used in its place`;
      const [warning] = diagnose([{ code: "nearer-copy-broken", message, name: used.name }], file);
      if (warning) warnings.set(file, warning);
    }
  }
  return [...warnings.values()];
}

function definition(skill: Skill): Definition {
  const { inputSchema } = skill.manifest;
  const [name, description] = [inLine(skill.name, 64), inLine(skill.description) + remoteMark(skill)];
  return inputSchema ? { name, description, input_schema: inputSchema } : { name, description };
}

/** The same order whether a file was read or remembered. */
function byPlace(a: Diagnostic, b: Diagnostic): number {
  return byText(a.file, b.file) || (a.line ?? 0) - (b.line ?? 0);
}

function caseClashes(winners: readonly Skill[]): Diagnostic[] {
  const first = new Map<string, Skill>();
  const diagnostics: Diagnostic[] = [];
  for (const skill of winners) {
    const folded = skill.name.toLowerCase();
    const other = first.get(folded);
    if (!other) first.set(folded, skill);
    else {
      const message = `the name "${skill.name}" differs from "${other.name}" (${other.origin.source}) only in capitals`;
      diagnostics.push(...diagnose([{ code: "name-case-clash", message }], skill.origin.file ?? skill.name));
    }
  }
  return diagnostics;
}
