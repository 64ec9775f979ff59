import type { Discovered } from "../../host/discover.ts";
import { SkillError } from "../../shared/error.ts";
import { count, oneLine } from "../../shared/text.ts";
import { nothingThere, planAdditions } from "../../supply/add-skills.ts";
import { parseAddress } from "../../supply/address.ts";
import { type Candidate, candidateOf, distinct, outermost } from "../../supply/candidate.ts";
import { fetchOffer, type Supply } from "../../supply/fetch-offer.ts";
import { lockedIn } from "../../supply/skills-place.ts";
import { inStaging } from "../../supply/staging.ts";
import { discoverFor, printDiagnostic, requireConfiguration, surroundingsFor } from "../found.ts";
import { type Io, printer } from "../io.ts";
import type { CommonOptions, Context } from "../program.ts";
import { sayNotice } from "../say.ts";
import { answerOf, fetching, unlessStopped } from "../supply/fetch.ts";
import { lockedPlace } from "../supply/locked-skills.ts";
import { agreeAndPut } from "../supply/put.ts";
import { someOf } from "../supply/words.ts";
import { Told } from "../told.ts";

export interface AddOptions {
  all?: boolean;
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
    const chosen = await choose(io, supply, names, { found, options });
    const planning = { supply, place, around, work, locked, isForced: options.force ?? false };
    const { additions, problems } = planAdditions(chosen, planning);
    const [first] = problems;
    if (first) throw saidImpossible(io, { first, problems, all: chosen.length });
    return agreeAndPut(additions, { io, options, found, place, work, verb: "Add", notes: supply.offer.notes });
  };
  return unlessStopped("nothing was added", () => inStaging(around.skilletHome, adding));
}

const MOST_PROBLEMS = 20;

interface Impossible {
  first: SkillError;
  problems: readonly SkillError[];
  all: number;
}

function saidImpossible(io: Io, { first, problems, all }: Impossible): Told {
  const error = printer(io.stderr, io.env);
  for (const { message, fix = "" } of problems.slice(0, MOST_PROBLEMS)) sayNotice(error, error.red("✗"), message, fix);
  const { code, message, fix = "" } = first;
  if (all === 1) return new Told(code, { message, fix });
  const rest = `${problems.length} of ${all} skills cannot be added, and nothing was: name those that you want`;
  error.line`${rest}`;
  return new Told(code, { message, fix: rest });
}

interface Choosing {
  found: Discovered;
  options: AddOptions & CommonOptions;
}

/** Which of the source's skills are meant. Throws a SkillError when nobody says. */
async function choose(io: Io, supply: Supply, names: readonly string[], choosing: Choosing): Promise<Candidate[]> {
  const { offer } = supply;
  const { candidates } = offer;
  if (names.length > 0) return distinct(names.map((name) => candidateOf(name, offer)));
  sayBroken(io, supply, choosing);
  if (candidates.length === 0) throw nothingThere(supply);
  const outer = outermost(candidates);
  const distinctNames = [...new Set(outer.map(({ skill }) => skill.name))];
  if (distinctNames.length === 1 || choosing.options.all) return distinct(outer);
  if (!io.ask) {
    throw new SkillError("usage", {
      message: `There are ${count(distinctNames.length, "skill")} in it, and none was named`,
      fix: `name some, or say --all: ${someOf(distinctNames)}`,
    });
  }
  const others = candidates.filter((one) => !outer.includes(one) && !distinctNames.includes(one.skill.name));
  return ask(io, distinct(outer), [...new Map(others.map((one) => [one.skill.name, one])).values()]);
}

function sayBroken(io: Io, { offer, fetched }: Supply, { found }: Choosing): void {
  const error = printer(io.stderr, io.env);
  const broken = offer.diagnostics.filter(({ severity }) => severity === "error");
  const around = { ...found.around, workspace: fetched.folder };
  for (const diagnostic of broken.slice(0, 10)) printDiagnostic(error, diagnostic, around);
  if (broken.length > 10) error.line`  ${error.dim(`… and ${broken.length - 10} more`)}`;
}

const MOST_OFFERED = 60;

/** `inside`: skills in the folders of others, which come with these, and can be added without them. */
async function ask(io: Io, outer: readonly Candidate[], inside: readonly Candidate[]): Promise<Candidate[]> {
  const out = printer(io.stderr, io.env);
  const candidates = [...outer, ...inside];
  const shown = candidates.slice(0, MOST_OFFERED);
  const widest = String(shown.length).length;
  const longest = Math.min(32, Math.max(...shown.map(({ skill }) => skill.name.length)));
  for (const [index, { skill }] of shown.entries()) {
    const name = skill.name.padEnd(longest);
    const room = Math.max(20, out.width - widest - name.length - 5);
    const { parent } = skill.origin;
    const says = `${parent === undefined ? "" : `(inside ${parent}) `}${skill.description}`;
    out.line`${String(index + 1).padStart(widest)}  ${out.bold(name)}  ${out.dim(oneLine(says, Math.min(room, 120)))}`;
  }
  const more = candidates.length - shown.length;
  if (more > 0)
    out.line`${out.dim(`… and ${more} more: type their names; skillet add SOURCE --all --dry-run --json has all`)}`;
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
