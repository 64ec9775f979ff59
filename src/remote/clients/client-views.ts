import { dirname, join } from "node:path";
import { type ClientSkillText, type ListingClient, simulateClientListing } from "../../catalog/client-listings.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import { isTextOnly } from "../../skill/skill-code.ts";
import {
  CLIENT_IDS,
  type ClientId,
  findReadingClients,
  getSkillClient,
  type Location,
} from "../../skill/source/locations.ts";
import { isInside } from "../../util/safe-path.ts";
import { filterAsync } from "../../util/sequential.ts";
import { compareText } from "../../util/text.ts";

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
