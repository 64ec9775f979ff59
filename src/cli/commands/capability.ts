import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { checkProvider, type ProviderFinding } from "../../capabilities/check-provider.ts";
import { callWithShortTimeout, getCapabilityNamespace } from "../../capabilities/configured-capabilities.ts";
import { collectCredentialSecrets, filterCredentials } from "../../capabilities/credential-filter.ts";
import { getErrorMessage, SkillError } from "../../errors/problem.ts";
import type { CapabilityDescription, CapabilityProvider } from "../../host/capability-contract.ts";
import type { Skill } from "../../skill/skill.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";
import { compareText, formatCount, truncateLine } from "../../util/text.ts";
import {
  type CapabilityHolding,
  findProviders,
  formatEnableCommand,
  formatGrantCommand,
  type ProviderState,
  printProviderState,
  readHolding,
  readProviderState,
  TERMINAL_USER,
} from "../capability-providers.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  EXIT,
  formatExamples,
} from "../command-definition.ts";
import {
  type CommandHost,
  discoverWithCapabilities,
  printConfigurationWarnings,
  requireConfiguration,
} from "../command-host.ts";
import { addWorkspaceOption } from "../format.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  printHanging,
  printJson,
  printWrappedLine,
  runUntilInterrupted,
} from "../output.ts";
import { runWithWaitIndicator } from "../progress.ts";
import { NAMESPACE_HELP } from "./auth.ts";

/** `skillet capability` and what stands below it. */
export const capabilityCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("show the systems that skills can ask, and say which skill may")
      .addHelpText(
        "after",
        formatExamples("skillet capability list", "skillet capability grant note-taker notes.notes"),
      ),
  commands: {
    list: {
      define: (command) =>
        command
          .description("show who serves capabilities, whether they are ready, what they do, and which skills have them")
          .argument("[namespace]", "only this one")
          .addHelpText("after", formatExamples("skillet capability list", "skillet capability list notes --json")),
      run: listCapabilities,
    },
    check: {
      define: (command) =>
        command
          .description("try what every provider has to hold to, one line each; changes nothing unless told to")
          .argument("<namespace>", NAMESPACE_HELP)
          .option("-i, --inputs <file>", "JSON: what operations are tried with, by notes.notes.get")
          .option("--changes", "also do what changes something, with the inputs of that file, each twice with one key")
          .addHelpText(
            "after",
            formatExamples(
              "skillet capability check notes",
              "skillet capability check notes --inputs inputs.json",
              "skillet capability check notes --inputs inputs.json --changes",
            ),
          ),
      run: checkCapabilityProvider,
    },
    grant: {
      define: (command) =>
        command
          .description("give a skill capabilities that it declares: adds them to capabilities of [skills.NAME]")
          .argument("<skill>", "the skill")
          .argument("<capability...>", "what it is given, as in notes.notes")
          .option("-y, --yes", "do not ask; needed where there is no terminal")
          .addHelpText("after", formatExamples("skillet capability grant note-taker notes.notes")),
      run: async (context) => (await import("./capability-grant.ts")).grantCapability(context),
    },
    ungrant: {
      define: (command) =>
        command
          .description("take capabilities from a skill again")
          .argument("<skill>", "the skill, or what the configuration calls it when it is gone")
          .argument("<capability...>", "what is taken from it")
          .option("-y, --yes", "do not ask when another copy of this name loses it")
          .addHelpText("after", formatExamples("skillet capability ungrant note-taker notes.notes")),
      run: async (context) => (await import("./capability-grant.ts")).revokeCapability(context),
    },
  },
};

interface CapabilityHolder extends CapabilityHolding {
  name: string;
}

interface ServedCapability {
  id: string;
  description: string;
  operations: { name: string; description: string; isMutating: boolean }[];
  /** Those that declare it. */
  skills: CapabilityHolder[];
  /** Whether the provider says that it serves it; not known where it does not answer. */
  isServed: boolean | null;
}

interface ListedProvider extends ProviderState {
  /** Why it is not known what it serves. */
  problem?: string;
  capabilities: ServedCapability[];
}

/** Who serves capabilities, what they do, and which skills have them. */
async function listCapabilities({ io, options, args: [wanted] }: CommandContext<object>): Promise<number> {
  const found = await discoverWithCapabilities(io, options);
  const code = printConfigurationWarnings(io, found) ? EXIT.fine : EXIT.usage;
  const asked = findProviders(found, wanted);
  const providers = await runWithWaitIndicator(io, "asking who serves capabilities", () =>
    runUntilInterrupted(io, (signal) => Promise.all(asked.map((provider) => listProvider(provider, found, signal)))),
  );
  const unserved = findUnserved(found, wanted);
  if (options.json) printJson(io.stdout, { providers, unserved });
  else {
    const out = createPrinter(io.stdout, io.env);
    for (const [index, provider] of providers.entries()) {
      if (index > 0) out.line``;
      printProvider(out, provider, options);
    }
    if (providers.length === 0) {
      const error = createPrinter(io.stderr, io.env);
      const fix = "command under [capabilities.providers.NAME] in config.toml names a program that does";
      printWrappedLine(error, `nobody serves capabilities here: ${fix}`);
    }
    printUnserved(out, unserved, found);
  }
  return code;
}

async function listProvider(
  provider: CapabilityProvider,
  found: CommandHost,
  signal: AbortSignal,
): Promise<ListedProvider> {
  const asked = callWithShortTimeout(provider, signal, (bounded) => provider.describe({ signal: bounded })).then(
    ({ capabilities }) => ({ capabilities }),
    (error: unknown) => ({ problem: truncateLine(getErrorMessage(error), 300) }),
  );
  const [state, described] = await Promise.all([readProviderState(provider, found, signal), asked]);
  const served = "capabilities" in described ? described.capabilities : undefined;
  const holders = findHolders(provider, found);
  const ids = [...new Set([...(served ?? []).map(({ id }) => id), ...holders.keys()])].sort(compareText);
  const known = new Map(served?.map((one) => [one.id, one]));
  return {
    ...state,
    ...("problem" in described ? { problem: described.problem } : {}),
    capabilities: ids.map((id) => ({
      ...describeOperations(id, known.get(id)),
      skills: holders.get(id) ?? [],
      isServed: served ? known.has(id) : null,
    })),
  };
}

function describeOperations(id: string, described: CapabilityDescription | undefined) {
  const operations = [...(described?.operations ?? [])].sort((a, b) => compareText(a.name, b.name));
  return {
    id,
    description: described?.description ?? "",
    operations: operations.map(({ name, description, mutating }) => ({ name, description, isMutating: mutating })),
  };
}

/** Which skills declare what this one serves, and whether each was given it. */
function findHolders(provider: CapabilityProvider, found: CommandHost): Map<string, CapabilityHolder[]> {
  const { catalog, capabilities } = found;
  const isFor = (id: string, skill: Skill) => capabilities.providerOf(id, skill) === provider;
  return findDeclaring(catalog.skills, isFor, (id, skill) => readHolding(id, skill, found));
}

function findUnserved(
  { catalog, capabilities }: CommandHost,
  wanted: string | undefined,
): { id: string; skills: string[] }[] {
  const isNobodys = (id: string, skill: Skill) =>
    !capabilities.providerOf(id, skill) &&
    [getCapabilityNamespace(id), undefined].includes(wanted && getCapabilityNamespace(wanted));
  const found = findDeclaring(catalog.skills, isNobodys, () => ({ isGranted: false }));
  return [...found]
    .sort(([a], [b]) => compareText(a, b))
    .map(([id, skills]) => ({ id, skills: skills.map(({ name }) => name) }));
}

function findDeclaring(
  skills: readonly Skill[],
  isMeant: (id: string, skill: Skill) => boolean,
  holding: (id: string, skill: Skill) => CapabilityHolding,
): Map<string, CapabilityHolder[]> {
  const found = new Map<string, CapabilityHolder[]>();
  for (const skill of [...skills].sort((a, b) => compareText(a.name, b.name))) {
    for (const id of skill.manifest.capabilities) {
      if (!isMeant(id, skill)) continue;
      found.set(id, [...(found.get(id) ?? []), { name: skill.name, ...holding(id, skill) }]);
    }
  }
  return found;
}

function printProvider(out: Printer, provider: ListedProvider, { workspace }: CommonOptions): void {
  printProviderState(out, provider);
  const say = (label: string, text: string) =>
    printHanging(out, out.text`    ${out.dim(label.padEnd(LABEL_WIDTH))} `, [text], { indent: LABEL_WIDTH + 5 });
  if (provider.problem !== undefined)
    printHanging(out, "  ", [`what it serves is not known: ${provider.problem}`], { indent: 2 });
  for (const { id, description, operations, skills, isServed } of provider.capabilities) {
    if (description === "") out.line`  ${out.cyan(id)}`;
    else printHanging(out, out.text`  ${out.cyan(id)}  `, [truncateLine(description, 200)], { indent: 4 + id.length });
    const named = (isChange: boolean) =>
      operations.filter(({ isMutating }) => isMutating === isChange).map(({ name }) => name);
    if (named(false).length > 0) say("reads", named(false).join(", "));
    if (named(true).length > 0) say("changes", `${named(true).join(", ")} (asks each time)`);
    if (isServed === false) out.line`    ${out.yellow("its provider does not serve it")}`;
    const given = skills.filter(({ isGranted }) => isGranted).map(({ name }) => name);
    const others = skills.filter(({ isGranted }) => !isGranted);
    if (given.length > 0) say("given to", given.join(", "));
    for (const { name, ...holding } of others.slice(0, MAX_SKILLS)) {
      const give = addWorkspaceOption(formatGrantCommand(id, name, holding), workspace);
      const lacks =
        holding.givenTo === undefined ? "which was not given it" : `given to the copy from ${holding.givenTo}`;
      say("declared", `by ${name}, ${lacks}: ${give}`);
    }
    if (others.length > MAX_SKILLS)
      out.line`    ${out.dim(`and by ${formatCount(others.length - MAX_SKILLS, "other skill")}`)}`;
  }
}

const MAX_SKILLS = 5;
const LABEL_WIDTH = 8;

type UnservedCapabilities = readonly { id: string; skills: readonly string[] }[];

/** First what only has to be switched on. */
function printUnserved(out: Printer, unserved: UnservedCapabilities, found: CommandHost): void {
  const commandOf = ({ id }: UnservedCapabilities[number]) => formatEnableCommand(found, getCapabilityNamespace(id));
  const commands = new Set(unserved.flatMap((one) => commandOf(one) ?? []));
  if (commands.size > 0) out.line`\n${out.bold("Switched off")}`;
  for (const command of commands) {
    printUnservedIds(
      out,
      unserved.filter((one) => commandOf(one) === command),
    );
    out.line`    to switch it on: ${command}`;
  }
  const others = unserved.filter((one) => commandOf(one) === undefined);
  if (others.length > 0)
    out.line`\n${out.bold("Served by nobody")} ${out.dim("`skillet show NAME` says what a skill needs")}`;
  printUnservedIds(out, others);
}

function printUnservedIds(out: Printer, unserved: UnservedCapabilities): void {
  for (const { id, skills } of unserved) {
    const said = truncateLine(skills.join(", "), 200);
    printHanging(out, out.text`  ${out.cyan(id)}  `, [said], { indent: 4 + id.length, paint: out.dim });
  }
}

interface CheckCapabilityOptions {
  inputs?: string;
  changes?: boolean;
}

/** Tries what every provider has to hold to. */
async function checkCapabilityProvider({
  io,
  options,
  args: [wanted = ""],
}: CommandContext<CheckCapabilityOptions>): Promise<number> {
  if (options.changes && options.inputs === undefined) throw createMissingInputsError();
  const found = await discoverWithCapabilities(io, options);
  requireConfiguration(io, found);
  const { vault, audit } = found.capabilities;
  const [provider] = findProviders(found, wanted) as [CapabilityProvider];
  const { namespace } = provider;
  const inputs = options.inputs === undefined ? {} : readExampleInputs(resolve(io.cwd, options.inputs));
  const credential = vault.get(namespace, { user: TERMINAL_USER, origin: provider.origin });
  const told = await runWithWaitIndicator(io, `trying what ${namespace} has to hold to`, () =>
    runUntilInterrupted(io, (signal) =>
      checkProvider(provider, {
        inputs,
        signal,
        ...(options.changes ? { invokes: inputs } : {}),
        ...omitUndefined({ credential }),
      }),
    ),
  );
  // What a provider says of a failure may repeat what it was let in with.
  const findings = filterCredentials(told, collectCredentialSecrets(credential)).value as ProviderFinding[];
  const isFine = findings.every(({ isOk }) => isOk);
  const outcome = isFine ? "ok" : "failed";
  audit.add({ run: "", skill: "", source: "", method: "check", capability: namespace, outcome });
  const untried = Object.keys(inputs).filter(
    (name) => !findings.some(({ title }) => title.startsWith(`${name} gives what`)),
  );
  const withoutExample = findMissingExamples(findings);
  if (options.json) printJson(io.stdout, { namespace, from: provider.from, findings, untried, withoutExample });
  else printProviderFindings(io, findings, { untried, withoutExample });
  return isFine ? EXIT.fine : EXIT.findings;
}

/** Those that only read, and of which it is not known what they can be asked. */
function findMissingExamples(findings: readonly ProviderFinding[]): string[] {
  const titles = new Set(findings.map(({ title }) => title));
  return [...titles]
    .flatMap((title) => /^(\S+) refuses input that does not fit$/.exec(title)?.[1] ?? [])
    .filter((name) => !titles.has(`${name} gives what it says it gives`));
}

interface UncheckedOperations {
  untried: readonly string[];
  withoutExample: readonly string[];
}

function printProviderFindings(
  io: CommandIo,
  findings: readonly ProviderFinding[],
  { untried, withoutExample }: UncheckedOperations,
): void {
  const out = createPrinter(io.stdout, io.env);
  for (const { isOk, title, message, printed = [] } of findings) {
    out.line`${isOk ? out.green("✓") : out.red("✗")} ${title}`;
    if (message !== undefined) out.line`    ${message}`;
    for (const line of printed) out.line`    ${out.dim(`│ ${line}`)}`;
  }
  const held = findings.filter(({ isOk }) => isOk).length;
  out.line`\n${held} of ${findings.length} hold`;
  const error = createPrinter(io.stderr, io.env);
  const isDescribed = findings[0]?.isOk ?? false; // Else nothing else was tried, and that is said.
  for (const name of isDescribed ? untried : [])
    error.line`${error.yellow("!")} ${truncateLine(name, 100)} was not tried: there is no such operation, or it changes something, which takes --changes`;
  const [first] = withoutExample;
  if (first === undefined) return;
  const said = `${formatCount(withoutExample.length, "operation")} without an example: only refusals were tried; --inputs FILE gives one: {"${truncateLine(first, 100)}": {…}}`;
  printHanging(error, "", [said], { indent: 0, paint: error.dim });
}

/** Contract: an object with an input for each operation. Throws a SkillError. */
function readExampleInputs(file: string): JsonObject {
  let read: unknown;
  try {
    read = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw createInputsError(file, getErrorMessage(error));
  }
  if (isJsonObject(read)) return read;
  throw createInputsError(file, "it is no JSON object");
}

function createInputsError(file: string, why: string): SkillError {
  return new SkillError("usage", {
    message: `${file} cannot be used: ${truncateLine(why, 200)}`,
    fix: 'write an input for each operation: {"notes.notes.get": {"id": 1}}',
  });
}

function createMissingInputsError(): SkillError {
  return new SkillError("usage", {
    message: "--changes does what the file of --inputs names, and there is none",
    fix: "as in --inputs inputs.json --changes",
  });
}
