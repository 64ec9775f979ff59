import type { Readable, Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
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
  type DescriptionProblem,
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

/** What an operation is done with, beside its input. All of it is stated by the host. */
export interface OperationContext extends ProviderContext {
  /** The same for the same call, also when it is made again: for what must not happen twice. */
  key: string;
  /** Who is signed in, where somebody is. */
  credential?: Credential;
  /** Puts this one in its place, where it had to be renewed. */
  renew(credential: Credential): void;
  /** Aborted when nobody waits any more. */
  signal: AbortSignal;
}

export interface OperationDefinition<Input extends ProviderSchema> {
  description: string;
  input: Input;
  output?: ProviderSchema;
  /** Whether it changes something: then somebody is asked each time. */
  mutating?: boolean;
  scopes?: readonly string[];
  isReversible?: boolean;
  /** What it gives is the output. A SkillError with one of `PROVIDER_CODES` is passed on; all else is `provider-failed`. */
  execute(input: ProviderSchemaValue<Input>, context: OperationContext): unknown;
}

/** Names of capabilities, and of their operations, to the schemas of what these take. */
type OperationInputs = Record<string, Record<string, ProviderSchema>>;

export interface ProviderDefinition<All extends OperationInputs = OperationInputs> {
  namespace: string;
  /** By what stands after the namespace: `notes` for `notes.notes`. */
  capabilities: {
    [Name in keyof All]: {
      description: string;
      operations: { [Operation in keyof All[Name]]: OperationDefinition<All[Name][Operation]> };
    };
  };
  /** Ready, when left out. */
  health?(options: ProviderOptions): ProviderHealth | Promise<ProviderHealth>;
  auth?: ProviderAuth;
  /** How long an answer may take: 1 to 300, and 30 when left out. */
  seconds?: number;
  /** Where the system behind it is, where that can be another one: what was signed in to one is not given to another. */
  origin?: string;
}

/** A provider in this program. Throws `provider-invalid` at once when it cannot be one. */
export function defineProvider<All extends OperationInputs>(definition: ProviderDefinition<All>): CapabilityProvider {
  const { namespace, auth } = isJsonObject(definition) ? definition : ({} as Partial<ProviderDefinition>);
  const where = `defineProvider("${truncateLine(String(namespace), 64)}")`;
  if (typeof namespace !== "string" || !PROVIDER_NAMESPACE_PATTERN.test(namespace)) {
    throw new SkillError("provider-invalid", {
      message: `${where}: its namespace is none`,
      fix: "use up to 64 small letters, digits, `-` and `_`, and begin with a letter",
    });
  }
  const operations = parseOperations(namespace, (definition as ProviderDefinition).capabilities, where);
  const description = createProviderDescription(definition as ProviderDefinition, operations);
  const wrong = findShapeProblem(namespace, description);
  if (wrong) throw createDescriptionError(where, wrong);
  const seconds = clampProviderSeconds(definition.seconds);
  const bounded: TimeLimiter = (work, signal) =>
    withProviderTimeout(async (inner) => work(inner), { namespace, seconds, signal }).catch((error) => {
      throw toProviderError(error, namespace);
    });
  return {
    namespace,
    from: "in this program",
    ...omitUndefined({ origin: definition.origin }),
    seconds,
    async describe() {
      const unfit = await findDescriptionProblem(namespace, description);
      if (unfit) throw new SkillError("provider-answer", { message: `${where}: ${unfit.problem}`, fix: unfit.fix });
      return normalizeProviderDescription(description);
    },
    invoke(call, options) {
      let renewed: Credential | undefined;
      const renew = (credential: Credential) => {
        renewed = credential;
      };
      return bounded(async (signal) => {
        const { definition: own, schema } = requireOperation(operations, call);
        const input = await parseOperationInput(own.input, schema, call.input);
        const output = await own.execute(input as never, { ...createOperationContext(call), signal, renew });
        return { output: toJsonValue(output), ...(renewed ? { credential: renewed } : {}) };
      }, options.signal);
    },
    health: (options) =>
      bounded(
        async (signal) => (await definition.health?.({ ...options, signal })) ?? { isReady: true },
        options.signal,
      ),
    ...(auth ? { auth: limitAuthTime(auth, bounded) } : {}),
  };
}

type TimeLimiter = <T>(work: (signal: AbortSignal) => T | Promise<T>, signal: AbortSignal) => Promise<T>;

function limitAuthTime(auth: ProviderAuth, bounded: TimeLimiter): ProviderAuth {
  const poll = auth.poll?.bind(auth);
  return {
    begin: (request, options) => bounded((signal) => auth.begin(request, { ...options, signal }), options.signal),
    complete: (request, options) => bounded((signal) => auth.complete(request, { ...options, signal }), options.signal),
    ...(poll
      ? { poll: (request, options) => bounded((signal) => poll(request, { ...options, signal }), options.signal) }
      : {}),
  };
}

/** What a program would have printed: what comes of a provider in this one is as much data as that, and nothing of its own. */
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
    const operations = Object.entries(own).map(([key, given]) => {
      const place = `${where}: ${truncateLine(`${id} ${key}`, 200)}`;
      return [key, parseOperation(key, given as OperationDefinition<ProviderSchema>, place)] as const;
    });
    return [id, new Map(operations)] as const;
  });
  return new Map(entries);
}

function parseOperation(
  name: string,
  definition: OperationDefinition<ProviderSchema>,
  place: string,
): DefinedOperation {
  if (!isJsonObject(definition)) throw createMissingPartError(place, "what an operation is");
  const { description, input, output, mutating = false, scopes, isReversible, execute } = definition;
  if (typeof execute !== "function") throw createMissingPartError(place, "a function `execute`");
  const schema = toProviderJsonSchema(input, `${place}: its input`);
  const outputSchema = output === undefined ? undefined : toProviderJsonSchema(output, `${place}: its output`);
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
  const [names, asked] = own ? [[...own.keys()], operation] : [[...operations.keys()], capability];
  const meant = findNearest(asked, names);
  throw new SkillError("not-found", {
    message: own ? `${capability} has no such operation` : "There is no such capability",
    fix: meant === undefined ? `there are: ${names.join(", ")}` : `did you mean ${meant}?`,
  });
}

function createOperationContext({ context, key, credential }: ProviderCall) {
  return { ...context, key, ...(credential ? { credential } : {}) };
}

function createDescriptionError(where: string, { problem, fix }: DescriptionProblem): SkillError {
  return new SkillError("provider-invalid", { message: `${where}: ${problem}`, fix });
}

function createMissingPartError(where: string, what: string): SkillError {
  return new SkillError("provider-invalid", {
    message: `${where} lacks ${what}`,
    fix: "as in defineProvider({ namespace: 'notes', capabilities: { notes: { description: '…', operations: { list: { description: '…', input: z.object({ … }), execute: async (input) => … } } } } })",
  });
}

/** A schema of zod, or of any other library of its kind, or JSON Schema. */
type ProviderSchema = StandardSchema | JsonObject;

type ProviderSchemaValue<Schema> = Schema extends { "~standard": { types?: { output: infer Value } | undefined } }
  ? Value
  : JsonObject;

/** As JSON Schema. Throws `provider-invalid`; `where` says whose it is. */
function toProviderJsonSchema(given: ProviderSchema, where: string): JsonObject {
  const standard = getStandardSchema(given);
  if (!standard) {
    if (isJsonObject(given)) return given;
    throw new SkillError("provider-invalid", {
      message: `${where} is no schema`,
      fix: "give one of zod, z.object({ … }), or JSON Schema",
    });
  }
  if (!standard.jsonSchema) {
    throw new SkillError("provider-invalid", {
      message: `${where} (${truncateLine(String(standard.vendor), 40)}) cannot say itself as JSON Schema`,
      fix: "use zod 4.2 or newer, or give JSON Schema",
    });
  }
  try {
    const { $schema: _, ...rest } = standard.jsonSchema.input({ target: "draft-2020-12" });
    return rest;
  } catch (error) {
    throw new SkillError("provider-invalid", {
      message: `${where} cannot be said as JSON Schema: ${getErrorMessage(error)}`,
      fix: "leave out what JSON has not: dates, maps, functions",
      cause: error,
    });
  }
}

/** The input as the operation is to get it, with defaults in it. Throws `input-invalid`. */
async function parseOperationInput(given: ProviderSchema, schema: JsonObject, input: unknown): Promise<unknown> {
  const value = structuredClone(input ?? {});
  // Of what was described, and then what only its own library knows.
  const problem = await findSchemaProblem(schema, value, "lenient");
  if (problem !== undefined) throw createInputError(problem);
  const standard = getStandardSchema(given);
  if (!standard) return value;
  const { value: read, issues } = await standard.validate(value);
  if (!issues) return read;
  throw createInputError(
    `Invalid input: ${issues
      .slice(0, 10)
      .map(({ message }) => truncateLine(message, 200))
      .join("; ")}`,
  );
}

function getStandardSchema(given: ProviderSchema): StandardSchema["~standard"] | undefined {
  return Object(given) === given ? (given as Partial<StandardSchema>)["~standard"] : undefined;
}

function createInputError(message: string): SkillError {
  return new SkillError("input-invalid", { message, fix: "`skillet-sb capability list` says what it takes" });
}

/** What a program has; `process` will do. */
export interface ProviderStreams {
  stdin: Readable;
  stdout: Writable;
  /** Where what the provider prints by itself goes, which would spoil the answer. Nowhere, when left out. */
  stderr?: Writable;
}

/** Makes a program of a provider: reads one request, writes one answer, and nothing else comes to stdout. Never throws. */
export async function serveProvider(
  provider: CapabilityProvider,
  { stdin, stdout, stderr }: ProviderStreams,
): Promise<void> {
  const write = stdout.write.bind(stdout);
  stdout.write = ((...given: Parameters<typeof stdout.write>) => {
    const isDone = given.findLast((part) => typeof part === "function") as ((error?: null) => void) | undefined;
    if (stderr) return stderr.write(...given);
    isDone?.();
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

/** For what is no request, and so has none. */
const NO_REQUEST_ID = "none";

async function performProviderRequest(provider: CapabilityProvider, request: AnyProviderRequest): Promise<string> {
  const { method, namespace, context, deadlineMs } = request;
  if (namespace !== provider.namespace) {
    throw new SkillError("not-found", {
      message: `This is the provider of ${provider.namespace}, and was asked for another namespace`,
      fix: `name it under [capabilities.providers.${provider.namespace}]`,
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
      const whose = { run: "", skill: "", source: "", ...context };
      return formatProviderAnswer(request, await provider.invoke({ ...call, key, context: whose }, options));
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
  throw new SkillError(UNSUPPORTED_CODE, { message: `Nobody signs in at the provider of ${namespace}` });
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
    fix: "ask for less at once",
  });
}
