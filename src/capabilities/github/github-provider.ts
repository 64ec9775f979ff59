import { SkillError } from "../../errors/problem.ts";
import type {
  AuthChallenge,
  AuthCompletion,
  AuthRequest,
  CapabilityDescription,
  CapabilityProvider,
  Credential,
  ProviderAuth,
  ProviderHealth,
} from "../../host/capability-contract.ts";
import { findSchemaProblem } from "../../host/json-schema.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { clampProviderSeconds } from "../provider-contract.ts";
import {
  createGithubApi,
  formatGithubBase,
  GITHUB_API_URL,
  GITHUB_SIGN_IN_COMMAND,
  type GithubBase,
  getGithubOrigin,
  parseGithubBase,
  sendGithubRequest,
} from "./github-api.ts";
import { createUndocumentedError } from "./github-fields.ts";
import type { GithubInput, GithubOperation } from "./github-inputs.ts";
import { ISSUE_OPERATIONS, PULL_OPERATIONS, REPO_OPERATIONS } from "./github-operations.ts";

export interface GithubProviderOptions {
  /** Of the REST API: `https://HOST/api/v3` for a server of one's own. */
  baseUrl?: string;
  seconds?: number;
  /** Of an app that has device flow turned on: then nobody has to paste a token. */
  clientId?: string;
}

/**
 * Issues, pull requests and files of GitHub, with a token that the vault has. GitHub knows no idempotency keys, so the key of a call
 * goes nowhere: that something happens once is kept by the host, and a change whose answer was lost is said to be unknown.
 */
export function createGithubProvider({
  baseUrl = GITHUB_API_URL,
  seconds,
  clientId,
}: GithubProviderOptions = {}): CapabilityProvider {
  const base = () => parseGithubBase(baseUrl);
  return {
    namespace: "github",
    from: `the REST API at ${formatGithubBase(baseUrl)}`,
    origin: getGithubOrigin({ baseUrl, ...omitUndefined({ clientId }) }),
    seconds: clampProviderSeconds(seconds),
    describe: async () => ({ capabilities: CAPABILITY_DESCRIPTIONS, hasAuth: true }),
    async invoke({ capability, operation: name, input: given, credential }, { signal }) {
      const operation = getGithubOperation(capability, name);
      const input = structuredClone(given ?? {});
      const problem = await findSchemaProblem(operation.input, input);
      if (problem !== undefined) throw new SkillError("input-invalid", { message: problem });
      const { api } = base();
      const token = credential?.secret["token"];
      if (typeof token !== "string") {
        throw new SkillError("auth-needed", { message: NOT_SIGNED_IN, fix: GITHUB_SIGN_IN_COMMAND });
      }
      return { output: await operation.run(createGithubApi({ base: api, token, signal }), input as GithubInput) };
    },
    async health({ isSignedIn }): Promise<ProviderHealth> {
      try {
        const make = `make a token at ${formatTokenPageUrl(base())} (${TOKEN_PERMISSIONS})`;
        if (isSignedIn) return { isReady: true };
        const steps =
          clientId === undefined
            ? [make, `${GITHUB_SIGN_IN_COMMAND}, and paste it`]
            : [`${GITHUB_SIGN_IN_COMMAND}, and do what it says`];
        return isSignedIn === false ? { isReady: false, message: NOT_SIGNED_IN, steps } : { isReady: true, steps };
      } catch (error) {
        if (!(error instanceof SkillError)) throw error;
        return { isReady: false, message: error.message, ...(error.fix ? { steps: [error.fix] } : {}) };
      }
    },
    auth: clientId === undefined ? createPasteSignIn(base) : createDeviceSignIn(base, clientId),
  };
}

const NOT_SIGNED_IN = "Nobody is signed in to GitHub";

const GITHUB_CAPABILITIES: Readonly<
  Record<string, { description: string; operations: Readonly<Record<string, GithubOperation>> }>
> = {
  "github.issues": {
    description: "Issues of GitHub: reads, searches, opens, changes and comments on them.",
    operations: ISSUE_OPERATIONS,
  },
  "github.pulls": {
    description:
      "Pull requests of GitHub: reads them with files, reviews and checks; comments, reviews, opens and merges.",
    operations: PULL_OPERATIONS,
  },
  "github.repos": {
    description: "Repositories of GitHub: which there are, and the text files in them.",
    operations: REPO_OPERATIONS,
  },
};

const CAPABILITY_DESCRIPTIONS: readonly CapabilityDescription[] = Object.entries(GITHUB_CAPABILITIES).map(
  ([id, { description, operations }]) => ({
    id,
    description,
    operations: Object.entries(operations).map(([name, operation]) => ({
      name,
      description: operation.description,
      mutating: operation.mutating ?? false,
      inputSchema: operation.input,
      outputSchema: operation.output,
      ...(operation.isReversible === undefined ? {} : { isReversible: operation.isReversible }),
    })),
  }),
);

function getGithubOperation(capability: string, name: string): GithubOperation {
  const operations = Object.hasOwn(GITHUB_CAPABILITIES, capability)
    ? GITHUB_CAPABILITIES[capability]?.operations
    : undefined;
  const operation = operations && Object.hasOwn(operations, name) ? operations[name] : undefined;
  if (operation) return operation;
  const known = operations ? Object.keys(operations) : Object.keys(GITHUB_CAPABILITIES);
  throw new SkillError("input-invalid", {
    message: `GitHub has no ${sanitizeLine(capability, 64)} ${sanitizeLine(name, 64)}`,
    fix: `there are: ${known.join(", ")}`,
  });
}

/** With a token that the user makes and brings. */
function createPasteSignIn(base: () => GithubBase): ProviderAuth {
  return {
    async begin(): Promise<AuthChallenge> {
      const url = formatTokenPageUrl(base());
      return {
        kind: "paste",
        url,
        message: `Make a fine-grained token at ${url} for the repositories that may be used (${TOKEN_PERMISSIONS}), and paste it.`,
        expiresInSeconds: 3600,
      };
    },
    async complete({ callback }, { signal }) {
      const token = callback?.text.trim() ?? "";
      if (!/^[\x21-\x7e]{10,1024}$/.test(token)) {
        throw new SkillError("input-invalid", {
          message: "What was pasted is no token of GitHub",
          fix: "paste the token alone: it begins with github_pat_ or ghp_",
        });
      }
      return fetchCredential(base(), token, signal);
    },
  };
}

/** With a code that the user types in on GitHub's own page. */
function createDeviceSignIn(base: () => GithubBase, clientId: string): ProviderAuth {
  // GitHub wants to be asked less often, and the contract has no word for it: until then nobody is asked.
  const quietUntil = new Map<string, number>();

  async function poll({ state }: AuthCompletion, { signal }: { signal: AbortSignal }): Promise<Credential | undefined> {
    const code = state?.["device_code"];
    if (typeof code !== "string") throw createExpiredError("There is no sign-in under way");
    if ((quietUntil.get(code) ?? 0) > Date.now()) return undefined;
    const answer = await postForm(base().web, "/login/oauth/access_token", signal, {
      client_id: clientId,
      device_code: code,
      grant_type: "urn:ietf:params:oauth:grant-type:device_code",
    });
    const { error, access_token: token, interval } = answer;
    if (error === "authorization_pending") return undefined;
    if (error === "slow_down") {
      quietUntil.set(code, Date.now() + (typeof interval === "number" ? interval : SLOW_DOWN_SECONDS) * 1000);
      return undefined;
    }
    quietUntil.delete(code);
    if (error !== undefined) throw (DEVICE_FLOW_ERRORS[String(error)] ?? createDeviceFlowError)(answer);
    if (typeof token !== "string") throw createUndocumentedError();
    return fetchCredential(base(), token, signal, parseSeconds(answer["expires_in"]));
  }

  return {
    poll,
    async begin({ scopes }: AuthRequest, { signal }): Promise<AuthChallenge> {
      const { web } = base();
      const scope = (scopes?.length ? scopes : ["repo"]).join(" ");
      const answer = await postForm(web, "/login/device/code", signal, { client_id: clientId, scope });
      if (answer["error"] !== undefined) throw createDeviceFlowError(answer);
      const { device_code, user_code, verification_uri } = answer;
      if (![device_code, user_code, verification_uri].every((value) => typeof value === "string")) {
        throw createUndocumentedError();
      }
      // The user is sent there to type a code in: it must be GitHub's own page.
      const url = URL.parse(String(verification_uri));
      if (url?.origin !== new URL(web).origin) throw createUndocumentedError();
      return {
        kind: "device",
        url: url.href,
        userCode: String(user_code),
        message: `Open ${url.href} and type in ${sanitizeLine(String(user_code), 40)}. Only do so if you asked for this yourself.`,
        state: { device_code },
        expiresInSeconds: parseSeconds(answer["expires_in"]) ?? 900,
        intervalSeconds: parseSeconds(answer["interval"]) ?? SLOW_DOWN_SECONDS,
      };
    },
    async complete(request, options) {
      const credential = await poll(request, options);
      if (credential) return credential;
      throw new SkillError("auth-needed", {
        message: "The code was not typed in on GitHub yet",
        fix: "open the address, type the code in, and try again",
      });
    },
  };
}

const TOKEN_PERMISSIONS = "Issues and Pull requests: read and write; Contents: read, or write where it is to merge";

/** The page with what is needed filled in; which repositories, only the user can say. */
function formatTokenPageUrl({ web }: GithubBase): string {
  return `${web}/settings/personal-access-tokens/new?name=skillet&issues=write&pull_requests=write&contents=read`;
}

const SLOW_DOWN_SECONDS = 5;

const DEVICE_FLOW_ERRORS: Readonly<Record<string, (answer: JsonObject) => SkillError>> = {
  expired_token: () => createExpiredError("The code has expired"),
  token_expired: () => createExpiredError("The code has expired"),
  incorrect_device_code: () => createExpiredError("GitHub does not know this sign-in"),
  access_denied: () =>
    new SkillError("denied", { message: "It was cancelled on GitHub", fix: `begin again: ${GITHUB_SIGN_IN_COMMAND}` }),
};

function createExpiredError(message: string): SkillError {
  return new SkillError("auth-needed", { message, fix: `begin again: ${GITHUB_SIGN_IN_COMMAND}` });
}

function createDeviceFlowError({ error, error_description: description }: JsonObject): SkillError {
  const why = typeof description === "string" ? description : String(error);
  return new SkillError("provider-failed", {
    message: `GitHub does not sign in this way: ${sanitizeLine(why, 200)}`,
    fix: "look at client_id, and whether device flow is turned on for that app",
  });
}

/** Whose token it is, as GitHub says it. */
async function fetchCredential(
  { api }: GithubBase,
  token: string,
  signal: AbortSignal,
  seconds?: number,
): Promise<Credential> {
  const { body, headers } = await createGithubApi({ base: api, token, signal }).get("/user");
  if (!isJsonObject(body) || typeof body["login"] !== "string") throw createUndocumentedError();
  const scopes = (headers.get("x-oauth-scopes") ?? "").split(",").flatMap((scope) => scope.trim() || []);
  const expiresAt =
    seconds === undefined
      ? parseExpiry(headers.get("github-authentication-token-expiration"))
      : new Date(Date.now() + seconds * 1000).toISOString();
  return {
    account: sanitizeLine(body["login"], 100),
    secret: { token },
    // A fine-grained token has permissions, of which GitHub does not tell.
    ...(scopes.length > 0 ? { scopes } : {}),
    ...(expiresAt ? { expiresAt } : {}),
  };
}

/** `2026-12-31 12:00:00 UTC`, or with an offset. */
function parseExpiry(written: string | null): string | undefined {
  const time = new Date(written ?? "");
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString();
}

function parseSeconds(value: unknown): number | undefined {
  return typeof value === "number" && value > 0 && value < 1e9 ? Math.ceil(value) : undefined;
}

async function postForm(
  web: string,
  path: string,
  signal: AbortSignal,
  values: Record<string, string>,
): Promise<JsonObject> {
  const { text } = await sendGithubRequest(new URL(`${web}${path}`), {
    method: "POST",
    signal,
    headers: { accept: "application/json", "user-agent": "skillet" },
    body: new URLSearchParams(values),
  });
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    throw createUndocumentedError();
  }
  if (!isJsonObject(answer)) throw createUndocumentedError();
  return answer;
}
