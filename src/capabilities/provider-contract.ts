import { formatFix, getErrorMessage, type Problem, SkillError } from "../errors/problem.ts";
import {
  type CapabilityDescription,
  type OperationDescription,
  PROVIDER_ERROR_CODES,
  type ProviderDescription,
} from "../host/capability-contract.ts";
import { findSchemaError } from "../host/json-schema.ts";
import { isJsonObject } from "../util/objects.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";

/** A valid namespace, as `notes`. */
export const PROVIDER_NAMESPACE_PATTERN: RegExp = /^[a-z][a-z0-9_-]{0,63}$/;
const CAPABILITY_PATTERN = /^(?=.{1,128}$)[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)+$/;
const OPERATION_PATTERN = /^[A-Za-z0-9][\w-]{0,63}$/;

/** Normalizes a description: each text on one line, truncated to a length suitable for models. */
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

/** Returns what is wrong with a description, names first; undefined if it is valid. Applies to every provider. */
export async function findDescriptionProblem(
  namespace: string,
  description: ProviderDescription,
): Promise<Problem | undefined> {
  return findShapeProblem(namespace, description) ?? (await findSchemaProblem(description));
}

/** Like `findDescriptionProblem`, without the slow check of the schemas. */
export function findShapeProblem(namespace: string, { capabilities }: ProviderDescription): Problem | undefined {
  if (!PROVIDER_NAMESPACE_PATTERN.test(namespace)) {
    return createDescriptionProblem(
      "its namespace is invalid",
      "use up to 64 lowercase letters, digits, `-` and `_`, starting with a letter",
    );
  }
  const first = findFirstProblem(capabilities, MAX_CAPABILITIES, "capabilities", (capability, path) =>
    findCapabilityProblem(namespace, capability, path),
  );
  return (
    first ??
    findDuplicateProblem(
      capabilities.map(({ id }) => id),
      "capability",
    )
  );
}

function findCapabilityProblem(namespace: string, capability: CapabilityDescription, path: string) {
  const { id, description, operations } = capability;
  if (typeof id !== "string" || !CAPABILITY_PATTERN.test(id) || !id.startsWith(`${namespace}.`)) {
    return createDescriptionProblem(
      `the id of ${path} is not in the namespace ${namespace}`,
      `start it with \`${namespace}.\`, followed by lowercase letters, digits, \`-\` and \`_\``,
    );
  }
  if (isEmptyText(description))
    return createDescriptionProblem(`${id} has no description`, "describe it in one sentence");
  if (operations.length === 0) return createDescriptionProblem(`${id} has no operations`, "add at least one");
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

function findOperationProblem(id: string, operation: OperationDescription, path: string): Problem | undefined {
  const { name, description, mutating, inputSchema } = operation;
  if (typeof name !== "string" || !OPERATION_PATTERN.test(name)) {
    return createDescriptionProblem(
      `the name of ${path} is invalid`,
      "use up to 64 letters, digits, `-` and `_`, starting with a letter or digit",
    );
  }
  if (isEmptyText(description)) {
    return createDescriptionProblem(`${id} ${name} has no description`, "describe what it does in one sentence");
  }
  if (typeof mutating !== "boolean") {
    return createDescriptionProblem(
      `${id} ${name} has no \`mutating\` flag`,
      "set `mutating` to true if it changes something, else to false",
    );
  }
  if (!isJsonObject(inputSchema) || inputSchema["type"] !== "object") {
    return createDescriptionProblem(`the input of ${id} ${name} is not an object`, 'wrap it: { "type": "object", … }');
  }
  return undefined;
}

async function findSchemaProblem({ capabilities }: ProviderDescription): Promise<Problem | undefined> {
  for (const { id, operations } of capabilities) {
    for (const { name, inputSchema, outputSchema } of operations) {
      for (const [which, schema] of Object.entries({ input: inputSchema, output: outputSchema })) {
        const why = schema && (await findSchemaError(schema));
        if (why) {
          return createDescriptionProblem(
            `the ${which} schema of ${id} ${name} cannot be used: ${why}`,
            "use valid JSON Schema (2020-12) without external references",
          );
        }
      }
    }
  }
  return undefined;
}

function createDescriptionProblem(message: string, fix: string): Problem {
  return { code: "provider-invalid", message, fix };
}

function isEmptyText(description: unknown): boolean {
  return typeof description !== "string" || description.trim() === "";
}

function findFirstProblem<Item>(
  items: readonly Item[],
  max: number,
  what: string,
  findProblem: (item: Item, path: string) => Problem | undefined,
): Problem | undefined {
  if (items.length > max) return createDescriptionProblem(`there are more than ${max} ${what}`, "split them up");
  for (const [index, item] of items.entries()) {
    const problem = findProblem(item, `number ${index + 1} of the ${what}`);
    if (problem) return problem;
  }
  return undefined;
}

function findDuplicateProblem(names: readonly string[], what: string): Problem | undefined {
  const duplicate = names.find((name, index) => names.indexOf(name) !== index);
  return duplicate === undefined
    ? undefined
    : createDescriptionProblem(`there is more than one ${what} \`${duplicate}\``, "give each a unique name");
}

/** In characters; longer texts are truncated. */
export const MAX_PROVIDER_TEXT = 500;
export const MAX_CAPABILITIES = 64;
export const MAX_OPERATIONS = 100;

/** Returns the timeout of an answer, within the allowed range. */
export function clampProviderSeconds(requested: number | undefined): number {
  const seconds = requested === undefined || Number.isNaN(requested) ? DEFAULT_SECONDS : requested;
  return Math.min(Math.max(seconds, MIN_SECONDS), MAX_SECONDS);
}

const [DEFAULT_SECONDS, MIN_SECONDS, MAX_SECONDS] = [30, 1, 300];

/** Converts any error of a provider to a SkillError with one of the provider codes and short texts. */
export function toProviderError(error: unknown, namespace: string): SkillError {
  const { code } = error instanceof SkillError ? error : {};
  const fix = error instanceof SkillError ? formatFix(error) : "";
  const text = sanitizeLine(getErrorMessage(error), MAX_PROVIDER_TEXT) || "no reason given";
  const known = PROVIDER_ERROR_CODES.find((one) => one === code);
  if (known === undefined) {
    return new SkillError("provider-failed", { message: `The provider of ${namespace} failed: ${text}`, cause: error });
  }
  return new SkillError(known, {
    message: text,
    fix: sanitizeLine(fix, MAX_PROVIDER_TEXT),
    cause: error,
  });
}

/** The redacted stderr of a program: the cause of its failure, for its author. */
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
    fix: `try again, or raise timeout_seconds under [capabilities.providers.${namespace}], up to ${MAX_SECONDS}`,
  });
}

/** The caller aborted the call. */
export function createProviderAbortError(namespace: string, signal: AbortSignal): SkillError {
  const isLate = Object(signal.reason).name === "TimeoutError";
  return new SkillError(isLate ? "provider-timeout" : "provider-failed", {
    message: `The provider of ${namespace} was stopped before it answered`,
    cause: signal.reason,
  });
}

/** Runs `work` with the provider's timeout; rejects at once if the caller aborts. Work that hangs is abandoned. */
export async function withProviderTimeout<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { namespace, seconds: requested, signal }: { namespace: string; seconds: number; signal: AbortSignal },
): Promise<T> {
  const seconds = clampProviderSeconds(requested);
  if (signal.aborted) throw createProviderAbortError(namespace, signal);
  const inner = new AbortController();
  let onAbort = () => {};
  let timer: NodeJS.Timeout | undefined;
  const interrupted = new Promise<never>((_, reject) => {
    const end = (error: SkillError) => {
      reject(error);
      inner.abort(error);
    };
    onAbort = () => end(createProviderAbortError(namespace, signal));
    signal.addEventListener("abort", onAbort, { once: true });
    timer = setTimeout(() => end(createProviderTimeoutError(namespace, seconds)), seconds * 1000);
  });
  try {
    return await Promise.race([work(inner.signal), interrupted]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}
