import { getErrorMessage, SkillError } from "../errors/problem.ts";
import {
  type CapabilityDescription,
  type OperationDescription,
  PROVIDER_ERROR_CODES,
  type ProviderDescription,
} from "../host/capability-contract.ts";
import { findSchemaError } from "../host/json-schema.ts";
import { isJsonObject } from "../util/objects.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";

/** What a namespace can be called: `notes`. */
export const PROVIDER_NAMESPACE_PATTERN: RegExp = /^[a-z][a-z0-9_-]{0,63}$/;
const CAPABILITY_PATTERN = /^(?=.{1,128}$)[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)+$/;
const OPERATION_PATTERN = /^[A-Za-z0-9][\w-]{0,63}$/;

export interface DescriptionProblem {
  problem: string;
  fix: string;
}

/** A description as everybody is given it: texts on one line each, and no longer than is good for a model. */
export function normalizeProviderDescription({ capabilities, ...rest }: ProviderDescription): ProviderDescription {
  return {
    ...rest,
    capabilities: capabilities.map((capability) => ({
      ...capability,
      description: sanitizeLine(capability.description, MAX_PROVIDER_TEXT),
      operations: capability.operations.map((operation) => ({
        ...operation,
        description: sanitizeLine(operation.description, MAX_PROVIDER_TEXT),
      })),
    })),
  };
}

/** What is wrong with a description, first of all its names; nothing when it can be used. The rule for every provider. */
export async function findDescriptionProblem(
  namespace: string,
  description: ProviderDescription,
): Promise<DescriptionProblem | undefined> {
  return findShapeProblem(namespace, description) ?? (await findSchemaProblem(description));
}

/** As descriptionProblem, without a look into the schemas, which takes its time. */
export function findShapeProblem(
  namespace: string,
  { capabilities }: ProviderDescription,
): DescriptionProblem | undefined {
  if (!PROVIDER_NAMESPACE_PATTERN.test(namespace)) {
    return {
      problem: "its namespace is none",
      fix: "use up to 64 small letters, digits, `-` and `_`, and begin with a letter",
    };
  }
  const first = findFirstProblem(capabilities, MAX_CAPABILITIES, "capabilities", (capability, place) =>
    findCapabilityProblem(namespace, capability, place),
  );
  return (
    first ??
    findDuplicateProblem(
      capabilities.map(({ id }) => id),
      "capability",
    )
  );
}

function findCapabilityProblem(namespace: string, capability: CapabilityDescription, place: string) {
  const { id, description, operations } = capability;
  if (typeof id !== "string" || !CAPABILITY_PATTERN.test(id) || !id.startsWith(`${namespace}.`)) {
    return {
      problem: `the id of ${place} is none of ${namespace}`,
      fix: `begin it with \`${namespace}.\`, and go on with small letters, digits, \`-\` and \`_\``,
    };
  }
  if (isEmptyText(description)) return { problem: `${id} has no description`, fix: "say in a sentence what it is" };
  if (operations.length === 0) return { problem: `${id} has no operations`, fix: "give it at least one" };
  const first = findFirstProblem(operations, MAX_OPERATIONS, `operations of ${id}`, (operation, where) =>
    findOperationProblem(id, operation, where),
  );
  return (
    first ??
    findDuplicateProblem(
      operations.map(({ name }) => name),
      `operation of ${id}`,
    )
  );
}

function findOperationProblem(
  id: string,
  operation: OperationDescription,
  place: string,
): DescriptionProblem | undefined {
  const { name, description, mutating, inputSchema } = operation;
  if (typeof name !== "string" || !OPERATION_PATTERN.test(name)) {
    return {
      problem: `the name of ${place} is none`,
      fix: "use up to 64 letters, digits, `-` and `_`, and begin with a letter or digit",
    };
  }
  if (isEmptyText(description)) {
    return { problem: `${id} ${name} has no description`, fix: "say in a sentence what it does" };
  }
  if (typeof mutating !== "boolean") {
    return { problem: `${id} ${name} does not say whether it changes something`, fix: "say it: mutating" };
  }
  if (!isJsonObject(inputSchema) || inputSchema["type"] !== "object") {
    return { problem: `the input of ${id} ${name} is no object`, fix: 'wrap it: { "type": "object", … }' };
  }
  return undefined;
}

async function findSchemaProblem({ capabilities }: ProviderDescription): Promise<DescriptionProblem | undefined> {
  for (const { id, operations } of capabilities) {
    for (const { name, inputSchema, outputSchema } of operations) {
      for (const [which, schema] of Object.entries({ input: inputSchema, output: outputSchema })) {
        const why = schema && (await findSchemaError(schema));
        if (why) {
          return {
            problem: `the ${which} schema of ${id} ${name} cannot be used: ${why}`,
            fix: "mend it: it is JSON Schema (2020-12), and nothing in it leads outside",
          };
        }
      }
    }
  }
  return undefined;
}

function isEmptyText(description: unknown): boolean {
  return typeof description !== "string" || description.trim() === "";
}

function findFirstProblem<Item>(
  items: readonly Item[],
  most: number,
  what: string,
  problemOf: (item: Item, place: string) => DescriptionProblem | undefined,
): DescriptionProblem | undefined {
  if (items.length > most) return { problem: `there are more than ${most} ${what}`, fix: "divide them" };
  for (const [index, item] of items.entries()) {
    const problem = problemOf(item, `number ${index + 1} of the ${what}`);
    if (problem) return problem;
  }
  return undefined;
}

function findDuplicateProblem(names: readonly string[], what: string): DescriptionProblem | undefined {
  const again = names.find((name, index) => names.indexOf(name) !== index);
  return again === undefined
    ? undefined
    : { problem: `there is more than one ${what} \`${again}\``, fix: "call each by another name" };
}

/** How much of a text for people is kept. */
export const MAX_PROVIDER_TEXT = 500;
export const MAX_CAPABILITIES = 64;
export const MAX_OPERATIONS = 100;

/** How long an answer may take: what was asked for, within what is sensible. */
export function clampProviderSeconds(asked: number | undefined): number {
  const seconds = asked === undefined || Number.isNaN(asked) ? DEFAULT_SECONDS : asked;
  return Math.min(Math.max(seconds, MIN_SECONDS), MAX_SECONDS);
}

const [DEFAULT_SECONDS, MIN_SECONDS, MAX_SECONDS] = [30, 1, 300];

/** What went wrong in a provider, as everybody is told it: one of the codes for that, and short texts. */
export function toProviderError(error: unknown, namespace: string): SkillError {
  const { code, fix } = error instanceof SkillError ? error : {};
  const said = sanitizeLine(getErrorMessage(error), MAX_PROVIDER_TEXT) || "it did not say why";
  const known = PROVIDER_ERROR_CODES.find((one) => one === code);
  if (known === undefined) {
    return new SkillError("provider-failed", { message: `The provider of ${namespace} failed: ${said}`, cause: error });
  }
  return new SkillError(known, {
    message: said,
    ...(fix === undefined ? {} : { fix: sanitizeLine(fix, MAX_PROVIDER_TEXT) }),
    cause: error,
  });
}

/** What a program printed beside its answer, without secrets: the cause of its failure, for whoever mends it. */
export class ProviderStderr extends Error {
  readonly lines: readonly string[];

  constructor(lines: readonly string[]) {
    super(lines.join("\n"));
    this.lines = lines;
  }
}

export function createProviderTimeoutError(namespace: string, seconds: number): SkillError {
  return new SkillError("provider-timeout", {
    message: `The provider of ${namespace} did not answer within ${seconds} ${seconds === 1 ? "second" : "seconds"}`,
    fix: `try again, or give it longer: timeout_seconds under [capabilities.providers.${namespace}], up to ${MAX_SECONDS}`,
  });
}

/** The caller did not wait for it. */
export function createProviderAbortError(namespace: string, signal: AbortSignal): SkillError {
  const isLate = Object(signal.reason).name === "TimeoutError";
  return new SkillError(isLate ? "provider-timeout" : "provider-failed", {
    message: `The provider of ${namespace} was stopped before it answered`,
    cause: signal.reason,
  });
}

/** What this comes to; a time-out when it does not in time, and at once when the caller gives up. What hangs is left behind. */
export async function withProviderTimeout<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { namespace, seconds: asked, signal }: { namespace: string; seconds: number; signal: AbortSignal },
): Promise<T> {
  const seconds = clampProviderSeconds(asked);
  if (signal.aborted) throw createProviderAbortError(namespace, signal);
  const inner = new AbortController();
  let onAbort = () => {};
  let timer: NodeJS.Timeout | undefined;
  const given = new Promise<never>((_, reject) => {
    const end = (error: SkillError) => {
      reject(error);
      inner.abort(error);
    };
    onAbort = () => end(createProviderAbortError(namespace, signal));
    signal.addEventListener("abort", onAbort, { once: true });
    timer = setTimeout(() => end(createProviderTimeoutError(namespace, seconds)), seconds * 1000);
  });
  try {
    return await Promise.race([work(inner.signal), given]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}
