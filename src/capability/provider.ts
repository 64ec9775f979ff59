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
} from "../host/capabilities.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { nearest, oneLine } from "../shared/text.ts";
import { type Data, isData } from "../skill/data.ts";
import { asProviderError, inTime, secondsOf } from "./provider-error.ts";
import { jsonSchemaOf, type ProviderSchema, readInput, type ValueOf } from "./provider-schema.ts";
import {
  boundedDescription,
  descriptionProblem,
  NAMESPACE,
  type ShapeProblem,
  shapeProblem,
} from "./provider-shape.ts";

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
  execute(input: ValueOf<Input>, context: OperationContext): unknown;
}

/** Names of capabilities, and of their operations, to the schemas of what these take. */
type Inputs = Record<string, Record<string, ProviderSchema>>;

export interface ProviderDefinition<All extends Inputs = Inputs> {
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
export function defineProvider<All extends Inputs>(definition: ProviderDefinition<All>): CapabilityProvider {
  const { namespace, auth } = isData(definition) ? definition : ({} as Partial<ProviderDefinition>);
  const where = `defineProvider("${oneLine(String(namespace), 64)}")`;
  if (typeof namespace !== "string" || !NAMESPACE.test(namespace)) {
    throw new SkillError("provider-invalid", {
      message: `${where}: its namespace is none`,
      fix: "use up to 64 small letters, digits, `-` and `_`, and begin with a letter",
    });
  }
  const operations = readOperations(namespace, (definition as ProviderDefinition).capabilities, where);
  const description = describe(definition as ProviderDefinition, operations);
  const wrong = shapeProblem(namespace, description);
  if (wrong) throw unusable(where, wrong);
  const seconds = secondsOf(definition.seconds);
  const bounded: Bounded = (work, signal) =>
    inTime(async (inner) => work(inner), { namespace, seconds, signal }).catch((error) => {
      throw asProviderError(error, namespace);
    });
  return {
    namespace,
    from: "in this program",
    ...defined({ origin: definition.origin }),
    seconds,
    async describe() {
      const unfit = await descriptionProblem(namespace, description);
      if (unfit) throw new SkillError("provider-answer", { message: `${where}: ${unfit.problem}`, fix: unfit.fix });
      return boundedDescription(description);
    },
    invoke(call, options) {
      let renewed: Credential | undefined;
      const renew = (credential: Credential) => {
        renewed = credential;
      };
      return bounded(async (signal) => {
        const { definition: own, schema } = found(operations, call);
        const input = await readInput(own.input, schema, call.input);
        const output = await own.execute(input as never, { ...contextOf(call), signal, renew });
        return { output: asJson(output), ...(renewed ? { credential: renewed } : {}) };
      }, options.signal);
    },
    health: (options) =>
      bounded(
        async (signal) => (await definition.health?.({ ...options, signal })) ?? { isReady: true },
        options.signal,
      ),
    ...(auth ? { auth: boundedAuth(auth, bounded) } : {}),
  };
}

type Bounded = <T>(work: (signal: AbortSignal) => T | Promise<T>, signal: AbortSignal) => Promise<T>;

function boundedAuth(auth: ProviderAuth, bounded: Bounded): ProviderAuth {
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
function asJson(output: unknown): unknown {
  return JSON.parse(JSON.stringify(output ?? null) ?? "null");
}

interface Operation {
  definition: OperationDefinition<ProviderSchema>;
  schema: Data;
  described: OperationDescription;
}

/** By capability and name. */
type Operations = ReadonlyMap<string, ReadonlyMap<string, Operation>>;

function readOperations(
  namespace: string,
  capabilities: ProviderDefinition["capabilities"],
  where: string,
): Operations {
  if (!isData(capabilities)) throw lacks(where, "`capabilities`");
  const entries = Object.entries(capabilities).map(([name, capability]) => {
    const id = `${namespace}.${name}`;
    const own = isData(capability) ? (capability as { operations?: unknown }).operations : undefined;
    if (!isData(own)) throw lacks(`${where}: ${oneLine(id, 128)}`, "`operations`");
    const operations = Object.entries(own).map(([key, given]) => {
      const place = `${where}: ${oneLine(`${id} ${key}`, 200)}`;
      return [key, readOperation(key, given as OperationDefinition<ProviderSchema>, place)] as const;
    });
    return [id, new Map(operations)] as const;
  });
  return new Map(entries);
}

function readOperation(name: string, definition: OperationDefinition<ProviderSchema>, place: string): Operation {
  if (!isData(definition)) throw lacks(place, "what an operation is");
  const { description, input, output, mutating = false, scopes, isReversible, execute } = definition;
  if (typeof execute !== "function") throw lacks(place, "a function `execute`");
  const schema = jsonSchemaOf(input, `${place}: its input`);
  const outputSchema = output === undefined ? undefined : jsonSchemaOf(output, `${place}: its output`);
  const more = defined({ outputSchema, scopes, isReversible });
  return { definition, schema, described: { name, description, mutating, inputSchema: schema, ...more } };
}

function describe({ capabilities, auth }: ProviderDefinition, operations: Operations): ProviderDescription {
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

function found(operations: Operations, { capability, operation }: ProviderCall): Operation {
  const own = operations.get(capability);
  const known = own?.get(operation);
  if (known) return known;
  const [names, asked] = own ? [[...own.keys()], operation] : [[...operations.keys()], capability];
  const meant = nearest(asked, names);
  throw new SkillError("not-found", {
    message: own ? `${capability} has no such operation` : "There is no such capability",
    fix: meant === undefined ? `there are: ${names.join(", ")}` : `did you mean ${meant}?`,
  });
}

function contextOf({ context, key, credential }: ProviderCall) {
  return { ...context, key, ...(credential ? { credential } : {}) };
}

function unusable(where: string, { problem, fix }: ShapeProblem): SkillError {
  return new SkillError("provider-invalid", { message: `${where}: ${problem}`, fix });
}

function lacks(where: string, what: string): SkillError {
  return new SkillError("provider-invalid", {
    message: `${where} lacks ${what}`,
    fix: "as in defineProvider({ namespace: 'notes', capabilities: { notes: { description: '…', operations: { list: { description: '…', input: z.object({ … }), execute: async (input) => … } } } } })",
  });
}
