import { type SandboxPath, WORKSPACE_FOLDER } from "../../host/sandbox.ts";
import { shownPath } from "../../policy/shown-path.ts";
import { describeSandbox, type SandboxView } from "../../run/sandbox-view.ts";
import { sandboxFolder } from "../../sandbox/places.ts";
import { isInside } from "../../shared/inside.ts";
import { count, grouped } from "../../shared/text.ts";
import { SKILL_FOLDER } from "../../skill/script.ts";
import type { Skill } from "../../skill/skill.ts";
import type { Found } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import { fromHere } from "../next-step.ts";
import { sayNotice } from "../say.ts";
import { printHanging } from "../wrap.ts";

interface Shown {
  skill: Skill;
  asJson: boolean;
  workspace: string | undefined;
}

/** Prints what the scripts of a skill would see. */
export async function showSandbox(io: Io, found: Found, { skill, asJson, workspace }: Shown): Promise<void> {
  const view = await describeSandbox(found, skill);
  if (asJson) return printJson(io.stdout, view);
  const out = printer(io.stdout, io.env);
  const { level, by } = view.isolation;
  const row = (label: string, value: string) =>
    printHanging(out, out.text`  ${out.dim(label.padEnd(9))} `, [value], { indent: 12 });
  out.line`${out.bold(skill.name)}  what its scripts see`;
  out.line``;
  row("level", level === "none" ? "none: NOTHING IS ISOLATED, code can do all that you can" : `${level}, by ${by}`);
  row("starts in", view.folder);
  row("network", view.network.join(", ") || "none");
  row("variables", view.variables.join(", "));
  row("packages", formatPackages(view) || "none besides the system's");
  row("limits", formatLimits(view));
  for (const [access, title] of TITLES) {
    const paths = view.paths.filter((path) => path.access === access);
    if (paths.length === 0) continue;
    out.line`\n${out.bold(title)}`;
    for (const path of [...paths.filter(isOfUser), ...paths.filter((path) => !isOfUser(path))])
      printHanging(out, out.text`  ${path.path.padEnd(21)} `, [formatOrigin(path, found)], {
        indent: 24,
        paint: out.dim,
      });
  }
  if (!view.isComplete) out.line`\n${MORE[level === "none" ? "none" : "image"]}`;
  const error = printer(io.stderr, io.env);
  for (const { message, fix } of view.notices) sayNotice(error, error.yellow("!"), message, fromHere(fix, workspace));
}

const TITLES = [
  ["read", "Readable"],
  ["read-write", "Writable"],
] as const;

const MORE = {
  none: "And every other file that you can read or write.",
  image: "And the files of the system or image that the sandbox is made of.",
};

function isOfUser({ path }: SandboxPath): boolean {
  return path === SKILL_FOLDER || path === WORKSPACE_FOLDER;
}

function formatOrigin({ path, access, from }: SandboxPath, found: Found): string {
  if (path === SKILL_FOLDER) return "the skill's files, as a copy";
  if (path === WORKSPACE_FOLDER)
    return `the workspace ${shownPath(from ?? "", found)}; sockets and named pipes are masked`;
  if (from === undefined) return access === "read-write" ? "empty, its own, removed afterwards" : "its own";
  if (isInside(sandboxFolder(found.home), from)) return "from skillet";
  return from === path ? "the system's" : from;
}

function formatPackages({ packages: { system, python, npm } }: SandboxView): string {
  const kinds = Object.entries({ system, Python: python, npm }).filter(([, names]) => names.length > 0);
  return kinds.map(([kind, names]) => `${kind}: ${names.join(", ")}`).join("; ");
}

function formatLimits({ limits }: SandboxView): string {
  const mib = (bytes: number) => `${grouped(Math.round(bytes / 1024 / 1024))} MiB`;
  return [
    `${limits.seconds} s`,
    `${mib(limits.memory)} memory`,
    count(limits.processes, "process", "processes"),
    `${mib(limits.disk)} in each writable folder of its own`,
    `${mib(limits.output)} output`,
  ].join(", ");
}
