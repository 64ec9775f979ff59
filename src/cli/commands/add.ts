import type { Discovered } from "../../host/discover.ts";
import { defined } from "../../shared/defined.ts";
import { SkillError } from "../../shared/error.ts";
import { count, oneLine } from "../../shared/text.ts";
import { stopsLoading } from "../../skill/diagnostic.ts";
import { nothingThere, planAdditions } from "../../supply/add-skills.ts";
import { parseAddress } from "../../supply/address.ts";
import { type Candidate, candidateOf, distinct, outermost, type RefusedSkill } from "../../supply/candidate.ts";
import { fetchOffer, type Supply } from "../../supply/fetch-offer.ts";
import { lockedIn } from "../../supply/skills-place.ts";
import { inStaging } from "../../supply/staging.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, printDiagnostic, requireConfiguration, surroundingsFor } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import type { CommonOptions, Context } from "../program.ts";
import { NATIVE_CLIENT_NAMES } from "../rows/install.ts";
import { answerOf, fetching, unlessStopped } from "../supply/fetch.ts";
import { lockedPlace } from "../supply/locked-skills.ts";
import { createVerdicts, printOffer, type Verdicts, verdictAsJson } from "../supply/offer-list.ts";
import { agreeAndPut } from "../supply/put.ts";
import { sayProblems, someOf } from "../supply/words.ts";
import { Told } from "../told.ts";
import { printHanging } from "../wrap.ts";

export interface AddOptions {
  all?: boolean;
  list?: boolean;
  /** Clients that also get a copy. */
  to?: string;
  project?: boolean;
  yes?: boolean;
  dryRun?: boolean;
  force?: boolean;
  show?: boolean;
  requireSignature?: boolean;
  frozen?: boolean;
  allowPrivateAddresses?: boolean;
}

/** Adds skills from elsewhere: fetched, looked at, agreed to, put in their place and locked. */
export async function add(context: Context<AddOptions>): Promise<number> {
  const { io, options, args } = context;
  if (options.frozen) return (await import("./add-frozen.ts")).addFrozen(context);
  const [source, ...names] = args;
  if (source === undefined) {
    throw new SkillError("usage", {
      message: "No source was named",
      fix: "name a folder, an archive, a repository or a site: skillet add owner/repo; --frozen adds what the lock says",
    });
  }
  if (options.to !== undefined) checkClients(options.to, options.json ?? false);
  const { place } = lockedPlace(surroundingsFor(io, options), options.project ?? false);
  const locked = lockedIn(place);
  const found = await discoverFor(io, options);
  requireConfiguration(io, found);
  const { around } = found;
  const address = parseAddress(source, { cwd: io.cwd, home: around.home });
  const adding = async (work: string) => {
    const allowPrivate = options.allowPrivateAddresses ?? false;
    const supply = await fetching(io, source, (signal) =>
      fetchOffer(address, work, { env: io.env, names, signal, allowPrivate }),
    );
    if (options.list) return listOffer(io, supply, { options, work });
    const refused: RefusedSkill[] = [];
    const verdicts = createVerdicts(supply.fetched, work);
    const chosen = await choose(io, supply, names, { found, options, refused, verdicts });
    const planning = { supply, place, around, work, locked, isForced: options.force ?? false };
    const { additions, problems } = planAdditions(chosen, planning);
    refused.push(...problems);
    const [first] = refused;
    if (first && additions.length === 0) throw saidImpossible(io, refused);
    const { notes } = supply.offer;
    const code = await agreeAndPut(additions, {
      io,
      options,
      found,
      place,
      work,
      verb: "Add",
      notes,
      problems: refused,
    });
    if (options.to === undefined || options.dryRun) return code;
    const added = additions.flatMap(({ name, is }) => (is === "conflict" ? [] : name));
    return Math.max(code, await exportTo(context, options.to, added));
  };
  return unlessStopped("nothing was added", () => inStaging(around.skilletHome, adding));
}

/** Throws a SkillError for an unknown client, before anything is fetched. */
function checkClients(to: string, isJson: boolean): void {
  const unknown = to.split(",").find((name) => !NATIVE_CLIENT_NAMES.some((client) => client === name.trim()));
  if (unknown !== undefined) {
    throw new SkillError("usage", {
      message: `Unknown client "${unknown}"`,
      fix: `clients: ${NATIVE_CLIENT_NAMES.join(", ")}`,
    });
  }
  if (isJson) {
    throw new SkillError("usage", {
      message: "--to prints no JSON",
      fix: "leave out --to, and run afterwards: skillet export NAME --to CLIENT --json",
    });
  }
}

/** Copies added skills into clients' folders, as `skillet export` does. */
async function exportTo({ io, options }: Context<AddOptions>, to: string, names: readonly string[]): Promise<number> {
  if (names.length === 0) return EXIT.fine;
  const { workspace, project } = options;
  const { exportCommand } = await import("./export.ts");
  return exportCommand({ io, options: { to, ...defined({ workspace, project }) }, args: [...names] });
}

/** Prints every skill of a source with its verdict, and adds nothing. */
function listOffer(
  io: Io,
  { offer, fetched }: Supply,
  { options, work }: { options: AddOptions & CommonOptions; work: string },
): number {
  const verdicts = createVerdicts(fetched, work);
  const candidates = outermost(offer.candidates);
  if (options.json) {
    printJson(
      io.stdout,
      candidates.map((candidate) => verdictAsJson(candidate, verdicts.of(candidate))),
    );
    return EXIT.fine;
  }
  const out = printer(io.stdout, io.env);
  printOffer(out, candidates, { verdicts, isNumbered: false });
  out.line`${count(candidates.length, "skill")}`;
  for (const note of offer.notes) printHanging(out, out.text`${out.dim("·")} `, [note], { indent: 2, paint: out.dim });
  return EXIT.fine;
}

/** Prints why none of the chosen skills can be added. */
function saidImpossible(io: Io, refused: readonly RefusedSkill[]): Told {
  const error = printer(io.stderr, io.env);
  sayProblems(error, refused);
  const [first] = refused;
  const { code = "usage", message = "", fix = "" } = first?.error ?? {};
  if (refused.length === 1) return new Told(code, { message, fix });
  const rest = `none of ${refused.length} skills can be added`;
  error.line`${rest}`;
  return new Told(code, { message, fix: rest });
}

interface Choosing {
  found: Discovered;
  options: AddOptions & CommonOptions;
  /** Takes the skills that cannot be added, so that the others can. */
  refused: RefusedSkill[];
  verdicts: Verdicts;
}

/** Which of the source's skills are meant. Throws a SkillError when nobody says. */
async function choose(io: Io, supply: Supply, names: readonly string[], choosing: Choosing): Promise<Candidate[]> {
  const { offer } = supply;
  const { candidates } = offer;
  const refuse = (one: RefusedSkill) => void choosing.refused.push(one);
  if (names.length > 0) return distinct(names.map((name) => candidateOf(name, offer)));
  sayBroken(io, supply, choosing);
  if (candidates.length === 0) throw nothingThere(supply);
  const outer = outermost(candidates);
  const distinctNames = [...new Set(outer.map(({ skill }) => skill.name))];
  if (distinctNames.length === 1 || choosing.options.all) return distinct(outer, refuse);
  if (!io.ask) {
    throw new SkillError("usage", {
      message: `There are ${count(distinctNames.length, "skill")} in it, and none was named`,
      fix: `name some, or say --all: ${someOf(distinctNames)}; --list shows what was found in each`,
    });
  }
  const others = candidates.filter((one) => !outer.includes(one) && !distinctNames.includes(one.skill.name));
  const inside = [...new Map(others.map((one) => [one.skill.name, one])).values()];
  return ask(io, { outer: distinct(outer, refuse), inside, verdicts: choosing.verdicts });
}

function sayBroken(io: Io, { offer, fetched }: Supply, { found }: Choosing): void {
  const error = printer(io.stderr, io.env);
  const broken = offer.diagnostics.filter(stopsLoading);
  const around = { ...found.around, workspace: fetched.folder };
  for (const diagnostic of broken.slice(0, 10)) printDiagnostic(error, diagnostic, around);
  if (broken.length > 10) error.line`  ${error.dim(`… and ${broken.length - 10} more`)}`;
}

const MOST_OFFERED = 60;

interface Asking {
  outer: readonly Candidate[];
  /** Skills in the folders of others, which come with these, and can be added without them. */
  inside: readonly Candidate[];
  verdicts: Verdicts;
}

async function ask(io: Io, { outer, inside, verdicts }: Asking): Promise<Candidate[]> {
  const out = printer(io.stderr, io.env);
  const candidates = [...outer, ...inside];
  printOffer(out, candidates.slice(0, MOST_OFFERED), { verdicts, isNumbered: true });
  const more = candidates.length - MOST_OFFERED;
  if (more > 0) out.line`${out.dim(`… and ${more} more: type their names; skillet add SOURCE --list has all`)}`;
  for (let left = TRIES; left > 0; left--) {
    const answer = await answerOf(io, "Which? Numbers (1 3-5) or names, or `all`: ");
    const chosen = answer === "" ? [] : /^all$/i.test(answer) ? [...outer] : chosenIn(answer, candidates);
    if (typeof chosen === "string") out.line`${out.red("✗")} "${oneLine(chosen, 64)}" is none of them`;
    else if (chosen.length > 0) return chosen;
    else break;
  }
  throw new SkillError("not-agreed", { message: "nothing was chosen, and nothing was added" });
}

const TRIES = 3;

/** Those that are meant, in order; the first word that means none. */
function chosenIn(answer: string, candidates: readonly Candidate[]): Candidate[] | string {
  const chosen = new Set<Candidate>();
  for (const word of answer.split(/[\s,]+/).filter((part) => part !== "")) {
    const named = candidates.find(({ skill }) => skill.name === word);
    const [, first, last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(word) ?? [];
    const numbered = first === undefined ? [] : candidates.slice(Math.max(0, Number(first) - 1), Number(last));
    const meant = named ? [named] : Number(first) > 0 ? numbered : [];
    if (meant.length === 0) return word;
    for (const one of meant) chosen.add(one);
  }
  return candidates.filter((candidate) => chosen.has(candidate));
}
