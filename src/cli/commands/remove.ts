import { join } from "node:path";
import { SkillError } from "../../shared/error.ts";
import { change, digestAt } from "../../supply/put.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, requireConfiguration, surroundingsFor } from "../found.ts";
import { printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { lockedPlace, named } from "../supply/locked-skills.ts";

interface RemoveOptions {
  project?: boolean;
  dryRun?: boolean;
  force?: boolean;
}

/** Takes added skills away, with their entries in the lock: all of them or none. */
export async function remove({ io, options, args }: Context<RemoveOptions>): Promise<number> {
  const locked = lockedPlace(surroundingsFor(io, options), options.project ?? false);
  const { place } = locked;
  const entries = named(locked, args);
  const found = await discoverFor(io, options);
  requireConfiguration(io, found);
  const going = entries.map(([name, entry]) => {
    const digest = digestAt(join(place.folder, name));
    const isEdited = digest !== undefined && digest !== (entry.upstream ?? entry).digest;
    return { name, digest, isEdited };
  });
  const edited = going.filter(({ isEdited }) => isEdited).map(({ name }) => name);
  if (edited.length > 0 && !options.force) {
    throw new SkillError("edited", {
      message: `You changed ${edited.join(", ")} since ${edited.length === 1 ? "it was" : "they were"} added, and nothing was removed`,
      fix: `--force removes ${edited.length === 1 ? "it" : "them"} with your changes: copy what you need of them first`,
    });
  }
  if (!options.dryRun) {
    const removed = Object.fromEntries(going.map(({ name, digest }) => [name, digest]));
    change({ place, remove: removed, skilletHome: found.home });
    for (const { name } of going) found.approvals.forget(name);
    found.trust.revoke(going.map(({ name }) => join(place.folder, name)));
  }
  if (options.json) {
    const removed = going.map(({ name }) => name);
    printJson(io.stdout, { folder: place.folder, isDryRun: options.dryRun ?? false, removed });
  } else {
    const out = printer(io.stdout, io.env);
    const names = going.map(({ name }) => name).join(", ");
    out.line`${out.green("✓")} ${options.dryRun ? "would be removed" : "removed"}: ${names} ${out.dim(`from ${place.shown}`)}`;
    const copies = Object.entries(found.installs.entries()).filter(([, { original = "" }]) =>
      going.some(({ name }) => original === join(place.folder, name, "SKILL.md")),
    );
    for (const [folder, { skill }] of copies) {
      out.line`  ${out.dim(`a copy is still in ${folder}: skillet export --remove ${skill}`)}`;
    }
  }
  return EXIT.fine;
}
