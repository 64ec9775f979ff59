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
  type CommandHost,
  type CommonOptions,
  discoverWithCapabilities,
  EXIT,
  formatExamples,
  printConfigurationWarnings,
  requireConfiguration,
} from "../command-context.ts";
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

/** `skillet capability` and its subcommands. */
export const capabilityCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Show the systems that skills can use and grant access to them")
      .addHelpText(
        "after",
        formatExamples("skillet capability list", "skillet capability grant note-taker notes.notes"),
      ),
  commands: {
    list: {
      define: (command) =>
        command
          .description("List providers, their state, their capabilities and the skills that use them")
          .argument("[namespace]", "Only this namespace")
          .addHelpText("after", formatExamples("skillet capability list", "skillet capability list notes --json")),
      run: listCapabilities,
    },
    check: {
      define: (command) =>
        command
          .description("Check that a provider follows the contract")
          .argument("<namespace>", NAMESPACE_HELP)
          .option(
            "-i, --inputs <file>",
            "Read example inputs from this JSON file, keyed by operation such as notes.notes.get",
          )
          .option("--changes", "Also call operations with side effects, each twice with the same key")
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
          .description("Grant a skill capabilities that it declares")
          .argument("<skill>", "The skill")
          .argument("<capability...>", "The capabilities, for example notes.notes")
          .option("-y, --yes", "Skip the confirmation, required without a terminal")
          .addHelpText("after", formatExamples("skillet capability grant note-taker notes.notes")),
      run: async (context) => (await import("./capability-grant.ts")).grantCapability(context),
    },
    ungrant: {
      define: (command) =>
        command
          .description("Revoke capabilities of a skill")
          .argument("<skill>", "The skill, or its name in the configuration if it no longer exists")
          .argument("<capability...>", "The capabilities")
          .option("-y, --yes", "Skip the confirmation if another copy of this name is affected")
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
  /** The skills that declare it. */
  skills: CapabilityHolder[];
  /** True if the provider lists it; null if the provider does not answer. */
  isServed: boolean | null;
}

interface ListedProvider extends ProviderState {
  /** The reason why its capabilities are unknown. */
  problem?: string;
  capabilities: ServedCapability[];
}

/** Lists providers, their capabilities, and the skills that have them. */
async function listCapabilities({ io, options, args: [wanted] }: CommandContext<object>): Promise<number> {
  const found = await discoverWithCapabilities(io, options);
  const code = printConfigurationWarnings(io, found) ? EXIT.fine : EXIT.usage;
  const asked = findProviders(found, wanted);
  const providers = await runWithWaitIndicator(io, "checking capability providers", () =>
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
      const fix = "set command under [capabilities.providers.NAME] in config.toml";
      printWrappedLine(error, `no capability provider is configured: ${fix}`);
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

/** Returns the skills that declare capabilities of this provider, with their grant state. */
function findHolders(provider: CapabilityProvider, found: CommandHost): Map<string, CapabilityHolder[]> {
  const { catalog, capabilities } = found;
  const isFor = (id: string, skill: Skill) => capabilities.findProvider(id, skill) === provider;
  return findDeclaring(catalog.skills, isFor, (id, skill) => readHolding(id, skill, found));
}

function findUnserved(
  { catalog, capabilities }: CommandHost,
  wanted: string | undefined,
): { id: string; skills: string[] }[] {
  const isUnserved = (id: string, skill: Skill) =>
    !capabilities.findProvider(id, skill) &&
    [getCapabilityNamespace(id), undefined].includes(wanted && getCapabilityNamespace(wanted));
  const found = findDeclaring(catalog.skills, isUnserved, () => ({ isGranted: false }));
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
  const printRow = (label: string, text: string) =>
    printHanging(out, out.text`    ${out.dim(label.padEnd(LABEL_WIDTH))} `, [text], { indent: LABEL_WIDTH + 5 });
  if (provider.problem !== undefined)
    printHanging(out, "  ", [`its capabilities are unknown: ${provider.problem}`], { indent: 2 });
  for (const { id, description, operations, skills, isServed } of provider.capabilities) {
    if (description === "") out.line`  ${out.cyan(id)}`;
    else printHanging(out, out.text`  ${out.cyan(id)}  `, [truncateLine(description, 200)], { indent: 4 + id.length });
    const named = (isChange: boolean) =>
      operations.filter(({ isMutating }) => isMutating === isChange).map(({ name }) => name);
    if (named(false).length > 0) printRow("reads", named(false).join(", "));
    if (named(true).length > 0) printRow("changes", `${named(true).join(", ")} (asks each time)`);
    if (isServed === false) out.line`    ${out.yellow("its provider does not support it")}`;
    const granted = skills.filter(({ isGranted }) => isGranted).map(({ name }) => name);
    const others = skills.filter(({ isGranted }) => !isGranted);
    if (granted.length > 0) printRow("granted", granted.join(", "));
    for (const { name, ...holding } of others.slice(0, MAX_SKILLS)) {
      const give = addWorkspaceOption(formatGrantCommand(id, name, holding), workspace);
      const lacks = holding.givenTo === undefined ? "not granted" : `granted to the copy from ${holding.givenTo}`;
      printRow("declared", `by ${name}, ${lacks}: ${give}`);
    }
    if (others.length > MAX_SKILLS)
      out.line`    ${out.dim(`and by ${formatCount(others.length - MAX_SKILLS, "other skill")}`)}`;
  }
}

const MAX_SKILLS = 5;
const LABEL_WIDTH = 8;

type UnservedCapabilities = readonly { id: string; skills: readonly string[] }[];

/** Prints unserved capabilities: first those whose provider only has to be enabled. */
function printUnserved(out: Printer, unserved: UnservedCapabilities, found: CommandHost): void {
  const commandOf = ({ id }: UnservedCapabilities[number]) => formatEnableCommand(found, getCapabilityNamespace(id));
  const commands = new Set(unserved.flatMap((one) => commandOf(one) ?? []));
  if (commands.size > 0) out.line`\n${out.bold("Disabled")}`;
  for (const command of commands) {
    printUnservedIds(
      out,
      unserved.filter((one) => commandOf(one) === command),
    );
    out.line`    to enable it: ${command}`;
  }
  const others = unserved.filter((one) => commandOf(one) === undefined);
  if (others.length > 0)
    out.line`\n${out.bold("Without a provider")} ${out.dim("`skillet show NAME` shows what a skill needs")}`;
  printUnservedIds(out, others);
}

function printUnservedIds(out: Printer, unserved: UnservedCapabilities): void {
  for (const { id, skills } of unserved) {
    const names = truncateLine(skills.join(", "), 200);
    printHanging(out, out.text`  ${out.cyan(id)}  `, [names], { indent: 4 + id.length, paint: out.dim });
  }
}

interface CheckCapabilityOptions {
  inputs?: string;
  changes?: boolean;
}

/** Checks that a provider follows the contract. */
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
  const credential = await vault.get(namespace, { user: TERMINAL_USER, origin: provider.origin });
  const results = await runWithWaitIndicator(io, `checking ${namespace}`, () =>
    runUntilInterrupted(io, (signal) =>
      checkProvider(provider, {
        inputs,
        signal,
        ...(options.changes ? { invokes: inputs } : {}),
        ...omitUndefined({ credential }),
      }),
    ),
  );
  // A provider's error message may contain its credential.
  const findings = filterCredentials(results, collectCredentialSecrets(credential)).value as ProviderFinding[];
  const isFine = findings.every(({ isOk }) => isOk);
  const outcome = isFine ? "ok" : "failed";
  await audit.add({ run: "", skill: "", source: "", method: "check", capability: namespace, outcome });
  const untried = Object.keys(inputs).filter(
    (name) => !findings.some(({ tried }) => tried?.part === "output" && tried.operation === name),
  );
  const withoutExample = findMissingExamples(findings);
  if (options.json) printJson(io.stdout, { namespace, from: provider.from, findings, untried, withoutExample });
  else printProviderFindings(io, findings, { untried, withoutExample });
  return isFine ? EXIT.fine : EXIT.findings;
}

/** Returns the read-only operations without an example input. */
function findMissingExamples(findings: readonly ProviderFinding[]): string[] {
  const list = (part: "input" | "output") =>
    findings.flatMap(({ tried }) => (tried?.part === part ? [tried.operation] : []));
  const withOutput = new Set(list("output"));
  return [...new Set(list("input"))].filter((operation) => !withOutput.has(operation));
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
  out.line`\n${held} of ${findings.length} checks passed`;
  const error = createPrinter(io.stderr, io.env);
  const isDescribed = findings[0]?.isOk ?? false; // Else no other check ran, which is reported above.
  for (const name of isDescribed ? untried : [])
    error.line`${error.yellow("!")} ${truncateLine(name, 100)} was not tried: the operation is unknown, or it has side effects and needs --changes`;
  const [first] = withoutExample;
  if (first === undefined) return;
  const hint = `${formatCount(withoutExample.length, "operation")} without an example input: only invalid input was tried; add one with --inputs FILE: {"${truncateLine(first, 100)}": {…}}`;
  printHanging(error, "", [hint], { indent: 0, paint: error.dim });
}

/** Reads the example inputs. Contract: an object with an input for each operation. Throws a SkillError. */
function readExampleInputs(file: string): JsonObject {
  let read: unknown;
  try {
    read = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw createInputsError(file, getErrorMessage(error));
  }
  if (isJsonObject(read)) return read;
  throw createInputsError(file, "it is not a JSON object");
}

function createInputsError(file: string, why: string): SkillError {
  return new SkillError("usage", {
    message: `${file} cannot be used: ${truncateLine(why, 200)}`,
    fix: 'write an input for each operation: {"notes.notes.get": {"id": 1}}',
  });
}

function createMissingInputsError(): SkillError {
  return new SkillError("usage", {
    message: "--changes needs --inputs",
    fix: "for example --inputs inputs.json --changes",
  });
}
