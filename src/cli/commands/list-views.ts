import { enabledPolicy, findUnavailability } from "../../agent/policy/skill-policies.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import { type CatalogChange, watchCatalog } from "../../config/live-settings.ts";
import { listClientViews } from "../../remote/clients/native-clients.ts";
import { listUnlocked, needsTrust, type VerifyResult, verifySkill } from "../../remote/skills-dir.ts";
import type { Skill } from "../../skill/skill.ts";
import { type Environment, formatDisplayPath } from "../../skill/source/locations.ts";
import type { Watcher } from "../../skill/source/watch-folders.ts";
import { createFingerprintCache } from "../../store/lock-diff.ts";
import { hasLocalEdits } from "../../store/lock-file.ts";
import { compareText, formatCount, truncateLine } from "../../util/text.ts";
import {
  type CommandContext,
  createConfigurationWarner,
  discoverForCommand,
  EXIT,
  printConfigurationWarnings,
  printDiagnostic,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { formatOrigin } from "../format.ts";
import { openDistinctLockedDirs } from "../locked-skills.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  printHanging,
  printJson,
  printJsonLine,
  type SafeText,
} from "../output.ts";
import { printSkillList, toSkillJson } from "./list.ts";

/** Lists the added skills with their source and lock state. */
export async function listAddedSkills({ io, options }: CommandContext<object>): Promise<number> {
  const environment = resolveCommandEnvironment(io, options);
  const places = openDistinctLockedDirs(environment, ["user", "project"]);
  const found = await discoverForCommand(io, options);
  const isConfigured = printConfigurationWarnings(io, found);
  const { catalog } = found;
  const stamps = createFingerprintCache(environment.skilletHome);
  const rows = places.flatMap(({ skillsDir, skills }) => {
    const { isProject } = skillsDir;
    const locked = skills.map(([name, entry]) => {
      const { files: _files, upstream: _upstream, ...rest } = entry;
      const skill = catalog.find(name);
      const isOn = skill === undefined || enabledPolicy(skill, found) === undefined;
      const state = verifySkill(skillsDir, name, entry, stamps).is;
      const facts = { name, folder: skillsDir.folder, isProject, ...rest, isEdited: hasLocalEdits(entry) };
      return { ...facts, isEnabled: isOn, state };
    });
    const unlocked = needsTrust(skillsDir) ? [] : listUnlocked(skillsDir, new Set(skills.map(([name]) => name)));
    return [
      ...locked,
      ...unlocked.map((name) => ({ name, folder: skillsDir.folder, isProject, state: "unlocked" as const })),
    ];
  });
  rows.sort((a, b) => Number(a.isProject) - Number(b.isProject) || compareText(a.name, b.name));
  if (options.json) printJson(io.stdout, { skills: rows });
  else printAddedSkills(io, rows, environment);
  return isConfigured ? EXIT.fine : EXIT.usage;
}

type AddedSkillRow = { name: string; folder: string; isProject: boolean; state: VerifyResult["is"] } & (
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

/** Writes all lines at once: a thousand writes take longer than the work they report. */
function printAddedSkills(io: CommandIo, rows: readonly AddedSkillRow[], environment: Environment): void {
  const lines: string[] = [];
  const { isTTY, columns } = io.stdout;
  const out = createPrinter({ isTTY, columns, write: (text) => lines.push(text) }, io.env);
  const error = createPrinter(io.stderr, io.env);
  const widest = Math.min(32, Math.max(0, ...rows.map(({ name }) => name.length)));
  for (const row of rows) {
    const notes = [
      VERIFY_LABELS[row.state],
      row.source !== undefined && row.isEdited && "with your changes",
      row.source !== undefined && !row.isEnabled && "disabled",
      row.source !== undefined && row.adopted && `adopted in ${formatDisplayPath(row.folder, environment)}`,
      row.isProject && "project",
    ].filter(Boolean);
    const origin = row.source === undefined ? "" : formatOrigin(row);
    const text = [origin, notes.length > 0 ? `(${notes.join(", ")})` : ""].filter(Boolean).join(" ");
    const before = out.text`${paintVerifyState(out, row.state)} ${out.bold(row.name.padEnd(widest))}  `;
    printHanging(out, before, [text], { indent: widest + 4, start: Math.max(widest, row.name.length) + 4 });
  }
  io.stdout.write(lines.join(""));
  const wrong = rows.filter(({ state }) => state !== "unchanged").length;
  if (rows.length === 0) error.line`no skills were added yet; add some with \`skillet add SOURCE\``;
  else if (wrong > 0)
    error.line`${error.yellow("!")} ${formatCount(wrong, "skill")} different from the lock file: \`skillet verify\` shows the differences`;
}

const VERIFY_LABELS: Record<VerifyResult["is"], string> = {
  unchanged: "",
  changed: "changed since it was added",
  missing: "gone",
  unlocked: "not added with skillet",
  unreadable: "cannot be compared",
};

function paintVerifyState(out: Printer, state: VerifyResult["is"]): SafeText {
  return state === "unchanged" ? out.green("✓") : state === "unlocked" ? out.yellow("?") : out.red("✗");
}

/** Prints `list --by client`: for each client, the skills in its own folders. */
export async function listByClient({ io, options }: CommandContext<object>): Promise<number> {
  const found = await discoverForCommand(io, options);
  const isConfigured = printConfigurationWarnings(io, found);
  const clients = listClientViews(found);
  if (options.json) printJson(io.stdout, { clients });
  else {
    const out = createPrinter(io.stdout, io.env);
    for (const { title, skills } of clients.filter((client) => client.skills.length > 0)) {
      out.line`${out.bold(title)} ${out.dim(formatCount(skills.length, "skill"))}`;
      const widest = Math.min(32, Math.max(...skills.map(({ name }) => name.length)));
      for (const { name, source, isCopy } of skills)
        out.line`  ${name.padEnd(widest)}  ${out.dim(isCopy ? `${source} (copy by skillet)` : source)}`;
    }
    const without = clients.filter(({ skills }) => skills.length === 0).map(({ title }) => title);
    if (without.length > 0) createPrinter(io.stderr, io.env).line`no skills in the folders of ${without.join(", ")}`;
  }
  return isConfigured ? EXIT.fine : EXIT.usage;
}

/** Prints `list --watch`: the list, then a line for each change of the skills or the configuration until it is interrupted. */
export async function watchSkillList({ io, options }: CommandContext<object>): Promise<number> {
  const found = await discoverForCommand(io, options, { follow: true, remote: "background" });
  const isConfigured = printConfigurationWarnings(io, found);
  const { around: environment } = found;
  const out = createPrinter(io.stdout, io.env);
  const availableIn = (from: Catalog) => from.available((skill) => findUnavailability(skill, found));
  // Before the list is printed: changes while the watchers start must not be lost.
  const warn = createConfigurationWarner(io, found);
  let known = { configuration: found.currentConfiguration(), sources: found.settings.sources };
  let { catalog } = found;
  let shown = availableIn(catalog);
  if (options.json) printJsonLine(io.stdout, { type: "listed", skills: shown.map(toSkillJson) });
  else printSkillList(io, shown, found.trust);
  const print = (mark: ReturnType<typeof out.green>, skills: readonly Skill[]) => {
    for (const skill of skills)
      out.line`${mark} ${skill.name}  ${truncateLine(skill.description, 160)}  ${out.dim(skill.origin.source)}`;
  };
  const printChanges = (
    now: Catalog,
    { changed: touched, diagnostics }: Pick<CatalogChange, "changed" | "diagnostics">,
  ) => {
    const before = new Map(shown.map((skill) => [skill.name, skill]));
    catalog = now;
    shown = [...availableIn(now)];
    const names = new Set(shown.map(({ name }) => name));
    const added = shown.filter(({ name }) => !before.has(name));
    const changed = touched.filter(({ name }) => names.has(name) && before.has(name));
    const removed = [...before.values()].filter(({ name }) => !names.has(name));
    if (added.length + changed.length + removed.length + diagnostics.length === 0) return;
    if (options.json) {
      const [news, others] = [added, changed].map((skills) => skills.map(toSkillJson));
      const gone = removed.map(({ name }) => name);
      return printJsonLine(io.stdout, { type: "changed", added: news, changed: others, removed: gone, diagnostics });
    }
    print(out.green("+"), added);
    print(out.yellow("~"), changed);
    print(out.red("-"), removed);
    for (const diagnostic of diagnostics) printDiagnostic(out, diagnostic, environment);
  };
  const watchAll = () => watchCatalog(catalog, (change) => printChanges(change.catalog, change));
  let watching: Promise<Watcher> = watchAll();
  await watching;
  const look = () => {
    const now = { configuration: found.currentConfiguration(), sources: found.settings.sources };
    if (now.configuration === known.configuration) return;
    warn();
    if (now.sources === known.sources) printChanges(catalog, NO_CHANGE);
    else watching = watching.then((watcher) => restart(watcher));
    known = now;
  };
  const restart = async (watcher: Watcher) => {
    await watcher.close();
    printChanges(await catalog.reload(), NO_CHANGE);
    const next = await watchAll();
    printChanges(await catalog.reload(), NO_CHANGE); // Changes made before the new folders were watched.
    return next;
  };
  const timer = setInterval(look, WATCH_POLL_MS);
  createPrinter(io.stderr, io.env)
    .line`watching ${formatCount(catalog.sources.length, "folder")}; press Ctrl-C to stop`;
  await io.interrupted?.();
  clearInterval(timer);
  await (await watching).close();
  return isConfigured ? EXIT.fine : EXIT.usage;
}

const WATCH_POLL_MS = 500;
const NO_CHANGE = { changed: [], diagnostics: [] };
