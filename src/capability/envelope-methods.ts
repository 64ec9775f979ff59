import type {
  AuthAnswer,
  AuthBegun,
  AuthCallback,
  AuthRequest,
  CapabilityDescription,
  Credential,
  OperationDescription,
  ProviderAnswer,
  ProviderCall,
  ProviderContext,
  ProviderHealth,
} from "../host/capabilities.ts";
import {
  anything,
  data,
  flag,
  line,
  list,
  number,
  object,
  one,
  optional,
  type Part,
  text,
  texts,
} from "./envelope-parts.ts";

/** How much of a text for people is kept. */
export const LONGEST_LINE = 500;
export const MOST_CAPABILITIES = 64;
export const MOST_OPERATIONS = 100;

const name = text(200);
const anyone = text(1000, 0);
const said = line(LONGEST_LINE);
const long = text(16 * 1024);
const scopes = list(text(500), 100);
const KINDS = ["link", "device", "paste"] as const;

const CREDENTIAL: Part<Credential> = object<Credential>({
  account: name,
  secret: data,
  scopes: optional(scopes),
  expiresAt: optional(text(64)),
});

export const CONTEXT: Part<Partial<ProviderContext>> = object<Partial<ProviderContext>>({
  run: optional(name),
  skill: optional(name),
  source: optional(text(4096, 0)), // Most are called by their path.
  user: optional(anyone),
  chat: optional(object<NonNullable<ProviderContext["chat"]>>({ id: optional(anyone), type: optional(anyone) })),
});

/** What a program says of itself. Whether it may is judged later, by the rule for all providers. */
export interface WireDescription {
  capabilities: readonly CapabilityDescription[];
  /** How somebody signs in, where somebody has to. */
  auth?: { kinds: readonly AuthBegun["kind"][] };
}

const DESCRIPTION = object<WireDescription>({
  capabilities: list(
    object<CapabilityDescription>({
      id: name,
      description: said,
      operations: list(
        object<OperationDescription>({
          name,
          description: said,
          mutating: flag,
          inputSchema: data,
          outputSchema: optional(data),
          scopes: optional(scopes),
          isReversible: optional(flag),
        }),
        MOST_OPERATIONS,
      ),
    }),
    MOST_CAPABILITIES,
  ),
  auth: optional(object<{ kinds: readonly AuthBegun["kind"][] }>({ kinds: list(one(...KINDS), KINDS.length) })),
});

type Invoked = Pick<ProviderCall, "capability" | "operation" | "input" | "credential"> & { idempotencyKey: string };
type Asked = Omit<AuthRequest, "context">;
type Answered = Omit<AuthAnswer, "context">;

const ASKED = { capability: optional(name), scopes: optional(scopes) };
const ANSWERED: Part<Answered> = object<Answered>({
  ...ASKED,
  state: optional(data),
  callback: optional(
    object<AuthCallback>({
      text: long,
      values: texts(16 * 1024, 100),
      code: optional(long),
      state: optional(long),
    }),
  ),
});

const NOTHING: Part<object> = object<object>({});

/** THE table of what can be asked of a program, with what, and what it answers. */
export const METHODS = {
  describe: { params: NOTHING, result: DESCRIPTION },
  invoke: {
    params: object<Invoked>({
      capability: name,
      operation: name,
      input: anything,
      idempotencyKey: name,
      credential: optional(CREDENTIAL),
    }),
    result: object<ProviderAnswer>({ output: anything, credential: optional(CREDENTIAL) }),
  },
  health: {
    params: object<{ isSignedIn?: boolean }>({ isSignedIn: optional(flag) }),
    result: object<ProviderHealth>({
      isReady: flag,
      message: optional(said),
      steps: optional(list(said, 20)),
      accounts: optional(list(line(200), 100)),
    }),
  },
  "auth.begin": {
    params: object<Asked>(ASKED),
    result: object<AuthBegun>({
      kind: one(...KINDS),
      url: optional(text(8192)),
      userCode: optional(line(100)),
      message: said,
      state: optional(data),
      expiresInSeconds: optional(number(1, 86_400)),
      intervalSeconds: optional(number(0, 3600)),
    }),
  },
  "auth.complete": { params: ANSWERED, result: object<{ credential: Credential }>({ credential: CREDENTIAL }) },
  /** Nothing in the result while it has not ended. */
  "auth.poll": {
    params: ANSWERED,
    result: object<{ credential?: Credential }>({ credential: optional(CREDENTIAL) }),
  },
} as const;

export type ProviderMethod = keyof typeof METHODS;
type Valued<P> = P extends Part<infer Value> ? Value : never;
export type Params<Method extends ProviderMethod> = Valued<(typeof METHODS)[Method]["params"]>;
export type Result<Method extends ProviderMethod> = Valued<(typeof METHODS)[Method]["result"]>;
