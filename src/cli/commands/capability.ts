import { namespaceOf } from "../../capability/open.ts";
import { atOnce } from "../../capability/ready.ts";
import type { CapabilityDescription, CapabilityProvider } from "../../host/capabilities.ts";
import { reason } from "../../shared/inside.ts";
import { byText, count, oneLine } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import { EXIT } from "../exit.ts";
import { discoverToUse, type Found, warnOfConfiguration } from "../found.ts";
import { type Printer, printer, printJson, untilInterrupted } from "../io.ts";
import { fromHere } from "../next-step.ts";
import type { CommonOptions, Context } from "../program.ts";
import { waitingFor } from "../progress.ts";
import {
  giveCommand,
  type Holding,
  holdingOf,
  type ProviderState,
  printState,
  providersOf,
  stateOf,
  switchOn,
} from "../providers-found.ts";
import { sayLine } from "../say.ts";
import { printHanging } from "../wrap.ts";

interface Holder extends Holding {
  name: string;
}

interface Served {
  id: string;
  description: string;
  operations: { name: string; description: string; isMutating: boolean }[];
  /** Those that declare it. */
  skills: Holder[];
  /** Whether the provider says that it serves it; not known where it does not answer. */
  isServed: boolean | null;
}

interface Listed extends ProviderState {
  /** Why it is not known what it serves. */
  problem?: string;
  capabilities: Served[];
}

/** Who serves capabilities, what they do, and which skills have them. */
export async function listCapabilities({ io, options, args: [wanted] }: Context<object>): Promise<number> {
  const found = await discoverToUse(io, options);
  const code = warnOfConfiguration(io, found) ? EXIT.fine : EXIT.usage;
  const asked = providersOf(found, wanted);
  const providers = await waitingFor(io, "asking who serves capabilities", () =>
    untilInterrupted(io, (signal) => Promise.all(asked.map((provider) => listed(provider, found, signal)))),
  );
  const unserved = unservedIn(found, wanted);
  if (options.json) printJson(io.stdout, { providers, unserved });
  else {
    const out = printer(io.stdout, io.env);
    for (const [index, provider] of providers.entries()) {
      if (index > 0) out.line``;
      printListed(out, provider, options);
    }
    if (providers.length === 0) {
      const error = printer(io.stderr, io.env);
      const fix = "command under [capabilities.providers.NAME] in config.toml names a program that does";
      sayLine(error, `nobody serves capabilities here: ${fix}`);
    }
    printUnserved(out, unserved, found);
  }
  return code;
}

async function listed(provider: CapabilityProvider, found: Found, signal: AbortSignal): Promise<Listed> {
  const asked = atOnce(provider, signal, (bounded) => provider.describe({ signal: bounded })).then(
    ({ capabilities }) => ({ capabilities }),
    (error: unknown) => ({ problem: oneLine(reason(error), 300) }),
  );
  const [state, described] = await Promise.all([stateOf(provider, found, signal), asked]);
  const served = "capabilities" in described ? described.capabilities : undefined;
  const holders = holdersOf(provider, found);
  const ids = [...new Set([...(served ?? []).map(({ id }) => id), ...holders.keys()])].sort(byText);
  const known = new Map(served?.map((one) => [one.id, one]));
  return {
    ...state,
    ...("problem" in described ? { problem: described.problem } : {}),
    capabilities: ids.map((id) => ({
      ...factsOf(id, known.get(id)),
      skills: holders.get(id) ?? [],
      isServed: served ? known.has(id) : null,
    })),
  };
}

function factsOf(id: string, described: CapabilityDescription | undefined) {
  const operations = [...(described?.operations ?? [])].sort((a, b) => byText(a.name, b.name));
  return {
    id,
    description: described?.description ?? "",
    operations: operations.map(({ name, description, mutating }) => ({ name, description, isMutating: mutating })),
  };
}

/** Which skills declare what this one serves, and whether each was given it. */
function holdersOf(provider: CapabilityProvider, found: Found): Map<string, Holder[]> {
  const { catalog, capabilities } = found;
  const isFor = (id: string, skill: Skill) => capabilities.providerOf(id, skill) === provider;
  return declaredIn(catalog.skills, isFor, (id, skill) => holdingOf(id, skill, found));
}

function unservedIn({ catalog, capabilities }: Found, wanted: string | undefined): { id: string; skills: string[] }[] {
  const isNobodys = (id: string, skill: Skill) =>
    !capabilities.providerOf(id, skill) && [namespaceOf(id), undefined].includes(wanted && namespaceOf(wanted));
  const found = declaredIn(catalog.skills, isNobodys, () => ({ isGranted: false }));
  return [...found]
    .sort(([a], [b]) => byText(a, b))
    .map(([id, skills]) => ({ id, skills: skills.map(({ name }) => name) }));
}

function declaredIn(
  skills: readonly Skill[],
  isMeant: (id: string, skill: Skill) => boolean,
  holding: (id: string, skill: Skill) => Holding,
): Map<string, Holder[]> {
  const found = new Map<string, Holder[]>();
  for (const skill of [...skills].sort((a, b) => byText(a.name, b.name))) {
    for (const id of skill.manifest.capabilities) {
      if (!isMeant(id, skill)) continue;
      found.set(id, [...(found.get(id) ?? []), { name: skill.name, ...holding(id, skill) }]);
    }
  }
  return found;
}

function printListed(out: Printer, provider: Listed, { workspace }: CommonOptions): void {
  printState(out, provider);
  const say = (label: string, text: string) =>
    printHanging(out, out.text`    ${out.dim(label.padEnd(LABEL))} `, [text], { indent: LABEL + 5 });
  if (provider.problem !== undefined)
    printHanging(out, "  ", [`what it serves is not known: ${provider.problem}`], { indent: 2 });
  for (const { id, description, operations, skills, isServed } of provider.capabilities) {
    if (description === "") out.line`  ${out.cyan(id)}`;
    else printHanging(out, out.text`  ${out.cyan(id)}  `, [oneLine(description, 200)], { indent: 4 + id.length });
    const named = (isChange: boolean) =>
      operations.filter(({ isMutating }) => isMutating === isChange).map(({ name }) => name);
    if (named(false).length > 0) say("reads", named(false).join(", "));
    if (named(true).length > 0) say("changes", `${named(true).join(", ")} (asks each time)`);
    if (isServed === false) out.line`    ${out.yellow("its provider does not serve it")}`;
    const given = skills.filter(({ isGranted }) => isGranted).map(({ name }) => name);
    const others = skills.filter(({ isGranted }) => !isGranted);
    if (given.length > 0) say("given to", given.join(", "));
    for (const { name, ...holding } of others.slice(0, MOST_SKILLS)) {
      const give = fromHere(giveCommand(id, name, holding), workspace);
      const lacks =
        holding.givenTo === undefined ? "which was not given it" : `given to the copy from ${holding.givenTo}`;
      say("declared", `by ${name}, ${lacks}: ${give}`);
    }
    if (others.length > MOST_SKILLS)
      out.line`    ${out.dim(`and by ${count(others.length - MOST_SKILLS, "other skill")}`)}`;
  }
}

const MOST_SKILLS = 5;
const LABEL = 8;

type Unserved = readonly { id: string; skills: readonly string[] }[];

/** First what only has to be switched on. */
function printUnserved(out: Printer, unserved: Unserved, found: Found): void {
  const commandOf = ({ id }: Unserved[number]) => switchOn(found, namespaceOf(id));
  const commands = new Set(unserved.flatMap((one) => commandOf(one) ?? []));
  if (commands.size > 0) out.line`\n${out.bold("Switched off")}`;
  for (const command of commands) {
    printIds(
      out,
      unserved.filter((one) => commandOf(one) === command),
    );
    out.line`    to switch it on: ${command}`;
  }
  const others = unserved.filter((one) => commandOf(one) === undefined);
  if (others.length > 0)
    out.line`\n${out.bold("Served by nobody")} ${out.dim("`skillet show NAME` says what a skill needs")}`;
  printIds(out, others);
}

function printIds(out: Printer, unserved: Unserved): void {
  for (const { id, skills } of unserved) {
    const said = oneLine(skills.join(", "), 200);
    printHanging(out, out.text`  ${out.cyan(id)}  `, [said], { indent: 4 + id.length, paint: out.dim });
  }
}
