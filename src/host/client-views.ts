import { dirname, join } from "node:path";
import { type ClientSkillText, type ListingClient, listForClient } from "../catalog/client-listings.ts";
import { isInside } from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import { isFor, type Skill } from "../skill/skill.ts";
import { isTextOnly } from "../skill/text-only.ts";
import { CLIENT_IDS, type ClientId, clientRow, readersOf } from "../source/client-folders.ts";
import type { Location } from "../source/locations.ts";
import type { Discovered } from "./discover.ts";

/** A skill as a client finds it. */
export interface ClientSkill {
  name: string;
  /** The folder of skills that it is in, as `list` names it. */
  source: string;
  /** True for a copy that skillet put there. */
  isCopy: boolean;
}

/** The skills that one client finds by itself, in its own folders and in those that it shares. */
export interface ClientView {
  id: ClientId;
  title: string;
  skills: readonly ClientSkill[];
}

/** Returns for each client of the table which skills it finds when it starts in this workspace. Skills of other packages are not among them. */
export function clientViews({ catalog, locations, installs }: Discovered): ClientView[] {
  const views = new Map(CLIENT_IDS.map((id) => [id, new Map<string, ClientSkill>()]));
  const add = ({ client, scope, name: source }: Location, name: string, isCopy: boolean) => {
    if (!client) return;
    for (const id of readersOf(client, scope === "user" ? "user" : "project"))
      views.get(id)?.set(`${source}\n${name}`, { name, source, isCopy });
  };
  const places = new Map<string, Location>();
  for (const location of locations) {
    if (location.client && location.sameAs === undefined && location.belongsTo === undefined)
      places.set(location.name, location);
  }
  for (const { name, origin } of copiesIn(catalog)) {
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
    title: clientRow(id).title,
    skills: [...(views.get(id)?.values() ?? [])].sort((a, b) => byText(a.name, b.name) || byText(a.source, b.source)),
  }));
}

/** Returns the skills that one client lists: of several with one name, the one that counts here. */
export function skillsOfClient(found: Discovered, id: ClientId): readonly Skill[] {
  const names = new Map<string, Skill>();
  for (const { name, source } of clientViews(found).find((view) => view.id === id)?.skills ?? []) {
    const winner = found.catalog.find(name);
    const skill = found.catalog.copies(name).find(({ origin }) => origin.source === source) ?? winner;
    if (skill && (!names.has(name) || skill === winner)) names.set(name, skill);
  }
  return [...names.values()];
}

/** A skill as a client's own list takes it. */
export function listedText(skill: Skill): ClientSkillText {
  const { name, description, manifest } = skill;
  return { name, description, whenToUse: manifest.whenToUse, isForPeople: !isFor("model", skill) };
}

/**
 * Returns the names of the skills that a client lists itself and that need nothing of skillet: text alone, or a skill that comes with the
 * client. A skill of which the client has another version is not among them, nor one that it drops from its list.
 */
export function namesListedByClient(found: Discovered, id: ListingClient): ReadonlySet<string> {
  const own = skillsOfClient(found, id);
  const listed = listForClient(id, own.map(listedText)).filter(({ shown }) => shown !== "dropped");
  const names = new Set(listed.map(({ name }) => name));
  const isTheSame = (skill: Skill) => {
    const served = found.catalog.find(skill.name);
    if (!served || served === skill) return served === skill;
    return served.description === skill.description && served.body() === skill.body();
  };
  const isServedTwice = (skill: Skill) =>
    names.has(skill.name) && isTheSame(skill) && (isBuiltIn(skill, id, found) || isTextOnly(skill));
  return new Set(own.filter(isServedTwice).map(({ name }) => name));
}

/** Returns whether a skill came with the client, which puts it there again when it starts. */
function isBuiltIn({ origin: { folder } }: Skill, id: ClientId, { locations }: Discovered): boolean {
  const { builtIn } = clientRow(id);
  if (builtIn === undefined || folder === undefined) return false;
  return locations.some(
    ({ client, scope, path }) => client === id && scope === "user" && isInside(join(path, builtIn), folder),
  );
}

function copiesIn({ skills, shadowed }: Discovered["catalog"]): Skill[] {
  return [...skills, ...shadowed];
}
