import { findFirstDenial, isToolDisabled } from "../../agent/policy/skill-policies.ts";
import { trustPolicy } from "../../agent/policy/trust-policy.ts";
import { createHostRedactor } from "../../agent/run/redaction.ts";
import { toProblem } from "../../agent/run/run-result.ts";
import { wrapHostTool } from "../../agent/tools/tool-output.ts";
import { openToolsets } from "../../agent/toolsets/open-toolsets.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import type { Problem } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { copySkill, type SkillCopy } from "../../skill/source/skill-copy.ts";
import type { Tool } from "../../skill/tool.ts";
import { truncateLine } from "../../util/text.ts";
import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import { discoverWithCapabilities, requireConfiguration } from "../command-host.ts";
import { formatInputSchema, formatMcpServers, listMcpServers } from "../format.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  printJson,
  printProblem,
  runUntilInterrupted,
} from "../output.ts";
import { runWithWaitIndicator } from "../progress.ts";
import { failMissingSkill } from "./show.ts";

/** `skillet tools`. */
export const toolsCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("List the tools that skills provide, with their problems")
      .argument("[skill]", "A skill, or a server of [tools.mcp]. Defaults to every skill with toolsets.")
      .addHelpText("after", formatExamples("skillet tools", "skillet tools my-skill --json")),
  run: listTools,
};

/** Lists the tools of skills, each imported as in a run; or those of a server, by its name. */
export async function listTools({ io, options, args }: CommandContext<object>): Promise<number> {
  const [name] = args;
  const found = await discoverWithCapabilities(io, options);
  requireConfiguration(io, found);
  const named = name === undefined ? undefined : found.catalog.find(name);
  const server = await runWithWaitIndicator(io, `starting ${name}`, () =>
    name === undefined || named ? undefined : runUntilInterrupted(io, () => openMcpServerTools(found, name)),
  );
  if (name !== undefined && !named && !server) return failMissingSkill(io, found, name);
  const rows: ToolProvider[] = server ? [server] : [];
  server?.close();
  await runWithWaitIndicator(io, "importing toolsets", async ({ at }) => {
    for (const skill of server ? [] : named ? [named] : listSkillsWithTools(found)) {
      at(`importing the tools of ${skill.name}`);
      for (const row of await runUntilInterrupted(io, () => openSkillTools(found, [skill]))) {
        row.close(); // One thread at a time.
        rows.push(row);
      }
    }
  });
  if (options.json) printJson(io.stdout, { skills: rows.map(toToolProviderJson) });
  else {
    for (const row of rows) printToolProvider(io, row);
    if (rows.every((row) => row.tools.length + row.problems.length === 0)) printNoTools(io, name, server !== undefined);
    if (name === undefined) printServerHint(io, found);
  }
  return getToolsExitCode(rows, name !== undefined);
}

function printNoTools(io: CommandIo, name: string | undefined, isServer: boolean): void {
  const out = createPrinter(io.stderr, io.env);
  if (isServer) out.line`${name ?? ""} has no tools`;
  else
    out.line`${name === undefined ? "no skill provides tools" : `${name} provides no tools`}: a skill lists its tools under toolsets`;
}

/** Prints the configured servers. They are not started for a list, which may take long. */
function printServerHint(io: CommandIo, found: DiscoverResult): void {
  const [first] = listMcpServers(found);
  if (!first) return;
  const out = createPrinter(io.stderr, io.env);
  out.line`${out.dim(`MCP servers: ${formatMcpServers(found)}`)}`;
  out.line`  ${out.cyan(`skillet tools ${first.name}`)} lists the tools of one, ${out.cyan("skillet doctor --tools")} checks all`;
}

/** Returns the exit code. Missing trust is a problem only if the skill was named. */
function getToolsExitCode(rows: readonly ToolProvider[], isNamed: boolean): number {
  const codes = rows.flatMap(({ problems }) => problems.map(({ code }) => code));
  if (codes.some((code) => !TRUST_PROBLEM_CODES.has(code))) return EXIT.findings;
  return isNamed && codes.length > 0 ? EXIT.refused : EXIT.fine;
}

const TRUST_PROBLEM_CODES = new Set(["untrusted", "changed"]);

function toToolProviderJson({ name, source, tools, problems }: ToolProvider): object {
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

function printToolProvider(io: CommandIo, { name, source, tools, problems }: ToolProvider): void {
  const out = createPrinter(io.stdout, io.env);
  const error = createPrinter(io.stderr, io.env);
  if (tools.length > 0) out.line`${out.bold(name)} ${out.dim(source)}`;
  const widest = Math.max(0, ...tools.map((tool) => tool.name.length));
  for (const tool of tools) {
    const changes = tool.effect ? out.text` ${out.yellow("asks first")}` : "";
    out.line`  ${tool.name.padEnd(widest)}  ${truncateLine(tool.description, 200)}${changes}`;
    const takes = formatInputSchema(tool.inputSchema);
    if (takes !== "") out.line`    ${out.dim(truncateLine(takes, Math.min(out.width - 4, 300)))}`;
  }
  printToolProblems(error, problems);
}

/** Prints problems with their fixes. */
export function printToolProblems(out: Printer, problems: readonly Problem[]): void {
  for (const problem of problems)
    printProblem(out, TRUST_PROBLEM_CODES.has(problem.code) ? out.yellow("!") : out.red("✗"), problem);
}

/** The tools of a skill or server, or the reasons why they are missing. */
export interface ToolProvider {
  name: string;
  source: string;
  tools: readonly Tool[];
  problems: readonly Problem[];
  /** The skill that provides them; absent for a server. */
  of?: { skill: Skill; copy: SkillCopy };
  close(): void;
}

/** Opens the tools of skills: the only source of tools for commands. */
export async function openSkillTools(
  found: DiscoverResult,
  skills: readonly Skill[],
  onPrinted?: OutputListener,
): Promise<ToolProvider[]> {
  return Promise.all(skills.map((skill) => openToolsOfSkill(found, skill, onPrinted)));
}

/** Receives the output of their code. */
type OutputListener = (text: string) => void;

/** Lists the skills with tools that are available to this caller. */
export function listSkillsWithTools({ catalog, ...host }: DiscoverResult): Skill[] {
  return catalog.skills.filter(
    (skill) => skill.manifest.toolsets.length > 0 && findFirstDenial(skill, host)?.kind !== "access",
  );
}

async function openToolsOfSkill(
  found: DiscoverResult,
  skill: Skill,
  onPrinted: OutputListener = () => {},
): Promise<ToolProvider> {
  const head = { name: skill.name, source: skill.origin.source };
  try {
    const [untrusted] = skill.fetch ? [trustPolicy(skill, found) ?? []].flat() : [];
    if (untrusted) return { ...head, tools: [], problems: [untrusted], close: () => {} };
    await skill.fetch?.("all");
    const copy = await copySkill(skill);
    const { tools, problems, close } = await openToolsets(found, { skill, copy, onPrinted });
    return { ...head, tools: filterDisabledTools(found, tools), problems, of: { skill, copy }, close };
  } catch (error) {
    return { ...head, tools: [], problems: [toProblem(error)], close: () => {} };
  }
}

/** Removes the tools that the user disabled. */
function filterDisabledTools(found: DiscoverResult, tools: readonly Tool[]): readonly Tool[] {
  return tools.filter(({ name }) => !isToolDisabled(name, found));
}

/** Opens the tools of a configured server; undefined for an unknown name. */
export async function openMcpServerTools(found: DiscoverResult, server: string): Promise<ToolProvider | undefined> {
  const settings = found.settings.mcp.get(server);
  if (!settings) return undefined;
  const head = { name: server, source: "[tools.mcp]" };
  if (settings.enabled === false)
    return { ...head, tools: [], problems: [createDisabledProblem(server)], close: () => {} };
  const [{ listMcpTools }, { closeMcpServers }] = await Promise.all([
    import("../../agent/mcp-client/mcp-servers.ts"),
    import("../../config/mcp-shutdown.ts"),
  ]);
  const { tools, problems } = await listMcpTools(found, (name) => name === server);
  const hiding = createHostRedactor(found);
  const most = found.settings.limits.toolOutput;
  return {
    ...head,
    tools: filterDisabledTools(found, tools).map((tool) => wrapHostTool(tool, most, hiding)),
    problems,
    close: () => void closeMcpServers(),
  };
}

function createDisabledProblem(server: string): Problem {
  return {
    code: "mcp-disabled",
    message: `MCP server '${server}' is disabled`,
    fix: `set enabled = true under [tools.mcp.${server}] in config.toml`,
  };
}
