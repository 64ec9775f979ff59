import { dirname, join } from "node:path";
import type { DiscoverResult } from "../../config/discover.ts";
import { type Adoption, reviewAndAdopt } from "../../remote/adopt.ts";
import type { RefusedSkill } from "../../remote/candidate.ts";
import { formatDisplayPath } from "../../skill/source/locations.ts";
import { LOCAL_SOURCE, LOCK_FILE } from "../../store/lock-file.ts";
import { formatCount } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  createNotApprovedError,
  discoverForCommand,
  EXIT,
  formatExamples,
  requireConfiguration,
} from "../command-context.ts";
import { formatOrigin, formatSkillNames, formatSomeNames } from "../format.ts";
import { explainInterruption, fetchWithProgress, printSkillErrors } from "../locked-skills.ts";
import { type CommandIo, createPrinter, type Printer, printHanging, printJson } from "../output.ts";
import { approveSubjects } from "./trust.ts";
import type { TrustSubject } from "./trust-review.ts";

/** `skillet adopt`. */
export const adoptCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Manage existing skills in place: review, trust and lock them")
      .argument("[path...]", "Skill folders, folders of skills, or names. Defaults to the folders of your clients.")
      .option("--project", "Adopt the skills of this workspace instead of your own")
      .option("--from <source>", "Record this source, in the form that `skillet add` accepts")
      .option("-y, --yes", "Approve instructions and code without asking")
      .option("-n, --dry-run", "Show the changes without applying them")
      .option("--show", "Show all instructions and code instead of a summary")
      .addHelpText(
        "after",
        formatExamples(
          "skillet adopt",
          "skillet adopt ~/.claude/skills",
          "skillet adopt ~/.claude/skills/pdf --from anthropics/skills",
          "skillet adopt --project --dry-run",
        ),
      ),
  run: adoptFromDisk,
};

interface AdoptOptions {
  project?: boolean;
  from?: string;
  yes?: boolean;
  dryRun?: boolean;
  show?: boolean;
}

/** Adopts skills where they are: review, approve, record. */
async function adoptFromDisk({ io, options, args }: CommandContext<AdoptOptions>): Promise<number> {
  const found = await discoverForCommand(io, options);
  requireConfiguration(io, found);
  const { from, project: isProject = false, dryRun: isDryRun = false } = options;
  return explainInterruption("nothing was adopted", async () => {
    const problems: RefusedSkill[] = [];
    const out = createPrinter(options.json ? io.stderr : io.stdout, io.env);
    const isAsking = io.ask !== undefined && !options.yes && !isDryRun;
    const approve = (adoptions: readonly Adoption[]) => approveAdoptions(adoptions, { io, options, found });
    const adopted = await reviewAndAdopt(found, {
      ...{ paths: args, cwd: io.cwd, isProject, isDryRun, approve },
      ...(from === undefined ? {} : { from, runFetch: (fetch) => fetchWithProgress(io, from, fetch) }),
      onRefused: (name, error) => void problems.push({ name, error }),
      async onPlan(adoptions) {
        printSkillErrors(createPrinter(io.stderr, io.env), problems);
        if (!options.json || isAsking) printAdoptions(out, adoptions, found);
        if (isDryRun) await approve(adoptions);
      },
    });
    if (options.json) {
      printJson(io.stdout, {
        isDryRun,
        adopted: adopted.map(toAdoptionJson),
        problems: problems.map(({ name, error }) => ({ name, ...error.problem })),
      });
    } else printAdopted(out, adopted, { found, isDryRun, isNone: problems.length === 0 });
    return problems.length > 0 ? EXIT.findings : EXIT.fine;
  });
}

interface AdoptContext {
  io: CommandIo;
  options: CommandContext<AdoptOptions>["options"];
  found: DiscoverResult;
}

/** Reviews the skills as `skillet trust` does: adopting a skill trusts its current content. */
async function approveAdoptions(
  adoptions: readonly Adoption[],
  { io, options, found }: AdoptContext,
): Promise<Adoption[]> {
  if (adoptions.length === 0) return [];
  const subjects = adoptions.map(({ skill, copy }): TrustSubject => ({ skill, copy, before: undefined, changes: [] }));
  const { json, show } = options;
  const isYes = (options.yes ?? false) || (options.dryRun ?? false);
  const how = {
    subjects,
    pending: subjects,
    options: { ...(json ? { json } : {}), ...(show ? { show } : {}), yes: isYes },
  };
  const agreed = new Set(
    (await approveSubjects(io, found, { ...how, verb: "Adopt and trust" })).map(({ skill }) => skill),
  );
  if (agreed.size === 0)
    throw createNotApprovedError(io, "nothing was adopted", "review it with --dry-run --show, then add --yes");
  return adoptions.filter(({ skill }) => agreed.has(skill));
}

const MAX_ORIGINS = 8;
const MAX_NAMES = 6;

/** Prints the origins, one line per source, so that sixty skills fit on a screen. */
function printAdoptions(out: Printer, adoptions: readonly Adoption[], { around: environment }: DiscoverResult): void {
  if (adoptions.length === 0) return;
  const groups = [...Map.groupBy(adoptions, ({ entry, foundIn = "" }) => `${entry.source} ${foundIn}`).values()];
  const largest = groups.sort((a, b) => b.length - a.length);
  out.line`${out.bold(`${formatCount(adoptions.length, "skill")} to adopt`)} ${out.dim("(no file is changed or copied)")}`;
  for (const group of largest.slice(0, MAX_ORIGINS)) {
    const [first] = group;
    if (!first) continue;
    const names = formatSomeNames(
      group.map(({ name }) => name),
      MAX_NAMES,
    );
    printHanging(out, "  ", [`${names}: ${formatAdoptionOrigin(first, group.length)}`], { indent: 4, start: 2 });
  }
  const more = largest.slice(MAX_ORIGINS);
  if (more.length > 0)
    out.line`  ${out.dim(`… and ${formatCount(more.flat().length, "skill")} from ${formatCount(more.length, "other source")}`)}`;
  const linked = adoptions.filter(({ links }) => links.length > 0);
  for (const { folder, links } of linked.slice(0, MAX_NAMES)) {
    const shown = links.map((link) => formatDisplayPath(link, environment)).join(", ");
    printHanging(
      out,
      out.text`  ${out.dim("·")} `,
      [
        `${shown} ${links.length === 1 ? "is a symlink" : "are symlinks"}: ${formatDisplayPath(folder, environment)} is adopted`,
      ],
      { indent: 4, paint: out.dim },
    );
  }
  if (linked.length > MAX_NAMES)
    out.line`  ${out.dim(`· ${linked.length - MAX_NAMES} more are reached by symlinks: each is adopted once`)}`;
}

function formatAdoptionOrigin({ entry, foundIn }: Adoption, size: number): string {
  if (entry.source === LOCAL_SOURCE) return "no source found; --from SOURCE sets one";
  const { source, ref, commit } = entry;
  const text =
    size === 1 ? formatOrigin(entry) : formatOrigin({ source, ...(ref ? { ref } : {}), ...(commit ? { commit } : {}) });
  return `${text}${foundIn === undefined ? "" : ` (from ${foundIn})`}`;
}

function toAdoptionJson({ name, folder, skillsDir, entry, foundIn, copy, findings, links }: Adoption): object {
  const { source, path, ref, commit, digest, grants } = entry;
  return {
    name,
    folder,
    lock: join(skillsDir.folder, LOCK_FILE),
    isProject: skillsDir.isProject,
    ...(source === LOCAL_SOURCE ? {} : { source, path, ref, commit }),
    foundIn,
    digest,
    grants,
    trusted: copy.digest,
    findings: findings.map(({ file, ...finding }) => ({ ...finding, path: file })),
    links,
  };
}

interface AdoptedContext {
  found: DiscoverResult;
  isDryRun: boolean;
  isNone: boolean;
}

function printAdopted(out: Printer, adopted: readonly Adoption[], { found, isDryRun, isNone }: AdoptedContext): void {
  if (adopted.length === 0) {
    if (isNone) out.line`${out.dim("nothing to adopt: every skill in your client folders is managed")}`;
    return;
  }
  if (isDryRun) {
    out.line`${out.dim(`dry run: ${formatCount(adopted.length, "skill")} would be adopted; nothing was recorded`)}`;
    return;
  }
  for (const [folder, group] of Map.groupBy(adopted, (one) => dirname(one.folder))) {
    const names = formatSkillNames(group.map(({ name }) => name));
    out.line`${out.green("✓")} adopted: ${names} ${out.dim(`in ${formatDisplayPath(folder, found.around)}`)}`;
  }
  const project = adopted.every(({ skillsDir }) => skillsDir.isProject) ? " --project" : "";
  const local = adopted.filter(({ entry }) => entry.source === LOCAL_SOURCE).length;
  if (local < adopted.length) out.line`  check for updates: ${out.cyan(`skillet outdated${project}`)}`;
  if (local > 0)
    out.line`  ${formatCount(local, "skill")} without a source: ${out.cyan("skillet adopt NAME --from SOURCE")}`;
  out.line`  stop managing a skill: ${out.cyan(`skillet remove NAME --keep${project}`)}`;
}
