import { isEdited } from "../../host/lock/format.ts";
import { openStamps } from "../../host/lock/stamps.ts";
import { isEnabled } from "../../policy/policy.ts";
import { byText, count } from "../../shared/text.ts";
import { displayPath, type Surroundings } from "../../source/locations.ts";
import { needsTrust } from "../../supply/skills-place.ts";
import { unlockedIn, type Verified, verifySkill } from "../../supply/verify.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, surroundingsFor, warnOfConfiguration } from "../found.ts";
import { type Io, type Printer, printer, printJson, type Safe } from "../io.ts";
import type { Context } from "../program.ts";
import { everyLockedPlace } from "../supply/locked-skills.ts";
import { sayOrigin } from "../supply/origin.ts";
import { printHanging } from "../wrap.ts";

/** What was added, from where, and whether it is as its lock says. */
export async function listInstalled({ io, options }: Context<object>): Promise<number> {
  const around = surroundingsFor(io, options);
  const places = everyLockedPlace(around, ["user", "project"]);
  const found = await discoverFor(io, options);
  const isConfigured = warnOfConfiguration(io, found);
  const { catalog } = found;
  const stamps = openStamps(around.skilletHome);
  const rows = places.flatMap(({ place, skills }) => {
    const { isProject } = place;
    const locked = skills.map(([name, entry]) => {
      const { files: _files, upstream: _upstream, ...rest } = entry;
      const skill = catalog.find(name);
      const isOn = skill === undefined || isEnabled(skill, found) === undefined;
      const state = verifySkill(place, name, entry, stamps).is;
      const facts = { name, folder: place.folder, isProject, ...rest, isEdited: isEdited(entry) };
      return { ...facts, isEnabled: isOn, state };
    });
    const unlocked = needsTrust(place) ? [] : unlockedIn(place, new Set(skills.map(([name]) => name)));
    return [
      ...locked,
      ...unlocked.map((name) => ({ name, folder: place.folder, isProject, state: "unlocked" as const })),
    ];
  });
  rows.sort((a, b) => Number(a.isProject) - Number(b.isProject) || byText(a.name, b.name));
  if (options.json) printJson(io.stdout, { skills: rows });
  else print(io, rows, around);
  return isConfigured ? EXIT.fine : EXIT.usage;
}

type Row = { name: string; folder: string; isProject: boolean; state: Verified["is"] } & (
  | {
      source: string;
      path?: string;
      ref?: string;
      commit?: string;
      adopted?: true;
      isEdited: boolean;
      isEnabled: boolean;
    }
  | { source?: undefined }
);

/** At once: a thousand writes take longer than what they tell of. */
function print(io: Io, rows: readonly Row[], around: Surroundings): void {
  const lines: string[] = [];
  const { isTTY, columns } = io.stdout;
  const out = printer({ isTTY, columns, write: (text) => lines.push(text) }, io.env);
  const error = printer(io.stderr, io.env);
  const widest = Math.min(32, Math.max(0, ...rows.map(({ name }) => name.length)));
  for (const row of rows) {
    const notes = [
      STATES[row.state],
      row.source !== undefined && row.isEdited && "with your changes",
      row.source !== undefined && !row.isEnabled && "switched off",
      row.source !== undefined && row.adopted && `adopted in ${displayPath(row.folder, around)}`,
      row.isProject && "project",
    ].filter(Boolean);
    const origin = row.source === undefined ? "" : sayOrigin(row);
    const says = [origin, notes.length > 0 ? `(${notes.join(", ")})` : ""].filter(Boolean).join(" ");
    const before = out.text`${stateOf(out, row.state)} ${out.bold(row.name.padEnd(widest))}  `;
    printHanging(out, before, [says], { indent: widest + 4, start: Math.max(widest, row.name.length) + 4 });
  }
  io.stdout.write(lines.join(""));
  const wrong = rows.filter(({ state }) => state !== "as-locked").length;
  if (rows.length === 0) error.line`nothing was added yet: \`skillet add SOURCE\` does`;
  else if (wrong > 0)
    error.line`${error.yellow("!")} ${count(wrong, "skill")} not as locked: \`skillet verify\` says what differs`;
}

const STATES: Record<Verified["is"], string> = {
  "as-locked": "",
  changed: "changed since",
  missing: "gone",
  unlocked: "not added with skillet",
  unreadable: "cannot be compared",
};

function stateOf(out: Printer, state: Verified["is"]): Safe {
  return state === "as-locked" ? out.green("✓") : state === "unlocked" ? out.yellow("?") : out.red("✗");
}
