import { existsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { SkillError } from "../../shared/error.ts";
import { displayPath, locations } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { surroundingsFor } from "../found.ts";
import { printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { writeToolsetTypes } from "../toolset-types.ts";

export async function types({ io, options, args: [path] }: Context<object>): Promise<number> {
  const around = surroundingsFor(io, options);
  const given = path === undefined ? (locations(around).at(-1)?.path ?? "") : resolve(io.cwd, path);
  if (!existsSync(given) || !statSync(given).isDirectory()) {
    throw new SkillError("not-found", {
      message: `${displayPath(given, around)} is not a folder`,
      fix: "name a skill's folder, or a folder of skills: skillet types skills/NAME",
    });
  }
  const { folder, written, kept } = writeToolsetTypes(existsSync(join(given, "SKILL.md")) ? dirname(given) : given);
  if (options.json) printJson(io.stdout, { folder, written, kept });
  else {
    const out = printer(io.stdout, io.env);
    const here = { ...around, workspace: io.cwd };
    for (const name of written) out.line`${out.green("✓")} ${displayPath(join(folder, name), here)}`;
    for (const name of kept)
      out.line`${out.dim("·")} ${displayPath(join(folder, name), here)} is installed and stays as it is`;
  }
  return EXIT.fine;
}
