import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { checkProvider, type ProviderFinding } from "../../capability/check-provider.ts";
import { filterCredentials, secretsOf } from "../../capability/filter.ts";
import type { CapabilityProvider } from "../../host/capabilities.ts";
import { defined } from "../../shared/defined.ts";
import { SkillError } from "../../shared/error.ts";
import { reason } from "../../shared/inside.ts";
import { count, oneLine } from "../../shared/text.ts";
import { type Data, isData } from "../../skill/data.ts";
import { EXIT } from "../exit.ts";
import { discoverToUse, requireConfiguration } from "../found.ts";
import { type Io, printer, printJson, untilInterrupted } from "../io.ts";
import type { Context } from "../program.ts";
import { waitingFor } from "../progress.ts";
import { providersOf } from "../providers-found.ts";
import { OWNER } from "../vault.ts";
import { printHanging } from "../wrap.ts";

interface CheckOptions {
  inputs?: string;
  changes?: boolean;
}

/** Tries what every provider has to hold to. */
export async function checkCapability({ io, options, args: [wanted = ""] }: Context<CheckOptions>): Promise<number> {
  if (options.changes && options.inputs === undefined) throw changesOfWhat();
  const found = await discoverToUse(io, options);
  requireConfiguration(io, found);
  const { vault, audit } = found.capabilities;
  const [provider] = providersOf(found, wanted) as [CapabilityProvider];
  const { namespace } = provider;
  const inputs = options.inputs === undefined ? {} : inputsIn(resolve(io.cwd, options.inputs));
  const credential = vault.get(namespace, { user: OWNER, origin: provider.origin });
  const told = await waitingFor(io, `trying what ${namespace} has to hold to`, () =>
    untilInterrupted(io, (signal) =>
      checkProvider(provider, {
        inputs,
        signal,
        ...(options.changes ? { invokes: inputs } : {}),
        ...defined({ credential }),
      }),
    ),
  );
  // What a provider says of a failure may repeat what it was let in with.
  const findings = filterCredentials(told, secretsOf(credential)).value as ProviderFinding[];
  const isFine = findings.every(({ isOk }) => isOk);
  const outcome = isFine ? "ok" : "failed";
  audit.add({ run: "", skill: "", source: "", method: "check", capability: namespace, outcome });
  const untried = Object.keys(inputs).filter(
    (name) => !findings.some(({ title }) => title.startsWith(`${name} gives what`)),
  );
  const withoutExample = withoutExampleIn(findings);
  if (options.json) printJson(io.stdout, { namespace, from: provider.from, findings, untried, withoutExample });
  else printFindings(io, findings, { untried, withoutExample });
  return isFine ? EXIT.fine : EXIT.findings;
}

/** Those that only read, and of which it is not known what they can be asked. */
function withoutExampleIn(findings: readonly ProviderFinding[]): string[] {
  const titles = new Set(findings.map(({ title }) => title));
  return [...titles]
    .flatMap((title) => /^(\S+) refuses input that does not fit$/.exec(title)?.[1] ?? [])
    .filter((name) => !titles.has(`${name} gives what it says it gives`));
}

interface Left {
  untried: readonly string[];
  withoutExample: readonly string[];
}

function printFindings(io: Io, findings: readonly ProviderFinding[], { untried, withoutExample }: Left): void {
  const out = printer(io.stdout, io.env);
  for (const { isOk, title, message, printed = [] } of findings) {
    out.line`${isOk ? out.green("✓") : out.red("✗")} ${title}`;
    if (message !== undefined) out.line`    ${message}`;
    for (const line of printed) out.line`    ${out.dim(`│ ${line}`)}`;
  }
  const held = findings.filter(({ isOk }) => isOk).length;
  out.line`\n${held} of ${findings.length} hold`;
  const error = printer(io.stderr, io.env);
  const isDescribed = findings[0]?.isOk ?? false; // Else nothing else was tried, and that is said.
  for (const name of isDescribed ? untried : [])
    error.line`${error.yellow("!")} ${oneLine(name, 100)} was not tried: there is no such operation, or it changes something, which takes --changes`;
  const [first] = withoutExample;
  if (first === undefined) return;
  const said = `${count(withoutExample.length, "operation")} without an example: only refusals were tried; --inputs FILE gives one: {"${oneLine(first, 100)}": {…}}`;
  printHanging(error, "", [said], { indent: 0, paint: error.dim });
}

/** Contract: an object with an input for each operation. Throws a SkillError. */
function inputsIn(file: string): Data {
  let read: unknown;
  try {
    read = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw unusable(file, reason(error));
  }
  if (isData(read)) return read;
  throw unusable(file, "it is no JSON object");
}

function unusable(file: string, why: string): SkillError {
  return new SkillError("usage", {
    message: `${file} cannot be used: ${oneLine(why, 200)}`,
    fix: 'write an input for each operation: {"notes.notes.get": {"id": 1}}',
  });
}

function changesOfWhat(): SkillError {
  return new SkillError("usage", {
    message: "--changes does what the file of --inputs names, and there is none",
    fix: "as in --inputs inputs.json --changes",
  });
}
