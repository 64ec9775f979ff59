import { formatProblem, getErrorMessage, SkillError } from "../errors/problem.ts";
import {
  type CapabilityProvider,
  type Credential,
  type OperationDescription,
  PROVIDER_ERROR_CODES,
  type ProviderAnswer,
  type ProviderDescription,
} from "../host/capability-contract.ts";
import { findSchemaIssues, findSchemaProblem } from "../host/json-schema.ts";
import { formatCount, truncateLine } from "../util/text.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { stringifyCanonical } from "./audit-log.ts";
import { filterCredentials } from "./credential-filter.ts";
import { findDescriptionProblem, ProviderStderr } from "./provider-contract.ts";

export interface ProviderCheckOptions {
  /** Inputs for trying read-only operations, by name, as `notes.notes.list`. Operations that accept an empty object are always tried. */
  inputs?: Readonly<Record<string, unknown>>;
  /** Inputs for trying mutating operations. Each is performed, and repeated with the same key; others are not tried. */
  invokes?: Readonly<Record<string, unknown>>;
  /** The credential sent with each call. */
  credential?: Credential;
  signal?: AbortSignal;
}

export interface ProviderFinding {
  isOk: boolean;
  /** The expectation that was checked. */
  title: string;
  /** The operation that was tried, for the checks of its input and its output. */
  tried?: { operation: string; part: "input" | "output" };
  /** The reason it failed. */
  message?: string;
  /** The last lines that its program printed to stderr during the check. */
  printed?: readonly string[];
}

/**
 * Checks the requirements that every provider must meet. Changes nothing except through `invokes`. Contract: never throws, and each check
 * ends when the provider's timeout passes.
 */
export async function checkProvider(
  provider: CapabilityProvider,
  options: ProviderCheckOptions = {},
): Promise<ProviderFinding[]> {
  const findings: ProviderFinding[] = [];
  const check: ProviderTrial["check"] = async (title, work, tried) => {
    let printed: readonly string[] = [];
    const message = await work().catch((error) => {
      printed = getPrintedLines(error);
      return `it failed: ${formatTrialError(error)}`;
    });
    findings.push({
      ...{ isOk: message === undefined, title, ...(tried ? { tried } : {}) },
      ...(message === undefined ? {} : { message: sanitizeLine(message) }),
      ...(printed.length > 1 ? { printed } : {}), // A single line is in the message.
    });
  };
  const trial: ProviderTrial = { provider, options, number: 0, check };
  let description: ProviderDescription | undefined;
  await check("describes itself, the same each time", async () => {
    description = await withProviderTime(trial, (call) => provider.describe(call));
    const again = await withProviderTime(trial, (call) => provider.describe(call));
    return isEqualJson(description, again) ? undefined : "the second description differs";
  });
  if (!description) return findings; // Without a description, further checks mean nothing.
  await check("reports its health in time", async () => {
    const { isReady } = await withProviderTime(trial, (call) => provider.health(call));
    return typeof isReady === "boolean" ? undefined : "isReady is neither true nor false";
  });
  await check("ends within a second when the caller aborts", () => checkAbort(trial));
  await checkDescription(trial, description);
  return findings;
}

interface ProviderTrial {
  provider: CapabilityProvider;
  options: ProviderCheckOptions;
  /** The number of the last call, so that no two calls share a key by accident. */
  number: number;
  check(title: string, work: () => Promise<string | undefined>, tried?: ProviderFinding["tried"]): Promise<void>;
}

async function checkDescription(trial: ProviderTrial, description: ProviderDescription): Promise<void> {
  const { provider, check } = trial;
  await check("describes capabilities of its namespace, with valid schemas", async () => {
    const wrong = await findDescriptionProblem(provider.namespace, description);
    return wrong && formatProblem(wrong);
  });
  const [first] = description.capabilities;
  if (!first) return;
  await check("refuses an unknown operation", () =>
    checkRefusal(trial, [first.id, "no-such-operation", {}], ["not-found", "input-invalid", "denied"]),
  );
  await check("refuses an unknown capability", () =>
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

/** No operation accepts input that is not an object. */
const INVALID_INPUT = "not an object";

async function checkOperation(trial: ProviderTrial, id: string, operation: OperationDescription): Promise<void> {
  const { check, options } = trial;
  const name = `${id}.${operation.name}`;
  const inputs = operation.mutating
    ? options.invokes
    : { ...(await createEmptyInput(name, operation)), ...options.inputs };
  const isTried = inputs !== undefined && Object.hasOwn(inputs, name);
  if (operation.mutating && !isTried) return;
  await check(
    `${name} refuses invalid input`,
    () => checkRefusal(trial, [id, operation.name, INVALID_INPUT], ["input-invalid"]),
    { operation: name, part: "input" },
  );
  if (!isTried) return;
  const input = inputs[name];
  let first: ProviderAnswer | undefined;
  const key = createTrialKey(trial);
  const checkOutput = async () => {
    first = await callOperation(trial, id, operation.name, input, key);
    return findOutputProblem(operation, first.output);
  };
  const tried = { operation: name, part: "output" } as const;
  await check(`${name} returns output that matches its schema`, checkOutput, tried);
  if (!first) return;
  const { output } = first;
  await check(`${name} returns no credential`, async () => {
    const { removed } = filterCredentials(structuredClone(output), new Map());
    return removed === 0
      ? undefined
      : `${formatCount(removed, "value")} in its output would be redacted as credentials: do not return them`;
  });
  if (!operation.mutating) return;
  await check(`${name} is done once per key`, async () => {
    const again = await callOperation(trial, id, operation.name, input, key);
    return isEqualJson(again.output, output) ? undefined : "the second call returned a different output";
  });
}

async function createEmptyInput(name: string, { inputSchema }: OperationDescription): Promise<Record<string, unknown>> {
  return (await findSchemaProblem(inputSchema, {}, "lenient")) === undefined ? { [name]: {} } : {};
}

async function findOutputProblem({ outputSchema }: OperationDescription, output: unknown): Promise<string | undefined> {
  if (output === undefined) return "there is no output: return null instead";
  const issues = outputSchema && (await findSchemaIssues(outputSchema, structuredClone(output), "lenient"));
  return issues && `its output does not fit its schema: ${issues}`;
}

function isEqualJson(one: unknown, other: unknown): boolean {
  return stringifyCanonical(one) === stringifyCanonical(other);
}

/** Contract: the call must fail with one of these codes. */
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
      : `${sent} failed with ${formatTrialError(error)}, instead of ${codes.join(" or ")}`;
  }
  return `${sent} succeeded instead of failing with ${codes.join(" or ")}`;
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
  const call = { capability, operation, input, context, key, ...(credential ? { credential } : {}) };
  return withProviderTime(trial, (options) => provider.invoke(call, options));
}

function createTrialKey(trial: ProviderTrial): string {
  trial.number += 1;
  return `check-${PROCESS_KEY}-${trial.number}`;
}

/** Unique per process. */
const PROCESS_KEY = `${process.pid}-${Math.round(performance.timeOrigin)}`;

/** Added to the provider's own timeout, for starting a process on a busy machine. */
const GRACE_MS = 2000;
const ABORT_MS = 1000;

/** Contract: ends in time, even if the provider hangs. */
async function withProviderTime<T>(
  { provider, options }: ProviderTrial,
  work: (call: { signal: AbortSignal; isSignedIn?: boolean }) => Promise<T>,
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
  const health = (async () => provider.health({ signal: controller.signal }))().then(
    () => undefined,
    () => undefined,
  );
  setImmediate(() => controller.abort());
  await withTrialTimeout(ABORT_MS, health);
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
  return isKnown ? `${code}: ${getErrorMessage(error)}` : `not a provider error code: ${getErrorMessage(error)}`;
}
