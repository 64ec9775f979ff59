import { unavailability } from "../../policy/policy.ts";
import { defined } from "../../shared/defined.ts";
import { count } from "../../shared/text.ts";
import { SCOPES } from "../../skill/skill.ts";
import { shortPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, warnOfConfiguration } from "../found.ts";
import { printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { brokenFiles, describe, printSkills } from "./list.ts";

const SHOWN = 12;
/** A longer name leaves no room for what the command does. */
const SHORT = 14;

/** `skillet` alone: what is here, and what to do next. */
export async function overview({ io, options }: Context<object>): Promise<number> {
  const found = await discoverFor(io, options);
  const isConfigured = warnOfConfiguration(io, found);
  const { catalog, around } = found;
  const skills = catalog.available((skill) => unavailability(skill, found));
  if (options.json) {
    const folders = catalog.sources.map(({ path: folder, ...source }) => ({ ...source, ...defined({ folder }) }));
    printJson(io.stdout, { workspace: around.workspace, skills: skills.map(describe), folders });
    return isConfigured ? EXIT.fine : EXIT.usage;
  }
  const out = printer(io.stdout, io.env);
  const scopes = SCOPES.map((scope) => [scope, skills.filter((skill) => skill.origin.scope === scope).length] as const);
  const parts = scopes.filter(([, number]) => number > 0).map(([scope, number]) => `${number} ${scope}`);
  out.line`${out.bold("skillet")}: ${count(skills.length, "skill")} for ${shortPath(around.workspace, around.home)}${parts.length > 0 ? ` (${parts.join(", ")})` : ""}`;
  out.line``;
  printSkills(io, skills.slice(0, SHOWN), found.trust);
  if (skills.length > SHOWN) out.line`${out.dim(`… and ${skills.length - SHOWN} more`)}`;
  const broken = brokenFiles(catalog);
  // Whoever came through npm has no command of this name on the path.
  const skillet = io.env["npm_command"] ? "npx skillet" : "skillet";
  const next: [string, string][] = [];
  const waiting = found.runs.list().filter(({ state }) => state === "waiting").length;
  if (waiting > 0)
    next.push([`${skillet} approve`, `${count(waiting, "run")} ${waiting === 1 ? "waits" : "wait"} for your word`]);
  if (broken > 0) next.push([`${skillet} list --all`, `see why ${count(broken, "file")} did not load`]);
  const [first] = skills;
  if (first)
    next.push([
      `${skillet} show ${skills.find(({ name }) => name.length <= SHORT)?.name ?? "NAME"}`,
      "what it tells a model, its files, its source",
    ]);
  if (first) next.push([`${skillet} chat "…"`, "an agent with these skills; works without a key"]);
  if (skills.some(({ name }) => name === "host-report"))
    next.push([`${skillet} run host-report`, "use one of them, as a sub-agent of its own"]);
  if (first) next.push([`${skillet} explain "…"`, "what a model is told for a query, and why"]);
  if (first) next.push([`${skillet} serve --help`, "let the agents you already use have them"]);
  next.push([`${skillet} new my-skill`, "make a skill of your own"]);
  next.push([`${skillet} check`, "check the skills of this workspace"]);
  next.push([`${skillet} runs`, "what was done with skills; stats counts it"]);
  next.push([`${skillet} doctor`, "where skills are looked for, and what is wrong"]);
  next.push([`${skillet} doctor --sandbox`, "how code is kept apart, tried on this machine"]);
  out.line`\n${out.bold("Next")}`;
  const widest = Math.max(...next.map(([command]) => command.length));
  for (const [command, what] of next) out.line`  ${out.cyan(command.padEnd(widest))}  ${what}`;
  return isConfigured ? EXIT.fine : EXIT.usage;
}
