import { getErrorMessage, SkillError } from "../errors/problem.ts";
import {
  type CapabilityProvider,
  type Credential,
  type OperationDescription,
  PROVIDER_ERROR_CODES,
  type ProviderAnswer,
  type ProviderDescription,
} from "../host/capability-contract.ts";
import { findSchemaProblem } from "../host/json-schema.ts";
import { formatCount, truncateLine } from "../util/text.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { stringifyCanonical } from "./audit-log.ts";
import { filterCredentials } from "./credential-filter.ts";
import { findDescriptionProblem, ProviderStderr } from "./provider-contract.ts";

export interface ProviderCheckOptions {
  /** What operations that only read are tried with, by `notes.notes.list`. Those that take an empty object are tried in any case. */
  inputs?: Readonly<Record<string, unknown>>;
  /** The same for those that change something. They are done, and each twice with one key: none is tried that is not here. */
  invokes?: Readonly<Record<string, unknown>>;
  /** What it is let in with. */
  credential?: Credential;
  signal?: AbortSignal;
}

export interface ProviderFinding {
  isOk: boolean;
  /** What was tried, as what should be so. */
  title: string;
  /** What came of it, where it should not have. */
  message?: string;
  /** The last lines that its program printed to stderr meanwhile. */
  printed?: readonly string[];
}

/**
 * Tries what every provider has to hold to. Changes nothing but by `invokes`. Contract: never throws, and ends when the provider's own time
 * is over for each thing that it tries.
 */
export async function checkProvider(
  provider: CapabilityProvider,
  options: ProviderCheckOptions = {},
): Promise<ProviderFinding[]> {
  const findings: ProviderFinding[] = [];
  const tell = async (title: string, work: () => Promise<string | undefined>) => {
    let printed: readonly string[] = [];
    const message = await work().catch((error) => {
      printed = getPrintedLines(error);
      return `it failed: ${formatTrialError(error)}`;
    });
    findings.push({
      ...{ isOk: message === undefined, title },
      ...(message === undefined ? {} : { message: sanitizeLine(message) }),
      ...(printed.length > 1 ? { printed } : {}), // One alone is in the message.
    });
  };
  const trial: ProviderTrial = { provider, options, number: 0, tell };
  let description: ProviderDescription | undefined;
  await tell("describes itself, and the same twice", async () => {
    description = await withProviderTime(trial, (given) => provider.describe(given));
    const again = await withProviderTime(trial, (given) => provider.describe(given));
    return isEqualJson(description, again) ? undefined : "the second description is another one";
  });
  if (!description) return findings; // Of one that is not there, whatever else holds means nothing.
  await tell("says whether it is ready, in time", async () => {
    const { isReady } = await withProviderTime(trial, (given) => provider.health(given));
    return typeof isReady === "boolean" ? undefined : "isReady is neither true nor false";
  });
  await tell("ends within a second when nobody waits any more", () => checkAbort(trial));
  await checkDescription(trial, description);
  return findings;
}

interface ProviderTrial {
  provider: CapabilityProvider;
  options: ProviderCheckOptions;
  /** Of the last call, so that no two have one key by chance. */
  number: number;
  tell(title: string, work: () => Promise<string | undefined>): Promise<void>;
}

async function checkDescription(trial: ProviderTrial, description: ProviderDescription): Promise<void> {
  const { provider, tell } = trial;
  await tell("describes capabilities of its namespace, with schemas that can be used", async () => {
    const wrong = await findDescriptionProblem(provider.namespace, description);
    return wrong && `${wrong.problem}: ${wrong.fix}`;
  });
  const [first] = description.capabilities;
  if (!first) return;
  await tell("refuses an operation that there is not", () =>
    checkRefusal(trial, [first.id, "no-such-operation", {}], ["not-found", "input-invalid", "denied"]),
  );
  await tell("refuses a capability that there is not", () =>
    checkRefusal(
      trial,
      [`${provider.namespace}.no-such-capability`, "list", {}],
      ["not-found", "input-invalid", "denied"],
    ),
  );
  for (const { id, operations } of description.capabilities) {
    for (const operation of operations) await checkOperation(trial, id, operation);
  }
}

/** No operation takes one that is no object. */
const INVALID_INPUT = "this is no object";

async function checkOperation(trial: ProviderTrial, id: string, operation: OperationDescription): Promise<void> {
  const { tell, options } = trial;
  const name = `${id}.${operation.name}`;
  const given = operation.mutating
    ? options.invokes
    : { ...(await createEmptyInput(name, operation)), ...options.inputs };
  const isTried = given !== undefined && Object.hasOwn(given, name);
  if (operation.mutating && !isTried) return;
  await tell(`${name} refuses input that does not fit`, () =>
    checkRefusal(trial, [id, operation.name, INVALID_INPUT], ["input-invalid"]),
  );
  if (!isTried) return;
  const input = given[name];
  let first: ProviderAnswer | undefined;
  const key = createTrialKey(trial);
  await tell(`${name} gives what it says it gives`, async () => {
    first = await callOperation(trial, id, operation.name, input, key);
    return findOutputProblem(operation, first.output);
  });
  if (!first) return;
  const { output } = first;
  await tell(`${name} gives no credential`, async () => {
    const { removed } = filterCredentials(structuredClone(output), new Map());
    return removed === 0
      ? undefined
      : `${formatCount(removed, "value")} of its output would be taken out for looking like a credential: leave it out`;
  });
  if (!operation.mutating) return;
  await tell(`${name} is done once for one key`, async () => {
    const again = await callOperation(trial, id, operation.name, input, key);
    return isEqualJson(again.output, output) ? undefined : "the second time gave something else than the first";
  });
}

async function createEmptyInput(name: string, { inputSchema }: OperationDescription): Promise<Record<string, unknown>> {
  return (await findSchemaProblem(inputSchema, {}, "lenient")) === undefined ? { [name]: {} } : {};
}

async function findOutputProblem({ outputSchema }: OperationDescription, output: unknown): Promise<string | undefined> {
  if (output === undefined) return "there is no output: null is one";
  const problem = outputSchema && (await findSchemaProblem(outputSchema, structuredClone(output), "lenient"));
  return problem?.replace(/^Invalid input: /, "its output does not fit its schema: ");
}

function isEqualJson(one: unknown, other: unknown): boolean {
  return stringifyCanonical(one) === stringifyCanonical(other);
}

/** Contract: it must fail, and with one of these codes. */
async function checkRefusal(
  trial: ProviderTrial,
  [capability, operation, input]: readonly [string, string, unknown],
  codes: readonly string[],
): Promise<string | undefined> {
  const sent = `${capability} ${operation} with the input ${JSON.stringify(input)}`;
  try {
    await callOperation(trial, capability, operation, input);
  } catch (error) {
    const { code } = Object(error) as { code?: unknown };
    return codes.includes(String(code))
      ? undefined
      : `${sent} failed with ${formatTrialError(error)}, in place of ${codes.join(" or ")}`;
  }
  return `${sent} was done, in place of ${codes.join(" or ")}`;
}

async function callOperation(
  trial: ProviderTrial,
  capability: string,
  operation: string,
  input: unknown,
  key = createTrialKey(trial),
) {
  const { provider, options } = trial;
  const context = { run: "check", skill: "check", source: "check" };
  const { credential } = options;
  const asked = { capability, operation, input, context, key, ...(credential ? { credential } : {}) };
  return withProviderTime(trial, (given) => provider.invoke(asked, given));
}

function createTrialKey(trial: ProviderTrial): string {
  trial.number += 1;
  return `check-${PROCESS_KEY}-${trial.number}`;
}

/** Another one in each process. */
const PROCESS_KEY = `${process.pid}-${Math.round(performance.timeOrigin)}`;

/** For what a provider takes beside its own time: the start of a process, on a machine that has much to do. */
const GRACE_MS = 2000;
const ABORT_MS = 1000;

/** Contract: ends in time, whatever the provider does. */
async function withProviderTime<T>(
  { provider, options }: ProviderTrial,
  work: (given: { signal: AbortSignal; isSignedIn?: boolean }) => Promise<T>,
): Promise<T> {
  const { signal = new AbortController().signal } = options;
  const isSignedIn = options.credential !== undefined;
  return withTrialTimeout(provider.seconds * 1000 + GRACE_MS, (async () => work({ signal, isSignedIn }))());
}

async function withTrialTimeout<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new SkillError("provider-timeout", { message: `it did not end within ${Math.round(ms)} ms` });
    timer = setTimeout(() => reject(error), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function checkAbort({ provider }: ProviderTrial): Promise<string | undefined> {
  const controller = new AbortController();
  const asked = (async () => provider.health({ signal: controller.signal }))().then(
    () => undefined,
    () => undefined,
  );
  setImmediate(() => controller.abort());
  await withTrialTimeout(ABORT_MS, asked);
  return undefined;
}

const [MAX_LINES, MAX_LINE_LENGTH] = [30, 300];

function getPrintedLines(error: unknown): readonly string[] {
  const { cause } = Object(error) as { cause?: unknown };
  const lines = cause instanceof ProviderStderr ? cause.lines : [];
  return lines.slice(-MAX_LINES).map((line) => truncateLine(line, MAX_LINE_LENGTH));
}

function formatTrialError(error: unknown): string {
  const { code } = Object(error) as { code?: unknown };
  const isKnown = (PROVIDER_ERROR_CODES as readonly unknown[]).includes(code);
  return isKnown ? `${code}: ${getErrorMessage(error)}` : `no code of a provider's: ${getErrorMessage(error)}`;
}
