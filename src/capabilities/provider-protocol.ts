import { formatFix, type Problem, SkillError } from "../errors/problem.ts";
import {
  type AuthCallback,
  type AuthChallenge,
  type AuthCompletion,
  type AuthRequest,
  type CapabilityDescription,
  type Credential,
  type OperationDescription,
  PROVIDER_ERROR_CODES,
  type ProviderAnswer,
  type ProviderCall,
  type ProviderContext,
  type ProviderHealth,
} from "../host/capability-contract.ts";
import { type JsonObject, omitUndefined } from "../util/objects.ts";
import {
  type WireSchema,
  WireSchemaError,
  wireAny,
  wireBoolean,
  wireData,
  wireEnum,
  wireLine,
  wireList,
  wireNumber,
  wireObject,
  wireOptional,
  wireText,
  wireTextMap,
} from "./broker-protocol.ts";
import { MAX_CAPABILITIES, MAX_OPERATIONS, MAX_PROVIDER_TEXT } from "./provider-contract.ts";

/**
 * The protocol between the host and a provider's program: one JSON object each way, the request as one line on stdin, the answer on
 * stdout, one process per request. Strict both ways: unknown keys are refused, so neither side believes that they had an effect.
 */
const PROTOCOL_VERSION = 1;

/** In bytes. */
export const MAX_PROVIDER_ANSWER_BYTES: number = 4 * 1024 * 1024;
export const MAX_PROVIDER_REQUEST_BYTES: number = 4 * 1024 * 1024;

interface ProviderRequest<Method extends ProviderMethod = ProviderMethod> {
  id: string;
  method: Method;
  namespace: string;
  params: ProviderMethodParams<Method>;
  context: Partial<ProviderContext>;
  /** The time the answer may take. */
  deadlineMs: number;
}

/** A request of any method, with its params. */
export type AnyProviderRequest = { [Method in ProviderMethod]: ProviderRequest<Method> }[ProviderMethod];

interface RequestHead {
  version: number;
  id: string;
  method: ProviderMethod;
  namespace: string;
  params: JsonObject;
  context: Partial<ProviderContext>;
  deadlineMs: number;
}

const EMPTY_SCHEMA: WireSchema<object> = wireObject<object>({});

const nameSchema = wireText(200);

const lineSchema = wireLine(MAX_PROVIDER_TEXT);

const scopesSchema = wireList(wireText(500), 100);
const SIGN_IN_KINDS = ["link", "device", "paste"] as const;

const DESCRIPTION_SCHEMA = wireObject<WireDescription>({
  capabilities: wireList(
    wireObject<CapabilityDescription>({
      id: nameSchema,
      description: lineSchema,
      operations: wireList(
        wireObject<OperationDescription>({
          name: nameSchema,
          description: lineSchema,
          mutating: wireBoolean,
          inputSchema: wireData,
          outputSchema: wireOptional(wireData),
          scopes: wireOptional(scopesSchema),
          isReversible: wireOptional(wireBoolean),
        }),
        MAX_OPERATIONS,
      ),
    }),
    MAX_CAPABILITIES,
  ),
  auth: wireOptional(
    wireObject<{ kinds: readonly AuthChallenge["kind"][] }>({
      kinds: wireList(wireEnum(...SIGN_IN_KINDS), SIGN_IN_KINDS.length),
    }),
  ),
});

const CREDENTIAL_SCHEMA: WireSchema<Credential> = wireObject<Credential>({
  account: nameSchema,
  secret: wireData,
  scopes: wireOptional(scopesSchema),
  expiresAt: wireOptional(wireText(64)),
});

const AUTH_BEGIN_FIELDS = { capability: wireOptional(nameSchema), scopes: wireOptional(scopesSchema) };

const longTextSchema = wireText(16 * 1024);

const AUTH_ANSWER_SCHEMA: WireSchema<AuthAnswerParams> = wireObject<AuthAnswerParams>({
  ...AUTH_BEGIN_FIELDS,
  state: wireOptional(wireData),
  callback: wireOptional(
    wireObject<AuthCallback>({
      text: longTextSchema,
      values: wireTextMap(16 * 1024, 100),
      code: wireOptional(longTextSchema),
      state: wireOptional(longTextSchema),
    }),
  ),
});

/** THE table of a program's methods, with their params and results. */
const PROVIDER_METHODS = {
  describe: { params: EMPTY_SCHEMA, result: DESCRIPTION_SCHEMA },
  invoke: {
    params: wireObject<InvokeParams>({
      capability: nameSchema,
      operation: nameSchema,
      input: wireAny,
      idempotencyKey: nameSchema,
      credential: wireOptional(CREDENTIAL_SCHEMA),
    }),
    result: wireObject<ProviderAnswer>({ output: wireAny, credential: wireOptional(CREDENTIAL_SCHEMA) }),
  },
  health: {
    params: wireObject<{ isSignedIn?: boolean }>({ isSignedIn: wireOptional(wireBoolean) }),
    result: wireObject<ProviderHealth>({
      isReady: wireBoolean,
      message: wireOptional(lineSchema),
      steps: wireOptional(wireList(lineSchema, 20)),
      accounts: wireOptional(wireList(wireLine(200), 100)),
    }),
  },
  "auth.begin": {
    params: wireObject<AuthBeginParams>(AUTH_BEGIN_FIELDS),
    result: wireObject<AuthChallenge>({
      kind: wireEnum(...SIGN_IN_KINDS),
      url: wireOptional(wireText(8192)),
      userCode: wireOptional(wireLine(100)),
      message: lineSchema,
      state: wireOptional(wireData),
      expiresInSeconds: wireOptional(wireNumber(1, 86_400)),
      intervalSeconds: wireOptional(wireNumber(0, 3600)),
    }),
  },
  "auth.complete": {
    params: AUTH_ANSWER_SCHEMA,
    result: wireObject<{ credential: Credential }>({ credential: CREDENTIAL_SCHEMA }),
  },
  /** The result is empty while the sign-in is pending. */
  "auth.poll": {
    params: AUTH_ANSWER_SCHEMA,
    result: wireObject<{ credential?: Credential }>({ credential: wireOptional(CREDENTIAL_SCHEMA) }),
  },
} as const;

const userSchema = wireText(1000, 0);

const CONTEXT_SCHEMA: WireSchema<Partial<ProviderContext>> = wireObject<Partial<ProviderContext>>({
  run: wireOptional(nameSchema),
  skill: wireOptional(nameSchema),
  source: wireOptional(wireText(4096, 0)), // Most sources are paths.
  user: wireOptional(userSchema),
  chat: wireOptional(
    wireObject<NonNullable<ProviderContext["chat"]>>({ id: wireOptional(userSchema), type: wireOptional(userSchema) }),
  ),
});

const REQUEST_SCHEMA = wireObject<RequestHead>({
  version: wireNumber(PROTOCOL_VERSION, PROTOCOL_VERSION),
  id: wireText(64),
  method: wireEnum(...(Object.keys(PROVIDER_METHODS) as ProviderMethod[])),
  namespace: wireText(64),
  params: wireData,
  context: CONTEXT_SCHEMA,
  deadlineMs: wireNumber(1, 300_000),
});

/** Formats the line that a program reads. */
export function formatProviderRequest<Method extends ProviderMethod>(request: ProviderRequest<Method>): string {
  const { params } = PROVIDER_METHODS[request.method] as { params: WireSchema<unknown> };
  const head = { version: PROTOCOL_VERSION, ...request, params: params.write(request.params) as JsonObject };
  return `${JSON.stringify(REQUEST_SCHEMA.write(head))}\n`;
}

/** Parses a request. Throws `input-invalid` if it is not one. */
export function parseProviderRequest(bytes: Uint8Array): AnyProviderRequest {
  try {
    const { version: _, ...head } = REQUEST_SCHEMA.read(parseWireJson(bytes, "request"), "request");
    return {
      ...head,
      params: PROVIDER_METHODS[head.method].params.read(head.params, "request.params"),
    } as AnyProviderRequest;
  } catch (error) {
    if (!(error instanceof WireSchemaError)) throw error;
    throw new SkillError("input-invalid", {
      message: `Invalid request: ${error.message}`,
      fix: "see docs/providers.md for an example of each request",
    });
  }
}

/** The error in a program's answer. */
type AnswerError = Pick<Problem<string>, "code" | "message"> & { fix?: string; retryAfterSeconds?: number };

const PROBLEM_SCHEMA = wireObject<AnswerError>({
  code: wireText(64),
  message: wireLine(MAX_PROVIDER_TEXT),
  fix: wireOptional(wireLine(MAX_PROVIDER_TEXT)),
  retryAfterSeconds: wireOptional(wireNumber(0, Number.MAX_SAFE_INTEGER)),
});

interface WireAnswer {
  version: number;
  id: string;
  ok: boolean;
  result?: unknown;
  error?: unknown;
}

const ANSWER_SCHEMA = wireObject<WireAnswer>({
  version: wireNumber(PROTOCOL_VERSION, PROTOCOL_VERSION),
  id: wireText(64),
  ok: wireBoolean,
  result: wireOptional(wireAny),
  error: wireOptional(wireAny),
});

export function formatProviderAnswer<Method extends ProviderMethod>(
  { id, method }: { id: string; method: Method },
  result: ProviderMethodResult<Method>,
): string {
  const part = PROVIDER_METHODS[method].result as unknown as WireSchema<unknown>;
  return `${JSON.stringify({ version: PROTOCOL_VERSION, id, ok: true, result: part.write(result) })}\n`;
}

export function formatProviderError(id: string, problem: SkillError): string {
  const { code, message } = problem;
  const error = PROBLEM_SCHEMA.write(
    omitUndefined({ code, message, fix: formatFix(problem) || undefined }) as AnswerError,
  );
  return `${JSON.stringify({ version: PROTOCOL_VERSION, id, ok: false, error })}\n`;
}

/** A program's error code for a sign-in that it does not support. */
export const UNSUPPORTED_CODE = "unsupported";

/**
 * Parses a program's answer to a request. Throws the error that the program reports, with one of the provider codes, and `provider-answer-invalid`
 * if the answer is invalid. Contract: the message quotes nothing of an invalid answer.
 */
export function parseProviderAnswer<Method extends ProviderMethod>(
  bytes: Uint8Array,
  { id, method, namespace }: Pick<ProviderRequest<Method>, "id" | "method" | "namespace">,
): ProviderMethodResult<Method> {
  try {
    if (bytes.length > MAX_PROVIDER_ANSWER_BYTES) throw new WireSchemaError("answer", ANSWER_TOO_LARGE);
    const answer = ANSWER_SCHEMA.read(parseWireJson(bytes, "answer"), "answer");
    if (answer.id !== id) throw new WireSchemaError("answer.id", "does not match the request");
    const [expected, unexpected] = answer.ok ? (["result", "error"] as const) : (["error", "result"] as const);
    if (!(expected in answer)) throw new WireSchemaError(`answer.${expected}`, "is missing");
    if (unexpected in answer)
      throw new WireSchemaError(`answer.${unexpected}`, `is present although \`ok\` is ${answer.ok}`);
    if (!answer.ok) throw createProviderRefusal(PROBLEM_SCHEMA.read(answer.error, "answer.error"), method, namespace);
    return PROVIDER_METHODS[method].result.read(answer.result, "answer.result") as ProviderMethodResult<Method>;
  } catch (error) {
    throw error instanceof WireSchemaError ? createAnswerError(namespace, method, error.message) : error;
  }
}

/** Also used for a program that was stopped because of it. */
export const ANSWER_TOO_LARGE: string = `is larger than ${MAX_PROVIDER_ANSWER_BYTES / 1024 / 1024} MiB`;

export function createAnswerError(namespace: string, method: ProviderMethod, what: string): SkillError {
  return new SkillError("provider-answer-invalid", {
    message: `Invalid answer of the provider of ${namespace} to ${method}: ${what}`,
    fix: "it must print one JSON object to stdout (see docs/providers.md), and everything else to stderr",
  });
}

function createProviderRefusal(
  { code, message, fix, retryAfterSeconds }: AnswerError,
  method: string,
  namespace: string,
): SkillError {
  if (code === UNSUPPORTED_CODE && method.startsWith("auth.")) {
    return new SkillError("denied", {
      message: `The provider of ${namespace} has no sign-in`,
      fix: "use it without signing in; to see if it is ready",
      commands: ["skillet capability list"],
    });
  }
  const later = retryAfterSeconds === undefined ? undefined : `try again in ${Math.ceil(retryAfterSeconds)} seconds`;
  const fixes = [fix, later].filter((text) => text !== undefined && text !== "");
  return new SkillError(PROVIDER_ERROR_CODES.find((known) => known === code) ?? "provider-failed", {
    message: message || `The provider of ${namespace} refused without a reason`,
    ...(fixes.length === 0 ? {} : { fix: fixes.join("; ") }),
  });
}

function parseWireJson(bytes: Uint8Array, path: string): unknown {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new WireSchemaError(path, "is not UTF-8");
  }
  if (text.trim() === "") throw new WireSchemaError(path, "is empty");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const isMore = /after JSON/.test((error as Error).message);
    throw new WireSchemaError(path, isMore ? "has text after its first JSON value" : "is not JSON");
  }
  if (isNestedTooDeep(value)) throw new WireSchemaError(path, `is nested more than ${MAX_NESTING} levels deep`);
  return value;
}

/** Deeper values would overflow the stack of recursive code. */
export const MAX_NESTING = 100;

export function isNestedTooDeep(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_NESTING) return true;
    level = level.flatMap((item) => (Object(item) === item ? Object.values(item as object) : []));
  }
  return false;
}

/** A program's description of itself. `findDescriptionProblem` validates it later. */
interface WireDescription {
  capabilities: readonly CapabilityDescription[];
  /** The kinds of sign-in, if there is one. */
  auth?: { kinds: readonly AuthChallenge["kind"][] };
}

type InvokeParams = Pick<ProviderCall, "capability" | "operation" | "input" | "credential"> & {
  idempotencyKey: string;
};
type AuthBeginParams = Omit<AuthRequest, "context">;
type AuthAnswerParams = Omit<AuthCompletion, "context">;

export type ProviderMethod = keyof typeof PROVIDER_METHODS;
type WireValue<P> = P extends WireSchema<infer Value> ? Value : never;
export type ProviderMethodParams<Method extends ProviderMethod> = WireValue<
  (typeof PROVIDER_METHODS)[Method]["params"]
>;
export type ProviderMethodResult<Method extends ProviderMethod> = WireValue<
  (typeof PROVIDER_METHODS)[Method]["result"]
>;
