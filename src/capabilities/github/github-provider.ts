import { isUtf8 } from "node:buffer";
import { formatFix, SkillError } from "../../errors/problem.ts";
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
import { GITHUB_API_URL, getGithubOrigin } from "../credential-filter.ts";
import { clampProviderSeconds } from "../provider-contract.ts";
import {
  createGithubApi,
  encodeNestedPath,
  encodePath,
  formatGithubBase,
  GITHUB_SIGN_IN_COMMAND,
  type GithubBase,
  parseGithubBase,
  sendGithubRequest,
} from "./github-api.ts";
import {
  BRANCH_SCHEMA,
  createEnumSchema,
  createGithubInputSchema,
  createListSchema,
  createUndocumentedError,
  DIRECTION_SCHEMA,
  FOLDER_ENTRY_SHAPE,
  GITHUB_REPOSITORY_SHAPE,
  type GithubInput,
  type GithubOperation,
  getAtPath,
  PAGED_INPUT,
  pickQuery,
  REPO_INPUT,
} from "./github-fields.ts";
import { ISSUE_OPERATIONS, listGithubItems, PULL_OPERATIONS } from "./github-operations.ts";

const MAX_GITHUB_FILE_BYTES = 256 * 1024;
const MAX_FOLDER_ENTRIES = 1000;

const REPO_OPERATIONS: Readonly<Record<string, GithubOperation>> = {
  get: {
    description: "Reads a repository: its description, default branch, license and statistics.",
    input: createGithubInputSchema(REPO_INPUT),
    output: GITHUB_REPOSITORY_SHAPE.schema,
    run: async (api, { owner, repo }) =>
      GITHUB_REPOSITORY_SHAPE.read((await api.get(encodePath`/repos/${owner}/${repo}`)).body),
  },
  list: {
    description: "Lists the repositories that the signed-in user can access, last pushed first.",
    input: createGithubInputSchema({
      "visibility?": createEnumSchema("all", ["all", "public", "private"]),
      "sort?": createEnumSchema("pushed", ["created", "updated", "pushed", "full_name"]),
      "direction?": DIRECTION_SCHEMA,
      ...PAGED_INPUT,
    }),
    output: createListSchema(GITHUB_REPOSITORY_SHAPE),
    run: (api, input) =>
      listGithubItems(api, "/user/repos", input, GITHUB_REPOSITORY_SHAPE, {
        query: pickQuery(input, ["visibility", "sort", "direction"]),
      }),
  },
  read_file: {
    description: "Reads a text file of a repository (256 KiB at most), or lists a folder.",
    input: createGithubInputSchema({
      ...REPO_INPUT,
      "path?": {
        type: "string",
        maxLength: 1024,
        default: "",
        description: "relative to the repository root, such as docs/guide.md; defaults to the root",
      },
      "ref?": { ...BRANCH_SCHEMA, description: "a branch, tag or commit; defaults to the default branch" },
    }),
    output: {
      type: "object",
      properties: {
        path: { type: "string" },
        type: { enum: ["file", "folder"] },
        size: { type: "integer" },
        sha: { type: "string" },
        text: { type: "string" },
        entries: { type: "array", items: FOLDER_ENTRY_SHAPE.schema },
        is_cut: { const: true },
        url: { type: "string" },
      },
      required: ["path", "type"],
      additionalProperties: false,
    },
    run: async (api, input) => {
      const within = input.path.replace(/^\/+|\/+$/g, "");
      const below = within === "" ? "" : `/${encodeNestedPath(within)}`;
      const address = `${encodePath`/repos/${input.owner}/${input.repo}/contents`}${below}`;
      const { body } = await api.get(address, { ref: input.ref });
      return Array.isArray(body) ? formatFolder(within, body) : formatFile(within, body);
    },
  },
};

function formatFolder(within: string, entries: readonly unknown[]): JsonObject {
  const cut = entries.length > MAX_FOLDER_ENTRIES ? { is_cut: true } : {};
  return {
    path: within,
    type: "folder",
    entries: entries.slice(0, MAX_FOLDER_ENTRIES).map(FOLDER_ENTRY_SHAPE.read),
    ...cut,
  };
}

function formatFile(within: string, file: unknown): JsonObject {
  const [type, encoding, content] = ["type", "encoding", "content"].map((name) => getAtPath(file, name));
  const name = `"${sanitizeLine(within, 200)}"`;
  if (typeof type !== "string") throw createUndocumentedError();
  if (type !== "file")
    throw createUnreadableFileError(`${name} is a ${sanitizeLine(type, 20)}, not a file`, "read its target");
  if (encoding === "none")
    throw createUnreadableFileError(`${name} is too large for the contents API`, "clone the repository");
  if (encoding !== "base64" || typeof content !== "string") throw createUndocumentedError();
  const bytes = Buffer.from(content, "base64");
  if (!isUtf8(bytes) || bytes.includes(0))
    throw createUnreadableFileError(`${name} is not a text file`, "clone the repository");
  const cut = bytes.length > MAX_GITHUB_FILE_BYTES ? { is_cut: true } : {};
  const [sha, url] = [getAtPath(file, "sha"), getAtPath(file, "html_url")];
  return {
    path: within,
    type: "file",
    size: bytes.length,
    ...(typeof sha === "string" ? { sha } : {}),
    text: decodeWholeCharacters(bytes.subarray(0, MAX_GITHUB_FILE_BYTES)),
    ...cut,
    ...(typeof url === "string" ? { url } : {}),
  };
}

/** Drops a truncated character at the end: a streaming decoder holds it back. */
function decodeWholeCharacters(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream: true });
}

function createUnreadableFileError(message: string, fix: string): SkillError {
  return new SkillError("input-invalid", { message, fix });
}

export interface GithubProviderOptions {
  /** The URL of the REST API: `https://HOST/api/v3` for a GitHub Enterprise Server. */
  baseUrl?: string;
  seconds?: number;
  /** The client id of an app with device flow enabled. Users then do not have to paste a token. */
  clientId?: string;
}

/**
 * Creates the provider for GitHub's issues, pull requests and files, with a token from the vault. GitHub has no idempotency keys: the host
 * makes sure that a change is made once, and a change whose answer was lost is reported as unknown.
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
    async invoke({ capability, operation: name, input: rawInput, credential }, { signal }) {
      const operation = getGithubOperation(capability, name);
      const input = structuredClone(rawInput ?? {});
      const problem = await findSchemaProblem(operation.input, input);
      if (problem !== undefined) throw new SkillError("input-invalid", { message: problem });
      const { api } = base();
      const token = credential?.secret["token"];
      if (typeof token !== "string") {
        throw new SkillError("auth-needed", {
          message: NOT_SIGNED_IN,
          fix: "sign in",
          commands: [GITHUB_SIGN_IN_COMMAND],
        });
      }
      return { output: await operation.run(createGithubApi({ base: api, token, signal }), input as GithubInput) };
    },
    async health({ isSignedIn }): Promise<ProviderHealth> {
      try {
        const create = `create a token at ${formatTokenPageUrl(base())} (${TOKEN_PERMISSIONS})`;
        if (isSignedIn) return { isReady: true };
        const steps =
          clientId === undefined
            ? [create, `${GITHUB_SIGN_IN_COMMAND}, and paste it`]
            : [`${GITHUB_SIGN_IN_COMMAND}, and follow the instructions`];
        return isSignedIn === false ? { isReady: false, message: NOT_SIGNED_IN, steps } : { isReady: true, steps };
      } catch (error) {
        if (!(error instanceof SkillError)) throw error;
        return { isReady: false, message: error.message, ...(error.fix ? { steps: [formatFix(error)] } : {}) };
      }
    },
    auth: clientId === undefined ? createPasteSignIn(base) : createDeviceSignIn(base, clientId),
  };
}

const NOT_SIGNED_IN = "No account is signed in to GitHub";

const GITHUB_CAPABILITIES: Readonly<
  Record<string, { description: string; operations: Readonly<Record<string, GithubOperation>> }>
> = {
  "github.issues": {
    description: "GitHub issues: reads, searches, opens, changes and comments on them.",
    operations: ISSUE_OPERATIONS,
  },
  "github.pulls": {
    description:
      "GitHub pull requests: reads them with files, reviews and checks; comments, reviews, opens and merges.",
    operations: PULL_OPERATIONS,
  },
  "github.repos": {
    description: "GitHub repositories: lists them, and reads their text files.",
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
    fix: `available: ${known.join(", ")}`,
  });
}

/** Signs in with a token that the user creates and pastes. */
function createPasteSignIn(base: () => GithubBase): ProviderAuth {
  return {
    async begin(): Promise<AuthChallenge> {
      const url = formatTokenPageUrl(base());
      return {
        kind: "paste",
        url,
        message: `Create a fine-grained token at ${url} for the repositories to use (${TOKEN_PERMISSIONS}), and paste it.`,
        expiresInSeconds: 3600,
      };
    },
    async complete({ callback }, { signal }) {
      const token = callback?.text.trim() ?? "";
      if (!/^[\x21-\x7e]{10,1024}$/.test(token)) {
        throw new SkillError("input-invalid", {
          message: "The pasted text is not a GitHub token",
          fix: "paste only the token: it starts with github_pat_ or ghp_",
        });
      }
      return fetchCredential(base(), token, signal);
    },
  };
}

/** Signs in with a code that the user enters on GitHub's own page. */
function createDeviceSignIn(base: () => GithubBase, clientId: string): ProviderAuth {
  // After `slow_down`, polls before this time are answered without a request, since the contract cannot change the interval.
  const quietUntil = new Map<string, number>();

  async function poll({ state }: AuthCompletion, { signal }: { signal: AbortSignal }): Promise<Credential | undefined> {
    const code = state?.["device_code"];
    if (typeof code !== "string") throw createExpiredError("No sign-in is pending");
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
      // The user enters a code there, so it must be GitHub's own page.
      const url = URL.parse(String(verification_uri));
      if (url?.origin !== new URL(web).origin) throw createUndocumentedError();
      return {
        kind: "device",
        url: url.href,
        userCode: String(user_code),
        message: `Open ${url.href} and enter ${sanitizeLine(String(user_code), 40)}. Only do so if you started this sign-in yourself.`,
        state: { device_code },
        expiresInSeconds: parseSeconds(answer["expires_in"]) ?? 900,
        intervalSeconds: parseSeconds(answer["interval"]) ?? SLOW_DOWN_SECONDS,
      };
    },
    async complete(request, options) {
      const credential = await poll(request, options);
      if (credential) return credential;
      throw new SkillError("auth-needed", {
        message: "The code was not entered on GitHub yet",
        fix: "open the URL, enter the code, and try again",
      });
    },
  };
}

const TOKEN_PERMISSIONS = "Issues and Pull requests: read and write; Contents: read, or write to merge";

/** Returns the URL of the token page with the permissions filled in. Only the user can select the repositories. */
function formatTokenPageUrl({ web }: GithubBase): string {
  return `${web}/settings/personal-access-tokens/new?name=skillet&issues=write&pull_requests=write&contents=read`;
}

const SLOW_DOWN_SECONDS = 5;

const DEVICE_FLOW_ERRORS: Readonly<Record<string, (answer: JsonObject) => SkillError>> = {
  expired_token: () => createExpiredError("The code has expired"),
  token_expired: () => createExpiredError("The code has expired"),
  incorrect_device_code: () => createExpiredError("GitHub does not recognize this sign-in"),
  access_denied: () =>
    new SkillError("denied", {
      message: "The sign-in was canceled on GitHub",
      fix: `begin again: ${GITHUB_SIGN_IN_COMMAND}`,
    }),
};

function createExpiredError(message: string): SkillError {
  return new SkillError("auth-needed", { message, fix: `begin again: ${GITHUB_SIGN_IN_COMMAND}` });
}

function createDeviceFlowError({ error, error_description: description }: JsonObject): SkillError {
  const why = typeof description === "string" ? description : String(error);
  return new SkillError("provider-failed", {
    message: `GitHub rejected the device flow: ${sanitizeLine(why, 200)}`,
    fix: "check client_id, and that device flow is enabled for that app",
  });
}

/** Creates the credential for the account that GitHub reports for a token. */
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
    // A fine-grained token has permissions, which GitHub does not report.
    ...(scopes.length > 0 ? { scopes } : {}),
    ...(expiresAt ? { expiresAt } : {}),
  };
}

/** Parses `2026-12-31 12:00:00 UTC`, or with an offset. */
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
