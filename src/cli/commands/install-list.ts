import { dirname } from "node:path";
import { checkRecord } from "../../install/copies.ts";
import { clientOf } from "../../install/target.ts";
import { defined } from "../../shared/defined.ts";
import { nearest } from "../../shared/text.ts";
import { shortPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, requireConfiguration } from "../found.ts";
import { copiesFrom, type Row, STATES, type State, stateOf, titleOf } from "../install/copies.ts";
import { type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { printHanging } from "../wrap.ts";
import { clientIds } from "./install.ts";

interface ListOptions {
  to?: string;
  project?: boolean;
}

/** Shows what skillet put where, in every project. */
export async function listInstalled({ io, options, args }: Context<ListOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  checkRecord(found.installs);
  requireConfiguration(io, found);
  const clients = options.to === undefined ? [] : clientIds(options.to, "name one: --to claude");
  for (const id of clients) clientOf(id);
  const all = copiesFrom(found.installs, found.around, options.workspace);
  const rows = all
    .filter(({ client, skill }) => isMeant(client, clients) && isMeant(skill, args))
    .filter(({ where }) => !options.project || where === "project")
    .map((row): Listed => ({ ...row, state: stateOf(row, found) }));
  if (options.json) printJson(io.stdout, { installed: rows.map(asJson) });
  else printRows(printer(io.stdout, io.env), rows, found.around.home);
  if (options.json) return EXIT.fine;
  const error = printer(io.stderr, io.env);
  for (const name of args.filter((name) => !rows.some(({ skill }) => skill === name))) {
    const meant = nearest(name, new Set(all.map(({ skill }) => skill)));
    error.line`no copy of '${name}'${inPlaces(clients, options)}${meant && meant !== name ? `: did you mean "${meant}"?` : ""}`;
  }
  if (rows.length > 0 || args.length > 0) return EXIT.fine;
  if (all.length > 0)
    error.line`nothing${inPlaces(clients, options)}: \`skillet export --list\` shows what is elsewhere`;
  else error.line`no copies yet: \`skillet export NAME --to claude\` makes one`;
  return EXIT.fine;
}

interface Listed extends Row {
  state: State;
}

function asJson({ skill, client, source, original, copy, at, folder, state }: Listed): object {
  return { name: skill, client, source, ...defined({ file: original }), folder, digest: copy, at, state };
}

function printRows(out: Printer, rows: readonly Listed[], home: string): void {
  for (const [folder, copies] of Map.groupBy(rows, (row) => dirname(row.folder))) {
    const clients = new Set(copies.map(({ client }) => titleOf(client)));
    out.line`${out.bold([...clients].join(", "))} ${out.dim(shortPath(folder, home))}`;
    const widest = Math.min(32, Math.max(...copies.map(({ skill }) => skill.length)));
    for (const row of copies) {
      const { skill, source, state } = row;
      const { said, isFine } = STATES[state];
      const before = out.text`  ${isFine ? out.green("✓") : out.yellow("!")} ${out.bold(skill.padEnd(widest))}  `;
      printHanging(out, before, [`${said(row, home)} (from ${source})`], { indent: widest + 6 });
    }
  }
}

function isMeant(name: string, given: readonly string[]): boolean {
  return given.length === 0 || given.includes(name);
}

/** Where was looked, if not everywhere. */
function inPlaces(clients: readonly string[], { project }: ListOptions): string {
  const titles = clients.map(titleOf).join(", ");
  return `${titles === "" ? "" : ` in ${titles}`}${project ? " in this workspace" : ""}`;
}
