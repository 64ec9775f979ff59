import { existsSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import { userHome } from "../../host/home.ts";
import { placeOf } from "../../host/trust.ts";
import { SkillError } from "../../shared/error.ts";
import { isInside, realPlace } from "../../shared/inside.ts";
import { count, oneLine } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import { displayPath, projectRoot } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { folderSaid } from "../found.ts";
import { type Io, isAgreed, type Printer, printer, printJson } from "../io.ts";
import type { CommonOptions } from "../program.ts";
import { notAgreed } from "../told.ts";

interface TrustTextOptions extends CommonOptions {
  /** The workspace. Defaults to the repository of the current one. */
  folder: string | undefined;
  revoke?: boolean;
  yes?: boolean;
}

/** Approves, or stops approving, that models read the skills of a workspace. */
export async function trustText(io: Io, found: Discovered, options: TrustTextOptions): Promise<number> {
  const folder = workspaceFolder(io, found, options.folder);
  return options.revoke ? revokeText(io, found, folder, options) : approveText(io, found, folder, options);
}

function workspaceFolder(io: Io, { around }: Discovered, given: string | undefined): string {
  const path = given === undefined ? around.workspace : resolve(io.cwd, given);
  if (!existsSync(path)) {
    throw new SkillError("not-found", {
      message: `There is no folder ${folderSaid(path, around)}`,
      fix: "name the folder of a workspace, or run this in it",
    });
  }
  const real = realpathSync(path);
  if (real !== realpathSync(around.workspace)) return real;
  const root = projectRoot(real);
  return holdsHome(io, root) ? real : root; // A home folder can be a repository itself.
}

function holdsHome(io: Io, folder: string): boolean {
  return isInside(folder, realPlace(userHome(io.env)));
}

async function approveText(io: Io, found: Discovered, folder: string, options: TrustTextOptions): Promise<number> {
  const { catalog, trust, around } = found;
  const skills = [...catalog.skills, ...catalog.shadowed].filter(
    (skill) => skill.origin.scope === "workspace" && isInside(folder, placeOf(skill)),
  );
  const where = displayPath(folder, around);
  if (holdsHome(io, folder)) {
    throw new SkillError("workspace-too-wide", {
      message: `${where} holds your home folder, so this would approve every workspace in it`,
      fix: "name the folder of one workspace",
    });
  }
  if (skills.length === 0) {
    throw new SkillError("not-found", {
      message: `There is no workspace skill in ${where}`,
      fix: "`skillet list` shows where each skill comes from",
    });
  }
  const isAsking = io.ask !== undefined && !options.yes;
  if (!options.json || isAsking) printTexts(printer(options.json ? io.stderr : io.stdout, io.env), skills, where);
  if (!options.yes && !(await isAgreed(io, `Let models read the skills in ${where}, also those added later?`)))
    throw notAgreed(io, "not approved", "look at the skills (skillet show NAME), then say --yes");
  trust.text.approve(folder);
  const names = skills.map(({ name }) => name);
  if (options.json) printJson(io.stdout, { approved: folder, skills: names });
  else {
    const out = printer(io.stdout, io.env);
    out.line`${out.green("✓")} models may read ${count(skills.length, "skill")} of ${where}`;
    out.line`  their code waits for trust in each skill; to stop this: ${out.cyan(`skillet trust --text --revoke ${where}`)}`;
  }
  return EXIT.fine;
}

const MOST_SHOWN = 40;

function printTexts(out: Printer, skills: readonly Skill[], where: string): void {
  out.line`${count(skills.length, "skill")} of ${where}:`;
  for (const { name, description } of skills.slice(0, MOST_SHOWN))
    out.line`  ${out.bold(name)}  ${out.dim(oneLine(description, Math.max(20, out.width - name.length - 5)))}`;
  const more = skills.length - MOST_SHOWN;
  if (more > 0) out.line`  ${out.dim(`… and ${more} more: skillet list`)}`;
}

function revokeText(
  io: Io,
  { trust, around }: Discovered,
  folder: string,
  { json }: Pick<TrustTextOptions, "json">,
): number {
  const revoked = trust.text.revoke(folder);
  if (revoked.length === 0) {
    throw new SkillError("not-found", {
      message: `The text of ${displayPath(folder, around)} has not been approved`,
      fix: "`skillet trust --list` shows what has been",
    });
  }
  if (json) printJson(io.stdout, { revoked });
  else {
    const out = printer(io.stdout, io.env);
    for (const one of revoked)
      out.line`${out.green("✓")} models no longer read the skills of ${displayPath(one, around)}`;
  }
  return EXIT.fine;
}
