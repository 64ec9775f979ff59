import type { Discovered } from "../../host/discover.ts";
import type { Notice } from "../../host/sandbox.ts";
import { oneLine } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { discoverToUse, requireConfiguration } from "../found.ts";
import { type Io, type Printer, printer, printJson, untilInterrupted } from "../io.ts";
import type { Context } from "../program.ts";
import { waitingFor } from "../progress.ts";
import { sayNotice } from "../say.ts";
import { sayServers, serversOf } from "../servers.ts";
import { takesOf } from "../takes.ts";
import { openServer, openTools, skillsWithTools, type ToolRow } from "../tools-found.ts";
import { explainMissing } from "./show.ts";

/** Shows the tools that skills bring, each imported as a run would import it; or those of a server, by its name. */
export async function tools({ io, options, args }: Context<object>): Promise<number> {
  const [name] = args;
  const found = await discoverToUse(io, options);
  requireConfiguration(io, found);
  const named = name === undefined ? undefined : found.catalog.find(name);
  const server = await waitingFor(io, `starting ${name}`, () =>
    name === undefined || named ? undefined : untilInterrupted(io, () => openServer(found, name)),
  );
  if (name !== undefined && !named && !server) return explainMissing(io, found, name);
  const rows: ToolRow[] = server ? [server] : [];
  server?.close();
  await waitingFor(io, "importing toolsets", async ({ at }) => {
    for (const skill of server ? [] : named ? [named] : skillsWithTools(found)) {
      at(`importing the tools of ${skill.name}`);
      for (const row of await untilInterrupted(io, () => openTools(found, [skill]))) {
        row.close(); // One thread at a time.
        rows.push(row);
      }
    }
  });
  if (options.json) printJson(io.stdout, { skills: rows.map(asData) });
  else {
    for (const row of rows) printRow(io, row);
    if (rows.every((row) => row.tools.length + row.problems.length === 0)) sayNone(io, name, server !== undefined);
    if (name === undefined) hintAtServers(io, found);
  }
  return exitOf(rows, name !== undefined);
}

function sayNone(io: Io, name: string | undefined, isServer: boolean): void {
  const out = printer(io.stderr, io.env);
  if (isServer) out.line`${name ?? ""} has no tools`;
  else
    out.line`${name === undefined ? "no skill here brings tools" : `${name} brings no tools`}: a skill lists them under toolsets`;
}

/** They are not started for a list: that may take long. */
function hintAtServers(io: Io, found: Discovered): void {
  const [first] = serversOf(found);
  if (!first) return;
  const out = printer(io.stderr, io.env);
  out.line`${out.dim(`servers of tools: ${sayServers(found)}`)}`;
  out.line`  ${out.cyan(`skillet tools ${first.name}`)} shows what one has, ${out.cyan("skillet doctor --tools")} tries all`;
}

/** What waits for the user's word is not broken; who asked for it by name should know. */
function exitOf(rows: readonly ToolRow[], isNamed: boolean): number {
  const codes = rows.flatMap(({ problems }) => problems.map(({ code }) => code));
  if (codes.some((code) => !WAITING.has(code))) return EXIT.findings;
  return isNamed && codes.length > 0 ? EXIT.refused : EXIT.fine;
}

const WAITING = new Set(["untrusted", "changed"]);

function asData({ name, source, tools, problems }: ToolRow): object {
  return {
    name,
    source,
    tools: tools.map((tool) => ({
      name: tool.name,
      description: tool.description,
      isMutating: tool.effect !== undefined,
      inputSchema: tool.inputSchema,
    })),
    problems,
  };
}

function printRow(io: Io, { name, source, tools, problems }: ToolRow): void {
  const out = printer(io.stdout, io.env);
  const error = printer(io.stderr, io.env);
  if (tools.length > 0) out.line`${out.bold(name)} ${out.dim(source)}`;
  const widest = Math.max(0, ...tools.map((tool) => tool.name.length));
  for (const tool of tools) {
    const changes = tool.effect ? out.text` ${out.yellow("asks first")}` : "";
    out.line`  ${tool.name.padEnd(widest)}  ${oneLine(tool.description, 200)}${changes}`;
    const takes = takesOf(tool.inputSchema);
    if (takes !== "") out.line`    ${out.dim(oneLine(takes, Math.min(out.width - 4, 300)))}`;
  }
  sayProblems(error, problems);
}

/** What is wrong, or waits, each with what to do. */
export function sayProblems(out: Printer, problems: readonly Notice[]): void {
  for (const { code, message, fix } of problems)
    sayNotice(out, WAITING.has(code) ? out.yellow("!") : out.red("✗"), message, fix);
}
