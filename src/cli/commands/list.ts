import { Option } from "commander";
import {
  findDenials,
  findUnavailability,
  isDisabledByDefault,
  listAvailableSkills,
} from "../../agent/policy/skill-policies.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { formatFix, type Problem, SkillError } from "../../errors/problem.ts";
import { SCOPES, type Skill, stopsLoading } from "../../skill/skill.ts";
import { getSandboxPath } from "../../skill/skill-code.ts";
import { formatDisplayPath, formatHomePath } from "../../skill/source/locations.ts";
import type { TrustStore } from "../../store/trust.ts";
import { filterAsync, mapAsync } from "../../util/async.ts";
import { omitUndefined } from "../../util/objects.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import {
  type CallerOptions,
  type CommandContext,
  type CommandDefinition,
  discoverForCommand,
  EXIT,
  formatExamples,
  formatSkillsFolder,
  printConfigurationWarnings,
  printDiagnostic,
} from "../command-context.ts";
import { formatSkillAddress } from "../format.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  printHanging,
  printJson,
  printWrappedLine,
  type SafeText,
} from "../output.ts";

/** `skillet list`. */
export const listCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("List the skills that were found")
      .argument("[word...]", "Only skills with all of these words in their name or description")
      .option("-a, --all", "Include shadowed, disabled and broken skills with the reasons")
      .addOption(
        new Option("--installed", "List added skills with their source and lock state").conflicts([
          "all",
          "watch",
          "prompt",
        ]),
      )
      .addOption(
        new Option("--by <group>", "Group by `client`: the skills that each client finds itself")
          .choices(["client"])
          .conflicts(["all", "installed", "watch", "prompt"]),
      )
      .addOption(new Option("-w, --watch", "Keep running and show changes").conflicts("all"))
      .addOption(
        new Option("--prompt", "Print the skills as a section of a system prompt").conflicts(["all", "watch", "json"]),
      )
      .addOption(
        new Option(
          "--chat-type <type>",
          "List all skills registered for this type of chat, with the reasons that disable them",
        ).conflicts(["installed", "by", "watch"]),
      )
      .addOption(
        new Option("--chat-id <id>", "List all skills registered for the chat with this id").conflicts([
          "installed",
          "by",
          "watch",
        ]),
      )
      .option("--refresh", "Refresh the listings of MCP servers with `skills = true`")
      .option("--paths", "With --prompt: include the paths of the skills' folders")
      .addHelpText(
        "after",
        formatExamples(
          "skillet list",
          "skillet list pdf",
          "skillet list --all",
          "skillet list --by client",
          "skillet list --chat-type group --chat-id 12345",
          "skillet list --json | jq '.skills[].name'",
        ),
      ),
  run: listSkillsCommand,
};

interface ListOptions extends CallerOptions {
  all?: boolean;
  by?: "client";
  installed?: boolean;
  watch?: boolean;
  prompt?: boolean;
  paths?: boolean;
  refresh?: boolean;
}

async function listSkillsCommand(context: CommandContext<ListOptions>): Promise<number> {
  const { io, options, args } = context;
  if (args.length > 0 && (options.installed || options.by || options.watch)) {
    throw new SkillError("usage", {
      message: "Words cannot be combined with --installed, --by or --watch",
      fix: "omit the words or the option",
    });
  }
  if (options.installed) return (await import("./list-views.ts")).listAddedSkills(context);
  if (options.by) return (await import("./list-views.ts")).listByClient(context);
  if (options.watch) return (await import("./list-views.ts")).watchSkillList(context);
  const found = await discoverForCommand(io, options, { remote: options.refresh ? "now" : "soon" });
  const isConfigured = printConfigurationWarnings(io, found);
  const isDenied = (skill: Skill) => findUnavailability(skill, found);
  const isForChat = (skill: Skill) => !findDenials(skill, found).some(({ code }) => CHAT_CODES.has(code));
  const isOfChat = options.chatType !== undefined || options.chatId !== undefined;
  const isForPrograms = options.prompt || options.json;
  const isWanted = createWordFilter(args);
  const available = found.trust.withCache(() => {
    const skills = (
      isOfChat && !options.prompt ? found.catalog.skills.filter(isForChat) : listAvailableSkills(found.catalog, found)
    ).filter(isWanted);
    if (!isForPrograms) printSkillList(io, skills, found.trust, isDenied); // Within the cache of trust states.
    return skills;
  });
  if (options.prompt) {
    const { formatPromptSection } = await import("../../catalog/listing.ts");
    const { isOfferedByDefault } = await import("../../catalog/listing.ts");
    const section = formatPromptSection(
      available.filter((skill) => skill.manifest.invocation.byModel && isOfferedByDefault(skill)),
      options.paths ? { pathOf: getSandboxPath } : {},
    );
    io.stdout.write(section === "" ? "" : `${section}\n`);
  } else if (options.json)
    printJson(
      io.stdout,
      await toListJson(found, { isDenied, isWanted, isAll: options.all ?? false, listed: available }),
    );
  else if (options.all) await printUnlisted(io, found, { isDenied, isWanted });
  else if (args.length > 0) printTotal(io, available.length, listAvailableSkills(found.catalog, found).length);
  else if (isOfChat) printOtherChats(io, found.catalog.skills.length - found.catalog.skills.filter(isForChat).length);
  else {
    if (io.stdout.isTTY) printTotal(io, available.length);
    await printListSummary(io, found, available.length);
  }
  return isConfigured ? EXIT.fine : EXIT.usage;
}

/** The codes of rules about the caller. */
const CHAT_CODES: ReadonlySet<string> = new Set(["chat-type", "chat-id"]);

function printOtherChats(io: CommandIo, hidden: number): void {
  if (hidden > 0) createPrinter(io.stderr, io.env).line`${formatCount(hidden, "skill")} not for this chat`;
}

/** Returns a filter for skills that have all words in their name or description, in any case. */
function createWordFilter(words: readonly string[]): (skill: Skill) => boolean {
  if (words.length === 0) return () => true;
  const wanted = words.map((word) => word.toLowerCase());
  return ({ name, description }) => {
    const text = `${name} ${description}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  };
}

function printTotal(io: CommandIo, shown: number, all = shown): void {
  createPrinter(io.stderr, io.env)
    .line`${shown === all ? formatCount(all, "skill") : `${shown} of ${formatCount(all, "skill")}`}`;
}

/**
 * Prints one line per skill: its name, description, source and trust state. Written at once: ten thousand writes cost more than the
 * discovery.
 */
export function printSkillList(
  io: CommandIo,
  skills: readonly Skill[],
  trust: TrustStore,
  isDenied: (skill: Skill) => { code: string } | undefined = () => undefined,
): void {
  const lines: string[] = [];
  const { isTTY, columns } = io.stdout;
  const out = createPrinter({ isTTY, columns, write: (text) => lines.push(text) }, io.env);
  const widest = Math.min(
    32,
    skills.reduce((width, skill) => Math.max(width, skill.name.length), 0),
  );
  const sources = new Map<string, SafeText>();
  const standings = trust.withCache(() => skills.map(trust.getStatus));
  for (const [at, skill] of skills.entries()) {
    const { name, description, origin } = skill;
    const mark = isDenied(skill)?.code ?? (standings[at] === "untrusted" ? "untrusted" : undefined);
    const from = mark === undefined ? origin.source : `${origin.source} (${mark})`;
    const source = sources.get(from) ?? out.dim(from);
    sources.set(from, source);
    const room = out.width - Math.max(widest, name.length) - from.length - 5;
    const says = room < MIN_DESCRIPTION_WIDTH ? "" : truncateLine(description, Math.min(room, MAX_DESCRIPTION_WIDTH));
    out.line`${out.bold(name.padEnd(widest))}  ${says}  ${source}`;
  }
  io.stdout.write(lines.join(""));
}

const MAX_DESCRIPTION_WIDTH = 160;
const MIN_DESCRIPTION_WIDTH = 10;

async function printListSummary(io: CommandIo, found: DiscoverResult, available: number): Promise<void> {
  const { catalog, around: environment } = found;
  const error = createPrinter(io.stderr, io.env);
  if (catalog.skills.length === 0) {
    printWrappedLine(
      error,
      `no skills found in ${formatSkillsFolder(environment.workspace, environment)} or your home folder: create one with \`skillet new NAME\`; \`skillet doctor\` shows the searched folders`,
    );
  }
  const broken = countBrokenFiles(catalog);
  const { skills } = found.settings;
  const isUnasked = (skill: Skill) => isDisabledByDefault(skill) && skills.get(skill.name)?.enabled === undefined;
  const isOfOtherChat = (skill: Skill) => CHAT_CODES.has(findUnavailability(skill, found)?.code ?? "");
  const elsewhere = found.trust.withCache(() => catalog.skills.filter(isOfOtherChat).length);
  const disabled = catalog.skills.length - available - catalog.skills.filter(isUnasked).length - elsewhere;
  const shadowed = catalog.shadowed.length === 0 ? 0 : (await findRealShadows(found, "quick")).length;
  const rest = [
    broken > 0 && `${formatCount(broken, "file")} not loaded`,
    disabled > 0 && `${disabled} not available`,
    elsewhere > 0 && `${elsewhere} not for this chat`,
    shadowed > 0 && `${shadowed} shadowed`,
  ].filter(Boolean);
  if (rest.length > 0) error.line`${error.yellow("!")} ${rest.join(", ")}: \`skillet list --all\` shows why`;
}

/** Counts the files that did not load. */
function countBrokenFiles({ diagnostics }: Catalog): number {
  return new Set(diagnostics.filter(stopsLoading).map(({ file }) => file)).size;
}

async function printUnlisted(
  io: CommandIo,
  found: DiscoverResult,
  { isDenied, isWanted }: Required<Pick<ListJsonContext, "isDenied" | "isWanted">>,
): Promise<void> {
  const out = createPrinter(io.stdout, io.env);
  const { catalog, around: environment } = found;
  const wanted = catalog.skills.filter(isWanted);
  printListSection(out, "Not available here", wanted, (skill) => {
    const denial = isDenied(skill);
    if (denial) return [skill.name, `${denial.message}; ${formatFix(denial)}`];
  });
  const { findSkillLocations } = await import("../command-context.ts");
  const several = wanted.filter(({ name }) => catalog.copies(name).length > 1);
  const copies = await mapAsync(several, async (skill) => ({
    skill,
    locations: await findSkillLocations(skill, catalog),
  }));
  printListSection(out, "Identical copies in several places", copies, ({ skill, locations }) => {
    if (locations.length > 1)
      return [
        skill.name,
        locations.map(({ source, file = source }) => formatDisplayPath(file, environment)).join(", "),
      ];
  });
  printListSection(out, "Shadowed by a nearer copy", (await findRealShadows(found)).filter(isWanted), (skill) => {
    const [winner] = catalog.copies(skill.name);
    return winner && [formatSkillAddress(skill, found), `by ${formatSkillAddress(winner, found)}`];
  });
  if (catalog.diagnostics.length > 0) out.line``;
  for (const diagnostic of catalog.diagnostics) printDiagnostic(out, diagnostic, environment);
}

function printListSection<T>(
  out: Printer,
  title: string,
  items: readonly T[],
  show: (item: T) => [name: string, text: string] | undefined,
): void {
  const rows = items.map(show).filter((row) => row !== undefined);
  if (rows.length === 0) return;
  out.line`\n${out.bold(title)}`;
  for (const [name, text] of rows) printHanging(out, `  ${name}  `, [text], { indent: 4, start: name.length + 4 });
}

/** Returns the shadowed skills that differ from the used copy: identical copies are not worth reporting. */
async function findRealShadows(found: DiscoverResult, care: "quick" | "exact" = "exact"): Promise<Skill[]> {
  const { isSameSkill } = await import("../../skill/source/skill-copy.ts");
  const { catalog } = found;
  return filterAsync(catalog.shadowed, async (skill) => {
    const winner = catalog.copies(skill.name)[0];
    return !winner || !(await isSameSkill(winner, skill, care));
  });
}

interface ListJsonContext {
  isDenied?: (skill: Skill) => Problem | undefined;
  isWanted?: (skill: Skill) => boolean;
  isAll: boolean;
  /** The skills listed without `--all`. */
  listed?: readonly Skill[];
}

/** Returns the value of `list --json`. */
export async function toListJson(
  found: DiscoverResult,
  {
    isDenied = (skill) => findUnavailability(skill, found),
    isWanted = () => true,
    isAll,
    listed = [],
  }: ListJsonContext,
) {
  const { catalog } = found;
  const { findSkillLocations } = await import("../command-context.ts");
  const visible = isAll ? catalog.skills.filter(isWanted) : listed;
  const trust = found.trust.withCache(() => visible.map(found.trust.getStatus));
  const skills = await mapAsync(visible.entries(), async ([at, skill]) => {
    const denial = isDenied(skill);
    return {
      ...toSkillJson(skill),
      locations: await findSkillLocations(skill, catalog),
      trust: trust[at],
      ...(denial ? { denial } : {}),
    };
  });
  if (!isAll) return { skills };
  const shadowed = (await findRealShadows(found)).filter(isWanted).map(toSkillJson);
  return { skills, shadowed, diagnostics: catalog.diagnostics, configuration: found.configuration.diagnostics };
}

export function toSkillJson(skill: Skill) {
  const { name, description, manifest, origin } = skill;
  const { scope, source, form, file, parent, remote } = origin;
  const { version, tags } = manifest;
  return { name, description, version, tags, scope, source, form, file, parent, remote };
}

const OVERVIEW_SKILLS = 12;
/** Longer names leave no room for the description. */
const MAX_EXAMPLE_NAME_LENGTH = 14;

/** Prints the overview of `skillet` without arguments: the skills, and the next commands. */
export async function printOverview({ io, options }: CommandContext<object>): Promise<number> {
  const found = await discoverForCommand(io, options);
  const isConfigured = printConfigurationWarnings(io, found);
  const { catalog, around: environment } = found;
  const skills = listAvailableSkills(catalog, found);
  if (options.json) {
    const folders = catalog.sources.map(({ path: folder, ...source }) => ({ ...source, ...omitUndefined({ folder }) }));
    printJson(io.stdout, { workspace: environment.workspace, skills: skills.map(toSkillJson), folders });
    return isConfigured ? EXIT.fine : EXIT.usage;
  }
  const out = createPrinter(io.stdout, io.env);
  const scopes = SCOPES.map((scope) => [scope, skills.filter((skill) => skill.origin.scope === scope).length] as const);
  const parts = scopes.filter(([, number]) => number > 0).map(([scope, number]) => `${number} ${scope}`);
  out.line`${out.bold("skillet")}: ${formatCount(skills.length, "skill")} for ${formatHomePath(environment.workspace, environment.home)}${parts.length > 0 ? ` (${parts.join(", ")})` : ""}`;
  out.line``;
  printSkillList(io, skills.slice(0, OVERVIEW_SKILLS), found.trust);
  if (skills.length > OVERVIEW_SKILLS) out.line`${out.dim(`… and ${skills.length - OVERVIEW_SKILLS} more`)}`;
  const broken = countBrokenFiles(catalog);
  // Users of npx have no `skillet` on their PATH.
  const skillet = io.env["npm_command"] ? "npx skillet" : "skillet";
  const next: [string, string][] = [];
  const { searchRuns } = await import("../../store/run-rules.ts");
  const { total: waiting } = await searchRuns(found.runs, { states: ["waiting"], limit: 0 });
  if (waiting > 0)
    next.push([
      `${skillet} approve`,
      `${formatCount(waiting, "run")} ${waiting === 1 ? "waits" : "wait"} for approval`,
    ]);
  if (broken > 0) next.push([`${skillet} list --all`, `show why ${formatCount(broken, "file")} did not load`]);
  const [first] = skills;
  if (first)
    next.push([
      `${skillet} show ${skills.find(({ name }) => name.length <= MAX_EXAMPLE_NAME_LENGTH)?.name ?? "NAME"}`,
      "show its text, files and source",
    ]);
  if (first) next.push([`${skillet} chat "…"`, "chat with an agent; works without a key"]);
  if (skills.some(({ name }) => name === "host-report"))
    next.push([`${skillet} run host-report`, "run one of them as a sub-agent"]);
  if (first) next.push([`${skillet} explain "…"`, "show what a model receives for a query, and why"]);
  if (first) next.push([`${skillet} serve --help`, "serve them to the agents you already use"]);
  next.push([`${skillet} new my-skill`, "create a skill"]);
  next.push([`${skillet} check`, "check the skills of this workspace"]);
  next.push([`${skillet} runs`, "list past runs"]);
  next.push([`${skillet} doctor`, "show the searched folders and all problems"]);
  next.push([`${skillet} doctor --sandbox`, "test the sandbox on this machine"]);
  out.line`\n${out.bold("Next")}`;
  const widest = Math.max(...next.map(([command]) => command.length));
  for (const [command, what] of next) out.line`  ${out.cyan(command.padEnd(widest))}  ${what}`;
  return isConfigured ? EXIT.fine : EXIT.usage;
}
