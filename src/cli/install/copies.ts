import { existsSync } from "node:fs";
import { basename, dirname, isAbsolute, relative } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import { hasOriginal, type InstalledCopy, type Installs } from "../../host/installs.ts";
import { NATIVE_CLIENTS } from "../../install/clients.ts";
import { copyFor } from "../../install/copies.ts";
import { clientOf, digestAt, isEdited, targetOf } from "../../install/target.ts";
import { isEnabled } from "../../policy/policy.ts";
import { quoted } from "../../policy/trust.ts";
import { SkillError } from "../../shared/error.ts";
import { byText, nearest } from "../../shared/text.ts";
import { stopsLoading } from "../../skill/diagnostic.ts";
import type { Skill } from "../../skill/skill.ts";
import { statOf } from "../../source/file.ts";
import { type Surroundings, shortPath } from "../../source/locations.ts";

/** A copy that is written down, and where it is as seen from here. */
export interface Row extends InstalledCopy {
  folder: string;
  /** In the client's folder for all projects, in this workspace, in another, or where no client looks any more. */
  where: "user" | "project" | "other-project" | "nowhere";
  /** What names that place in a command. */
  flags: string;
}

export type State =
  | "up-to-date"
  | "outdated"
  | "edited"
  | "removed"
  | "original-gone"
  | "original-broken"
  | "switched-off"
  | "elsewhere";

/** In words, and what to do. */
export const STATES: Record<State, { said(row: Row, home: string): string; isFine: boolean }> = {
  "up-to-date": { said: () => "up to date", isFine: true },
  outdated: {
    said: ({ skill, flags, where }) =>
      where === "nowhere"
        ? "out of date"
        : `out of date: \`skillet export --update ${skill}${flags}\` brings it up to date`,
    isFine: false,
  },
  edited: { said: () => "changed by hand since: it is kept unless you say --force", isFine: false },
  removed: {
    said: ({ skill, client, flags, where, folder }) => {
      const isReached = where === "user" || where === "project" || existsSync(workspaceOf(folder, client) ?? "");
      return `removed by hand: \`skillet export --remove ${skill}${isReached && where !== "nowhere" ? ` --to ${client}${flags}` : ""}\` removes it from the list`;
    },
    isFine: false,
  },
  "original-gone": { said: () => "its original is gone, so it counts as a skill itself", isFine: false },
  "original-broken": {
    said: ({ original = "" }, home) =>
      `its original did not load: \`skillet check ${pathIn(original, home)}\` says why`,
    isFine: false,
  },
  "switched-off": {
    said: ({ skill, client, flags }) =>
      `switched off here; ${titleOf(client)} still uses it: \`skillet export --remove ${skill}${flags}\` removes it`,
    isFine: false,
  },
  elsewhere: { said: () => "its original is none of the skills found here, so it counts as one itself", isFine: true },
};

/** Every copy that is written down, in order. `workspace` is as it was given in the command. */
export function copiesFrom(installs: Installs, around: Surroundings, workspace?: string): Row[] {
  const here = workspace === undefined ? "" : ` -C ${quoted(workspace)}`;
  return (
    Object.entries(installs.entries())
      // What is written down of any other place is not what skillet writes, and may be large.
      .filter(([folder, { skill }]) => isAbsolute(folder) && basename(folder) === skill)
      .map(([folder, copy]): Row => {
        const row = { ...copy, folder };
        if (isIn(row, around, false)) return { ...row, where: "user", flags: here };
        if (isIn(row, around, true)) return { ...row, where: "project", flags: ` --project${here}` };
        const other = workspaceOf(folder, copy.client);
        if (other === undefined) return { ...row, where: "nowhere", flags: "" };
        return { ...row, where: "other-project", flags: ` --project -C ${quoted(other)}` };
      })
      .sort((a, b) => byText(a.client, b.client) || byText(a.folder, b.folder))
  );
}

export function stateOf(row: Row, found: Discovered): State {
  if (!statOf(row.folder)?.isDirectory()) return "removed";
  if (isEdited(row, digestAt(row.folder))) return "edited";
  if (!hasOriginal(row)) return "original-gone";
  const skill = originalOf(row, found);
  if (!skill) return isBroken(row, found) ? "original-broken" : "elsewhere";
  if (!Object.hasOwn(NATIVE_CLIENTS, row.client)) return "elsewhere";
  if (isEnabled(skill, found)) return "switched-off";
  try {
    return copyFor(skill, clientOf(row.client)).content.digest === row.copy ? "up-to-date" : "outdated";
  } catch (error) {
    if (error instanceof SkillError) return "outdated";
    throw error;
  }
}

/** The skill that it was copied from, if it is found here. */
export function originalOf({ skill, source, original }: InstalledCopy, { catalog }: Discovered): Skill | undefined {
  return catalog
    .copies(skill)
    .find(({ origin }) => origin.source === source && (original === undefined || origin.file === original));
}

/** Where a command looked for copies. */
interface Looked {
  home: string;
  isProject: boolean;
  /** The option that names clients, and what it named. */
  option: "--from" | "--to";
  clients: readonly string[] | undefined;
}

/** There is no copy of that name where the command looked: it is somewhere else, or another is near. */
export function noCopy(name: string, rows: readonly Row[], looked: Looked): SkillError {
  const own = rows.filter(({ skill }) => skill === name);
  const beside = own.filter(({ where }) => where === (looked.isProject ? "project" : "user"));
  const places = (beside.length > 0 ? beside : own).map((row) => placeSaid(row, looked));
  const meant = nearest(name, new Set(rows.map(({ skill }) => skill)));
  const near = meant === undefined ? "`skillet export --list` shows all copies" : `did you mean "${meant}"?`;
  return new SkillError("not-installed", {
    message: `No copy of '${name}' is there`,
    fix: places.length === 0 ? near : [...new Set(places)].join("; "),
  });
}

export function titleOf(client: string): string {
  return Object.hasOwn(NATIVE_CLIENTS, client) ? clientOf(client).title : client;
}

function placeSaid({ where, folder, client, flags }: Row, { home, isProject, option, clients }: Looked): string {
  const place = dirname(folder);
  const workspace = where === "user" ? undefined : workspaceOf(folder, client);
  const whose = where === "project" ? "this workspace" : shortPath(workspace ?? "", home);
  const said = workspace === undefined ? shortPath(place, home) : `${relative(workspace, place)} of ${whose}`;
  const isNamed = clients?.includes(client) ?? true;
  const hints = [
    ...(isNamed ? [] : [`say ${option} ${client}`]),
    ...(where === "user" && isProject ? ["leave out --project"] : []),
    ...(where === "other-project" || (where === "project" && !isProject) ? [`add${flags}`] : []),
  ];
  return `it is in ${said}${hints.length === 0 ? "" : `: ${hints.join(", and ")}`}`;
}

function isIn({ client, folder }: Pick<Row, "client" | "folder">, around: Surroundings, isProject: boolean): boolean {
  try {
    return targetOf(client, { around, isProject }).folder === dirname(folder);
  } catch {
    return false; // A client that is not known, or whose folder cannot be reached.
  }
}

/** The workspace whose copy it is, if it is one's. */
function workspaceOf(folder: string, client: string): string | undefined {
  if (!Object.hasOwn(NATIVE_CLIENTS, client)) return undefined;
  const below = clientOf(client).project({ home: "/", workspace: "/", env: {} });
  const place = dirname(folder);
  return place.endsWith(below) ? place.slice(0, -below.length) || "/" : undefined;
}

function isBroken({ original }: InstalledCopy, { catalog }: Discovered): boolean {
  return catalog.diagnostics.some((diagnostic) => stopsLoading(diagnostic) && diagnostic.file === original);
}

/** As a shell takes it: `~` means nothing within quotes. */
function pathIn(original: string, home: string): string {
  const place = basename(original) === "SKILL.md" ? dirname(original) : original;
  const short = shortPath(place, home);
  return quoted(short) === short ? short : quoted(place);
}
