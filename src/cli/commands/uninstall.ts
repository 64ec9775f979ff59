import { lstatSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import { type Installs, openInstalls } from "../../host/installs.ts";
import { NATIVE_CLIENTS } from "../../install/clients.ts";
import { checkRecord, removeCopies } from "../../install/copies.ts";
import { installedIn, type Target, type TargetOptions, targetOf } from "../../install/target.ts";
import { SkillError } from "../../shared/error.ts";
import { codeOf } from "../../shared/inside.ts";
import { shortPath } from "../../source/locations.ts";
import { surroundingsFor } from "../found.ts";
import { copiesFrom, noCopy } from "../install/copies.ts";
import { type Outcome, printOutcomes } from "../install/words.ts";
import { printer } from "../io.ts";
import type { Context } from "../program.ts";
import { clientIds } from "./install.ts";

interface UninstallOptions {
  all?: boolean;
  to?: string;
  /** As `uninstall` names the clients. */
  from?: string;
  project?: boolean;
  dryRun?: boolean;
  force?: boolean;
}

/** Takes copies out of the folders of clients again: only what skillet put there. */
export async function uninstall({ io, options, args }: Context<UninstallOptions>): Promise<number> {
  const [option, clients] =
    options.from === undefined ? (["--to", options.to] as const) : (["--from", options.from] as const);
  if (args.length > 0 === (options.all ?? false)) {
    throw new SkillError("usage", {
      message: options.all ? "Names and --all were both given" : "No skill was named",
      fix: options.all ? "give one of them" : "name skills, or add --all; `skillet export --list` shows the copies",
    });
  }
  const around = surroundingsFor(io, options);
  const installs = openInstalls(around.skilletHome);
  checkRecord(installs);
  const targets = targetsOf(clients, option, { around, isProject: options.project ?? false });
  const places = [
    ...targets.map((target): Place => ({ target, installed: new Set(installedIn(target, installs)) })),
    ...(clients === undefined && !options.project ? abandoned(installs, { targets, home: around.home }) : []),
  ];
  const outcomes = places.flatMap(({ target, installed }): Outcome[] => {
    const names = options.all ? [...installed] : args.filter((name) => isMeant(name, target, places));
    if (names.length === 0) return [];
    try {
      const request = { target, installs, force: options.force, isDryRun: options.dryRun };
      return [{ target, steps: removeCopies({ ...request, names: [...new Set(names)] }) }];
    } catch (error) {
      if (error instanceof SkillError) return [{ target, steps: [], error }];
      throw error;
    }
  });
  const missing = args.find(
    (name) => !outcomes.some(({ steps, error }) => error || steps.some((step) => step.name === name)),
  );
  if (missing !== undefined) {
    throw noCopy(missing, copiesFrom(installs, around, options.workspace), {
      home: around.home,
      isProject: options.project ?? false,
      option,
      clients: clients === undefined ? undefined : targets.map(({ id }) => id),
    });
  }
  if (outcomes.length === 0 && !options.json) {
    const out = printer(io.stderr, io.env);
    out.line`no copies there: \`skillet export --list\` shows all`;
  }
  return printOutcomes(io, outcomes, options);
}

interface Place {
  target: Target;
  /** The names of what skillet put there. */
  installed: ReadonlySet<string>;
}

/** The clients' folders, each once. One that cannot be reached holds nothing, unless it was asked for. */
function targetsOf(clients: string | undefined, option: string, where: TargetOptions): Target[] {
  const byFolder = new Map<string, Target>();
  const known = Object.keys(NATIVE_CLIENTS);
  for (const id of clients === undefined ? known : clientIds(clients, `name one: ${option} claude`)) {
    try {
      const target = targetOf(id, where);
      if (!byFolder.has(target.folder)) byFolder.set(target.folder, target);
    } catch (error) {
      if (clients !== undefined || !(error instanceof SkillError)) throw error;
    }
  }
  return [...byFolder.values()];
}

/** What was put where no client has its folder here, such as into a workspace that is gone, and is not there: it only has to be crossed out. */
function abandoned(installs: Installs, { targets, home }: { targets: readonly Target[]; home: string }): Place[] {
  const known = new Set(targets.map(({ folder }) => folder));
  const gone = Object.entries(installs.entries()).filter(
    ([place, { skill }]) =>
      isAbsolute(place) && basename(place) === skill && !known.has(dirname(place)) && isGone(place),
  );
  return [...Map.groupBy(gone, ([place]) => dirname(place))].flatMap(([folder, entries]) => {
    const [id = ""] = entries.map(([, { client }]) => client);
    const client = Object.hasOwn(NATIVE_CLIENTS, id) ? NATIVE_CLIENTS[id] : undefined;
    const installed = new Set(entries.map(([, { skill }]) => skill));
    return client ? [{ target: { id, client, folder, shown: shortPath(folder, home) }, installed }] : [];
  });
}

function isGone(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) === undefined;
  } catch (error) {
    return codeOf(error) === "ENOTDIR";
  }
}

/** Where skillet put it; and if that is nowhere, wherever something of its name stands, so that it can be said whose it is. */
function isMeant(name: string, { folder }: Target, places: readonly Place[]): boolean {
  const own = places.filter(({ installed }) => installed.has(name));
  if (own.length > 0) return own.some(({ target }) => target.folder === folder);
  return isPlain(name) && isThere(join(folder, name));
}

function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false; // No folder, or none that can be looked into, or no name that anything could have.
  }
}

function isPlain(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && !/[/\\\0]/.test(name);
}
