import { existsSync, lstatSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import { userHome } from "../../host/home.ts";
import { judgeOwner } from "../../host/own-files.ts";
import { placeOf } from "../../host/trust.ts";
import { sayOwnRefusal } from "../../policy/trust.ts";
import { storeFolder } from "../../sandbox/places.ts";
import { storeSkill } from "../../sandbox/store.ts";
import { SkillError } from "../../shared/error.ts";
import { isInside, realPlace } from "../../shared/inside.ts";
import { count } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import { copySkill } from "../../source/digest.ts";
import { displayPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { folderSaid } from "../found.ts";
import { type Io, isAgreed, printer, printJson } from "../io.ts";
import type { CommonOptions } from "../program.ts";
import { someOf } from "../supply/words.ts";
import { notAgreed } from "../told.ts";
import { printHanging } from "../wrap.ts";

interface TrustMineOptions extends CommonOptions {
  folder: string;
  revoke?: boolean;
  yes?: boolean;
}

/** Records, or no longer, that the user writes the skills of a folder: edits of them keep the trust. */
export async function trustMine(io: Io, found: Discovered, options: TrustMineOptions): Promise<number> {
  return options.revoke ? revokeMine(io, found, options) : approveMine(io, found, options);
}

const LIMITS = [
  "An edit of yours keeps the trust in a skill there. A change by a run, a chat, an MCP call or an update of skillet, or one that git brings (HEAD moves), ends it for that skill.",
  "This does not protect from other programs that run as you: whatever they write there counts as your edit.",
];

async function approveMine(io: Io, found: Discovered, options: TrustMineOptions): Promise<number> {
  const { trust, around, catalog, home } = found;
  const folder = judgeFolder(io, found, options.folder);
  const where = displayPath(folder, around);
  const skills = [...new Set([...catalog.skills, ...catalog.shadowed])].filter(
    (skill) => skill.origin.remote === undefined && placeOf(skill) !== "" && isInside(folder, placeOf(skill)),
  );
  const out = printer(options.json ? io.stderr : io.stdout, io.env);
  const isAsking = io.ask !== undefined && !options.yes;
  if (!options.json || isAsking) {
    const names = skills.map(({ name }) => name);
    out.line`${out.bold(where)}  ${skills.length === 0 ? "no skill is found there yet" : `${count(skills.length, "skill")}: ${someOf(names, 12)}`}`;
    for (const line of LIMITS) printHanging(out, "  ", [line], { indent: 2 });
  }
  if (!options.yes && !(await isAgreed(io, `Trust the skills in ${where}, and their code, as your own work?`)))
    throw notAgreed(io, "not trusted", "look at the skills (skillet show NAME), then say --yes");
  trust.own.add(folder, skills.map(placeOf));
  const uncovered = skills.flatMap((skill) => {
    const why = record(skill, found);
    return why === undefined ? [] : [{ name: skill.name, why }];
  });
  for (const skill of skills)
    if (!uncovered.some(({ name }) => name === skill.name)) storeSkill(copySkill(skill), storeFolder(home));
  if (options.json) {
    printJson(io.stdout, { mine: folder, skills: skills.map(({ name }) => name), uncovered });
  } else {
    out.line`${out.green("✓")} yours: ${where}`;
    for (const { name, why } of uncovered)
      printHanging(out, out.text`  ${out.yellow("!")} `, [`${name} still waits: ${why}`], { indent: 4 });
    out.line`  to take it back: ${out.cyan(`skillet trust --mine --revoke ${where}`)}`;
  }
  return uncovered.length > 0 ? EXIT.findings : EXIT.fine;
}

/** Judges a skill, which records it. Returns why it is not trusted. */
function record(skill: Skill, { trust }: Discovered): string | undefined {
  try {
    const state = trust.standingOf(skill);
    if (state === "own") return undefined;
    if (state === "changed") return "it is not what its lock says";
    const changes = trust.changesOf(skill, copySkill(skill));
    const refusal = trust.refusalOf(skill);
    if (refusal) return sayOwnRefusal(refusal);
    return changes.length > 0 ? "it cannot be compared" : undefined;
  } catch (error) {
    if (error instanceof SkillError) return error.message;
    throw error;
  }
}

function judgeFolder(io: Io, { around, home }: Discovered, given: string): string {
  const path = resolve(io.cwd, given);
  if (!existsSync(path) || !lstatSync(realpathSync(path)).isDirectory()) {
    throw new SkillError("not-found", {
      message: `There is no folder ${folderSaid(path, around)}`,
      fix: "name the folder that you write skills in",
    });
  }
  const folder = realpathSync(path);
  const shown = displayPath(folder, around);
  const wide = [userHome(io.env), home, around.home].find((one) => isInside(folder, realPlace(one)));
  if (wide !== undefined) {
    throw new SkillError("workspace-too-wide", {
      message: `${shown} holds your home folder, so this would trust what any program puts there`,
      fix: "name the folder that you write skills in",
    });
  }
  const why = judgeOwner(lstatSync(folder));
  if (why !== undefined) {
    throw new SkillError("owned-by-others", {
      message: `${shown} ${why === "owner" ? "belongs to another user" : "can be written to by other users"}`,
      fix: why === "owner" ? "name a folder of yours" : `chmod go-w ${shown}`,
    });
  }
  return folder;
}

function revokeMine(io: Io, { trust, around }: Discovered, options: TrustMineOptions): number {
  const path = resolve(io.cwd, options.folder);
  const folder = existsSync(path) ? realpathSync(path) : path;
  const revoked = trust.own.revoke(folder);
  if (revoked.length === 0) {
    throw new SkillError("not-found", {
      message: `${folderSaid(path, around)} is not a folder that was trusted as yours`,
      fix: "`skillet trust --list` shows those that were",
    });
  }
  if (options.json) printJson(io.stdout, { revoked });
  else {
    const out = printer(io.stdout, io.env);
    for (const one of revoked) out.line`${out.green("✓")} no longer trusted as yours: ${displayPath(one, around)}`;
  }
  return EXIT.fine;
}
