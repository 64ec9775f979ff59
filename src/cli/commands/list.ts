import type { Catalog } from "../../catalog/catalog.ts";
import type { Discovered } from "../../host/discover.ts";
import type { Trust } from "../../host/trust.ts";
import { denials, isOffAtFirst, unavailability } from "../../policy/policy.ts";
import { SkillError } from "../../shared/error.ts";
import { count, oneLine } from "../../shared/text.ts";
import { stopsLoading } from "../../skill/diagnostic.ts";
import { sandboxPathOf } from "../../skill/script.ts";
import type { Skill } from "../../skill/skill.ts";
import { displayPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { type CallerOptions, discoverFor, folderSaid, printDiagnostic, warnOfConfiguration } from "../found.ts";
import { type Io, type Printer, printer, printJson, type Safe } from "../io.ts";
import type { Context } from "../program.ts";
import { sayLine } from "../say.ts";
import { printHanging } from "../wrap.ts";
import { addressOf } from "./address.ts";

interface ListOptions extends CallerOptions {
  all?: boolean;
  by?: "client";
  installed?: boolean;
  watch?: boolean;
  prompt?: boolean;
  paths?: boolean;
  refresh?: boolean;
}

export async function list(context: Context<ListOptions>): Promise<number> {
  const { io, options, args } = context;
  if (args.length > 0 && (options.installed || options.by || options.watch)) {
    throw new SkillError("usage", {
      message: "Words filter the plain list, and neither --installed, --by nor --watch",
      fix: "leave out the words, or the option",
    });
  }
  if (options.installed) return (await import("./list-installed.ts")).listInstalled(context);
  if (options.by) return (await import("./list-by-client.ts")).listByClient(context);
  if (options.watch) return (await import("./watch.ts")).watchList(context);
  const found = await discoverFor(io, options, { remote: options.refresh ? "now" : "soon" });
  const isConfigured = warnOfConfiguration(io, found);
  const isDenied = (skill: Skill) => unavailability(skill, found);
  const isForChat = (skill: Skill) => !denials(skill, found).some(({ code }) => OF_CHAT.has(code));
  const isOfChat = options.chatType !== undefined || options.chatId !== undefined;
  const isForPrograms = options.prompt || options.json;
  const isWanted = wordFilter(args);
  const available = found.trust.steadily(() => {
    const skills = (
      isOfChat && !options.prompt ? found.catalog.skills.filter(isForChat) : found.catalog.available(isDenied)
    ).filter(isWanted);
    if (!isForPrograms) printSkills(io, skills, found.trust, isDenied); // While it is known how each of them stands.
    return skills;
  });
  if (options.prompt) {
    const { promptSection } = await import("../../catalog/listing.ts");
    const { isInReach } = await import("../../catalog/reach.ts");
    const section = promptSection(
      available.filter((skill) => skill.manifest.invocation.byModel && isInReach(skill)),
      options.paths ? { pathOf: sandboxPathOf } : {},
    );
    io.stdout.write(section === "" ? "" : `${section}\n`);
  } else if (options.json)
    printJson(io.stdout, await asJson(found, { isDenied, isWanted, isAll: options.all ?? false, listed: available }));
  else if (options.all) await printRest(io, found, isDenied);
  else if (args.length > 0) printTotal(io, available.length, found.catalog.available(isDenied).length);
  else if (isOfChat) printOtherChats(io, found.catalog.skills.length - found.catalog.skills.filter(isForChat).length);
  else {
    if (io.stdout.isTTY) printTotal(io, available.length);
    await printSummary(io, found, available.length);
  }
  return isConfigured ? EXIT.fine : EXIT.usage;
}

/** The codes of rules about who asks. */
const OF_CHAT: ReadonlySet<string> = new Set(["chat-type", "chat-id"]);

function printOtherChats(io: Io, hidden: number): void {
  if (hidden > 0) printer(io.stderr, io.env).line`${count(hidden, "skill")} not for this chat`;
}

/** Returns a filter for skills that have all words in their name or description, in any case. */
function wordFilter(words: readonly string[]): (skill: Skill) => boolean {
  if (words.length === 0) return () => true;
  const wanted = words.map((word) => word.toLowerCase());
  return ({ name, description }) => {
    const text = `${name} ${description}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  };
}

function printTotal(io: Io, shown: number, all = shown): void {
  printer(io.stderr, io.env).line`${shown === all ? count(all, "skill") : `${shown} of ${count(all, "skill")}`}`;
}

/**
 * One line a skill: its name, what it is for, where it comes from, and whether its code waits for trust. Written at once: ten thousand
 * writes cost more than the search.
 */
export function printSkills(
  io: Io,
  skills: readonly Skill[],
  trust: Trust,
  isDenied: (skill: Skill) => { code: string } | undefined = () => undefined,
): void {
  const lines: string[] = [];
  const { isTTY, columns } = io.stdout;
  const out = printer({ isTTY, columns, write: (text) => lines.push(text) }, io.env);
  const widest = Math.min(
    32,
    skills.reduce((width, skill) => Math.max(width, skill.name.length), 0),
  );
  const sources = new Map<string, Safe>();
  const standings = trust.steadily(() => skills.map(trust.standingOf));
  for (const [at, skill] of skills.entries()) {
    const { name, description, origin } = skill;
    const mark = isDenied(skill)?.code ?? (standings[at] === "untrusted" ? "untrusted" : undefined);
    const from = mark === undefined ? origin.source : `${origin.source} (${mark})`;
    const source = sources.get(from) ?? out.dim(from);
    sources.set(from, source);
    const room = out.width - Math.max(widest, name.length) - from.length - 5;
    const says = room < SHORTEST ? "" : oneLine(description, Math.min(room, LONGEST));
    out.line`${out.bold(name.padEnd(widest))}  ${says}  ${source}`;
  }
  io.stdout.write(lines.join(""));
}

const LONGEST = 160;
const SHORTEST = 10;

async function printSummary(io: Io, found: Discovered, available: number): Promise<void> {
  const { catalog, around } = found;
  const error = printer(io.stderr, io.env);
  if (catalog.skills.length === 0) {
    sayLine(
      error,
      `no skills found in ${folderSaid(around.workspace, around)} or your home folder: \`skillet new NAME\` makes one, \`skillet doctor\` shows where they are looked for`,
    );
  }
  const broken = brokenFiles(catalog);
  const { skills } = found.settings;
  const isUnasked = (skill: Skill) => isOffAtFirst(skill) && skills.get(skill.name)?.enabled === undefined;
  const isOfOtherChat = (skill: Skill) => OF_CHAT.has(unavailability(skill, found)?.code ?? "");
  const elsewhere = found.trust.steadily(() => catalog.skills.filter(isOfOtherChat).length);
  const disabled = catalog.skills.length - available - catalog.skills.filter(isUnasked).length - elsewhere;
  const shadowed = catalog.shadowed.length === 0 ? 0 : (await realShadows(found, "quick")).length;
  const rest = [
    broken > 0 && `${count(broken, "file")} not loaded`,
    disabled > 0 && `${disabled} not available`,
    elsewhere > 0 && `${elsewhere} not for this chat`,
    shadowed > 0 && `${shadowed} shadowed`,
  ].filter(Boolean);
  if (rest.length > 0) error.line`${error.yellow("!")} ${rest.join(", ")}: \`skillet list --all\` says why`;
}

/** How many files did not load. */
export function brokenFiles({ diagnostics }: Catalog): number {
  return new Set(diagnostics.filter(stopsLoading).map(({ file }) => file)).size;
}

async function printRest(
  io: Io,
  found: Discovered,
  isDenied: (skill: Skill) => { message: string; fix: string } | undefined,
): Promise<void> {
  const out = printer(io.stdout, io.env);
  const { catalog, around } = found;
  section(out, "Not available here", catalog.skills, (skill) => {
    const denial = isDenied(skill);
    if (denial) return [skill.name, `${denial.message}; ${denial.fix}`];
  });
  const { placesOf } = await import("./places.ts");
  section(out, "In several places, the same to the byte", catalog.skills, (skill) => {
    const places = catalog.copies(skill.name).length > 1 ? placesOf(skill, catalog) : [];
    if (places.length > 1)
      return [skill.name, places.map(({ source, file = source }) => displayPath(file, around)).join(", ")];
  });
  section(out, "Shadowed by a nearer copy", await realShadows(found), (skill) => {
    const [winner] = catalog.copies(skill.name);
    return winner && [addressOf(skill, found), `by ${addressOf(winner, found)}`];
  });
  if (catalog.diagnostics.length > 0) out.line``;
  for (const diagnostic of catalog.diagnostics) printDiagnostic(out, diagnostic, around);
}

function section<T>(
  out: Printer,
  title: string,
  items: readonly T[],
  show: (item: T) => [name: string, says: string] | undefined,
): void {
  const rows = items.map(show).filter((row) => row !== undefined);
  if (rows.length === 0) return;
  out.line`\n${out.bold(title)}`;
  for (const [name, says] of rows) printHanging(out, `  ${name}  `, [says], { indent: 4, start: name.length + 4 });
}

/** A copy that is the same to the byte is nothing to tell anybody about. */
async function realShadows(found: Discovered, care: "quick" | "exact" = "exact"): Promise<Skill[]> {
  const { isCopy } = await import("../../source/digest.ts");
  const { catalog } = found;
  return catalog.shadowed.filter((skill) => {
    const winner = catalog.copies(skill.name)[0];
    return !winner || !isCopy(winner, skill, care);
  });
}

interface ListedAs {
  isDenied: (skill: Skill) => object | undefined;
  isWanted: (skill: Skill) => boolean;
  isAll: boolean;
  /** What is listed without `--all`. */
  listed: readonly Skill[];
}

async function asJson(found: Discovered, { isDenied, isWanted, isAll, listed }: ListedAs): Promise<object> {
  const { catalog } = found;
  const { placesOf } = await import("./places.ts");
  const visible = isAll ? catalog.skills.filter(isWanted) : listed;
  const skills = visible.map((skill) => {
    const denial = isDenied(skill);
    const facts = { ...describe(skill), places: placesOf(skill, catalog), trust: found.trust.standingOf(skill) };
    return denial ? { ...facts, denial } : facts;
  });
  if (!isAll) return { skills };
  const shadowed = (await realShadows(found)).filter(isWanted).map(describe);
  return { skills, shadowed, diagnostics: catalog.diagnostics, configuration: found.configuration.diagnostics };
}

export function describe(skill: Skill): object {
  const { name, description, manifest, origin } = skill;
  const { scope, source, form, file, parent, remote } = origin;
  const { version, tags } = manifest;
  return { name, description, version, tags, scope, source, form, file, parent, remote };
}
