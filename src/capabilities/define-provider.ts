import type { Readable, Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { getErrorMessage, type Problem, SkillError } from "../errors/problem.ts";
import type {
  CapabilityProvider,
  Credential,
  OperationDescription,
  ProviderAuth,
  ProviderCall,
  ProviderContext,
  ProviderDescription,
  ProviderHealth,
  ProviderOptions,
} from "../host/capability-contract.ts";
import { findSchemaProblem } from "../host/json-schema.ts";
import type { StandardSchema } from "../skill/define-tool.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../util/objects.ts";
import { findNearest, truncateLine } from "../util/text.ts";
import {
  clampProviderSeconds,
  findDescriptionProblem,
  findShapeProblem,
  normalizeProviderDescription,
  PROVIDER_NAMESPACE_PATTERN,
  toProviderError,
  withProviderTimeout,
} from "./provider-contract.ts";
import {
  type AnyProviderRequest,
  formatProviderAnswer,
  formatProviderError,
  MAX_PROVIDER_REQUEST_BYTES,
  parseProviderRequest,
  UNSUPPORTED_CODE,
} from "./provider-protocol.ts";

// The other exports of `skillet/provider`.
export { SkillError } from "../errors/problem.ts";
export {
  type AuthCallback,
  type AuthChallenge,
  type AuthCompletion,
  type AuthRequest,
  type CapabilityDescription,
  type CapabilityProvider,
  type Credential,
  type OperationDescription,
  PROVIDER_ERROR_CODES,
  type ProviderAnswer,
  type ProviderAuth,
  type ProviderCall,
  type ProviderContext,
  type ProviderDescription,
  type ProviderHealth,
  type ProviderOptions,
} from "../host/capability-contract.ts";
export { checkProvider, type ProviderCheckOptions, type ProviderFinding } from "./check-provider.ts";

/** The context of an operation, in addition to its input. The host sets all of it. */
export interface OperationContext extends ProviderContext {
  /** The idempotency key: the same when the call is repeated. Use it for effects that must not happen twice. */
  key: string;
  /** The credential of the signed-in account, if any. */
  credential?: Credential;
  /** Replaces the credential after it was renewed. */
  renew(credential: Credential): void;
  /** Aborts when the caller no longer waits. */
  signal: AbortSignal;
}

export interface OperationDefinition<Input extends ProviderSchema> {
  description: string;
  input: Input;
  output?: ProviderSchema;
  /** True if it changes something. Each call then needs an approval. */
  mutating?: boolean;
  scopes?: readonly string[];
  isReversible?: boolean;
  /** Returns the output. A SkillError with one of `PROVIDER_CODES` is passed on; any other error becomes `provider-failed`. */
  execute(input: ProviderSchemaValue<Input>, context: OperationContext): unknown;
}

/** Input schemas by capability and operation. */
type OperationInputs = Record<string, Record<string, ProviderSchema>>;

export interface ProviderDefinition<All extends OperationInputs = OperationInputs> {
  namespace: string;
  /** By the name after the namespace: `notes` for `notes.notes`. */
  capabilities: {
    [Name in keyof All]: {
      description: string;
      operations: { [Operation in keyof All[Name]]: OperationDefinition<All[Name][Operation]> };
    };
  };
  /** Defaults to ready. */
  health?(options: ProviderOptions): ProviderHealth | Promise<ProviderHealth>;
  auth?: ProviderAuth;
  /** The timeout of an answer, 1 to 300 seconds. Defaults to 30. */
  seconds?: number;
  /** The address of its system, if it can vary: a credential for one origin is never sent to another. */
  origin?: string;
}

/** Creates a provider in this program. Throws `provider-invalid` at once if the definition is invalid. */
export function defineProvider<All extends OperationInputs>(definition: ProviderDefinition<All>): CapabilityProvider {
  const { namespace, auth } = isJsonObject(definition) ? definition : ({} as Partial<ProviderDefinition>);
  const where = `defineProvider("${truncateLine(String(namespace), 64)}")`;
  if (typeof namespace !== "string" || !PROVIDER_NAMESPACE_PATTERN.test(namespace)) {
    throw new SkillError("provider-invalid", {
      message: `${where}: invalid namespace`,
      fix: "use up to 64 lowercase letters, digits, `-` and `_`, starting with a letter",
    });
  }
  const operations = parseOperations(namespace, (definition as ProviderDefinition).capabilities, where);
  const description = createProviderDescription(definition as ProviderDefinition, operations);
  const wrong = findShapeProblem(namespace, description);
  if (wrong) throw createDescriptionError(where, wrong);
  const seconds = clampProviderSeconds(definition.seconds);
  const withTimeout: TimeLimiter = (work, signal) =>
    withProviderTimeout(async (inner) => work(inner), { namespace, seconds, signal }).catch((error) => {
      throw toProviderError(error, namespace);
    });
  return {
    namespace,
    from: "in this program",
    ...omitUndefined({ origin: definition.origin }),
    seconds,
    async describe() {
      const wrong = await findDescriptionProblem(namespace, description);
      if (wrong)
        throw new SkillError("provider-answer-invalid", { message: `${where}: ${wrong.message}`, fix: wrong.fix });
      return normalizeProviderDescription(description);
    },
    invoke(call, options) {
      let renewed: Credential | undefined;
      const renew = (credential: Credential) => {
        renewed = credential;
      };
      return withTimeout(async (signal) => {
        const { definition: operation, schema } = requireOperation(operations, call);
        const input = await parseOperationInput(operation.input, schema, call.input);
        const output = await operation.execute(input as never, { ...createOperationContext(call), signal, renew });
        return { output: toJsonValue(output), ...(renewed ? { credential: renewed } : {}) };
      }, options.signal);
    },
    health: (options) =>
      withTimeout(
        async (signal) => (await definition.health?.({ ...options, signal })) ?? { isReady: true },
        options.signal,
      ),
    ...(auth ? { auth: limitAuthTime(auth, withTimeout) } : {}),
  };
}

type TimeLimiter = <T>(work: (signal: AbortSignal) => T | Promise<T>, signal: AbortSignal) => Promise<T>;

function limitAuthTime(auth: ProviderAuth, withTimeout: TimeLimiter): ProviderAuth {
  const poll = auth.poll?.bind(auth);
  return {
    begin: (request, options) => withTimeout((signal) => auth.begin(request, { ...options, signal }), options.signal),
    complete: (request, options) =>
      withTimeout((signal) => auth.complete(request, { ...options, signal }), options.signal),
    ...(poll
      ? { poll: (request, options) => withTimeout((signal) => poll(request, { ...options, signal }), options.signal) }
      : {}),
  };
}

/** Returns the output as plain JSON data, as if a program had printed it. */
function toJsonValue(output: unknown): unknown {
  return JSON.parse(JSON.stringify(output ?? null) ?? "null");
}

interface DefinedOperation {
  definition: OperationDefinition<ProviderSchema>;
  schema: JsonObject;
  described: OperationDescription;
}

/** By capability and name. */
type DefinedOperations = ReadonlyMap<string, ReadonlyMap<string, DefinedOperation>>;

function parseOperations(
  namespace: string,
  capabilities: ProviderDefinition["capabilities"],
  where: string,
): DefinedOperations {
  if (!isJsonObject(capabilities)) throw createMissingPartError(where, "`capabilities`");
  const entries = Object.entries(capabilities).map(([name, capability]) => {
    const id = `${namespace}.${name}`;
    const own = isJsonObject(capability) ? (capability as { operations?: unknown }).operations : undefined;
    if (!isJsonObject(own)) throw createMissingPartError(`${where}: ${truncateLine(id, 128)}`, "`operations`");
    const operations = Object.entries(own).map(([key, operation]) => {
      const path = `${where}: ${truncateLine(`${id} ${key}`, 200)}`;
      return [key, parseOperation(key, operation as OperationDefinition<ProviderSchema>, path)] as const;
    });
    return [id, new Map(operations)] as const;
  });
  return new Map(entries);
}

function parseOperation(name: string, definition: OperationDefinition<ProviderSchema>, path: string): DefinedOperation {
  if (!isJsonObject(definition)) throw createMissingPartError(path, "an operation object");
  const { description, input, output, mutating = false, scopes, isReversible, execute } = definition;
  if (typeof execute !== "function") throw createMissingPartError(path, "a function `execute`");
  const schema = toProviderJsonSchema(input, `${path}: its input`);
  const outputSchema = output === undefined ? undefined : toProviderJsonSchema(output, `${path}: its output`);
  const more = omitUndefined({ outputSchema, scopes, isReversible });
  return { definition, schema, described: { name, description, mutating, inputSchema: schema, ...more } };
}

function createProviderDescription(
  { capabilities, auth }: ProviderDefinition,
  operations: DefinedOperations,
): ProviderDescription {
  const descriptions = Object.values(capabilities).map(({ description }) => description);
  return {
    capabilities: [...operations].map(([id, own], index) => ({
      id,
      description: descriptions[index] ?? "",
      operations: Array.from(own.values(), ({ described }) => described),
    })),
    hasAuth: auth !== undefined,
  };
}

function requireOperation(operations: DefinedOperations, { capability, operation }: ProviderCall): DefinedOperation {
  const own = operations.get(capability);
  const known = own?.get(operation);
  if (known) return known;
  const [names, name] = own ? [[...own.keys()], operation] : [[...operations.keys()], capability];
  const nearest = findNearest(name, names);
  throw new SkillError("not-found", {
    message: own ? `${capability} has no such operation` : "Unknown capability",
    fix: nearest === undefined ? `available: ${names.join(", ")}` : `did you mean ${nearest}?`,
  });
}

function createOperationContext({ context, key, credential }: ProviderCall) {
  return { ...context, key, ...(credential ? { credential } : {}) };
}

function createDescriptionError(where: string, problem: Problem): SkillError {
  return new SkillError(problem.code, { ...problem, message: `${where}: ${problem.message}` });
}

function createMissingPartError(where: string, what: string): SkillError {
  return new SkillError("provider-invalid", {
    message: `${where} lacks ${what}`,
    fix: "use the form defineProvider({ namespace: 'notes', capabilities: { notes: { description: '…', operations: { list: { description: '…', input: z.object({ … }), execute: async (input) => … } } } } })",
  });
}

/** A zod schema, a schema of another Standard Schema library, or JSON Schema. */
type ProviderSchema = StandardSchema | JsonObject;

type ProviderSchemaValue<Schema> = Schema extends { "~standard": { types?: { output: infer Value } | undefined } }
  ? Value
  : JsonObject;

/** Converts to JSON Schema. Throws `provider-invalid`; `where` names the operation. */
function toProviderJsonSchema(source: ProviderSchema, where: string): JsonObject {
  const standard = getStandardSchema(source);
  if (!standard) {
    if (isJsonObject(source)) return source;
    throw new SkillError("provider-invalid", {
      message: `${where} is not a schema`,
      fix: "use a zod schema, z.object({ … }), or JSON Schema",
    });
  }
  if (!standard.jsonSchema) {
    throw new SkillError("provider-invalid", {
      message: `${where} (${truncateLine(String(standard.vendor), 40)}) has no JSON Schema conversion`,
      fix: "use zod 4.2 or newer, or JSON Schema",
    });
  }
  try {
    const { $schema: _, ...rest } = standard.jsonSchema.input({ target: "draft-2020-12" });
    return rest;
  } catch (error) {
    throw new SkillError("provider-invalid", {
      message: `${where} cannot be converted to JSON Schema: ${getErrorMessage(error)}`,
      fix: "remove types that JSON lacks: dates, maps, functions",
      cause: error,
    });
  }
}

/** Validates the input and returns it with defaults applied. Throws `input-invalid`. */
async function parseOperationInput(source: ProviderSchema, schema: JsonObject, input: unknown): Promise<unknown> {
  const value = structuredClone(input ?? {});
  // First the described JSON Schema, then the checks that only its own library knows.
  const problem = await findSchemaProblem(schema, value, "lenient");
  if (problem !== undefined) throw createInputError(problem);
  const standard = getStandardSchema(source);
  if (!standard) return value;
  const { value: parsed, issues } = await standard.validate(value);
  if (!issues) return parsed;
  throw createInputError(
    `Invalid input: ${issues
      .slice(0, 10)
      .map(({ message }) => truncateLine(message, 200))
      .join("; ")}`,
  );
}

function getStandardSchema(source: ProviderSchema): StandardSchema["~standard"] | undefined {
  return Object(source) === source ? (source as Partial<StandardSchema>)["~standard"] : undefined;
}

function createInputError(message: string): SkillError {
  return new SkillError("input-invalid", { message, fix: "run `skillet-sb capability list` to see its input schema" });
}

/** The streams of a program; pass `process`. */
export interface ProviderStreams {
  stdin: Readable;
  stdout: Writable;
  /** Receives what the provider itself prints, which would corrupt the answer. Discarded by default. */
  stderr?: Writable;
}

/** Serves a provider as a program: reads one request and writes one answer. Nothing else reaches stdout. Never throws. */
export async function serveProvider(
  provider: CapabilityProvider,
  { stdin, stdout, stderr }: ProviderStreams,
): Promise<void> {
  const write = stdout.write.bind(stdout);
  stdout.write = ((...args: Parameters<typeof stdout.write>) => {
    const onDone = args.findLast((part) => typeof part === "function") as ((error?: null) => void) | undefined;
    if (stderr) return stderr.write(...args);
    onDone?.();
    return true;
  }) as typeof stdout.write;
  const answer = await answerProviderRequest(provider, stdin);
  await new Promise<void>((resolve) => write(answer, () => resolve()));
}

async function answerProviderRequest(provider: CapabilityProvider, stdin: Readable): Promise<string> {
  let id = NO_REQUEST_ID;
  try {
    const request = parseProviderRequest(await readStream(stdin));
    id = request.id;
    return await performProviderRequest(provider, request);
  } catch (error) {
    const isOwn = error instanceof SkillError && error.code === UNSUPPORTED_CODE;
    return formatProviderError(id, isOwn ? error : toProviderError(error, provider.namespace));
  }
}

/** The id in the answer to an invalid request, which has none. */
const NO_REQUEST_ID = "none";

async function performProviderRequest(provider: CapabilityProvider, request: AnyProviderRequest): Promise<string> {
  const { method, namespace, context, deadlineMs } = request;
  if (namespace !== provider.namespace) {
    throw new SkillError("not-found", {
      message: `This provider serves ${provider.namespace}, not the requested namespace`,
      fix: `configure it under [capabilities.providers.${provider.namespace}]`,
    });
  }
  const options = { signal: AbortSignal.timeout(deadlineMs) };
  switch (method) {
    case "describe": {
      const { capabilities, hasAuth } = await provider.describe(options);
      const auth = hasAuth ? { auth: { kinds: ["link", "device", "paste"] as const } } : {};
      return formatProviderAnswer(request, { capabilities, ...auth });
    }
    case "invoke": {
      const { idempotencyKey: key, ...call } = request.params;
      const fullContext = { run: "", skill: "", source: "", ...context };
      return formatProviderAnswer(request, await provider.invoke({ ...call, key, context: fullContext }, options));
    }
    case "health":
      return formatProviderAnswer(request, await provider.health({ ...options, ...request.params }));
    case "auth.begin":
      return formatProviderAnswer(request, await requireAuth(provider).begin({ ...request.params, context }, options));
    case "auth.complete": {
      const credential = await requireAuth(provider).complete({ ...request.params, context }, options);
      return formatProviderAnswer(request, { credential });
    }
    case "auth.poll": {
      const credential = await requireAuth(provider).poll?.({ ...request.params, context }, options);
      return formatProviderAnswer(request, credential ? { credential } : {});
    }
  }
}

function requireAuth({ auth, namespace }: CapabilityProvider) {
  if (auth) return auth;
  throw new SkillError(UNSUPPORTED_CODE, { message: `The provider of ${namespace} has no sign-in` });
}

async function readStream(stdin: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  stdin.on("data", (chunk: Buffer | string) => {
    size += chunk.length;
    if (size <= MAX_PROVIDER_REQUEST_BYTES) chunks.push(Buffer.from(chunk));
  });
  await finished(stdin, { writable: false });
  if (size <= MAX_PROVIDER_REQUEST_BYTES) return Buffer.concat(chunks);
  throw new SkillError("input-invalid", {
    message: `The request is larger than ${MAX_PROVIDER_REQUEST_BYTES / 1024 / 1024} MiB`,
    fix: "send less at once",
  });
}
