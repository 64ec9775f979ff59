import type { AuthAnswer, AuthBegun, AuthRequest, Credential, ProviderAuth } from "../../host/capabilities.ts";
import { SkillError } from "../../shared/error.ts";
import { inLine } from "../../shared/prompt.ts";
import { type Data, isData } from "../../skill/data.ts";
import { openApi } from "./api.ts";
import type { Base } from "./base.ts";
import { exchange } from "./exchange.ts";
import { SIGN_IN } from "./failure.ts";
import { notAsDocumented } from "./shape.ts";

/** With a token that the user makes and brings. */
export function pasteSignIn(base: () => Base): ProviderAuth {
  return {
    async begin(): Promise<AuthBegun> {
      const url = tokenPage(base());
      return {
        kind: "paste",
        url,
        message: `Make a fine-grained token at ${url} for the repositories that may be used (${PERMISSIONS}), and paste it.`,
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
      return credentialOf(base(), token, signal);
    },
  };
}

/** With a code that the user types in on GitHub's own page. */
export function deviceSignIn(base: () => Base, clientId: string): ProviderAuth {
  // GitHub wants to be asked less often, and the contract has no word for it: until then nobody is asked.
  const quietUntil = new Map<string, number>();

  async function poll({ state }: AuthAnswer, { signal }: { signal: AbortSignal }): Promise<Credential | undefined> {
    const code = state?.["device_code"];
    if (typeof code !== "string") throw gone("There is no sign-in under way");
    if ((quietUntil.get(code) ?? 0) > Date.now()) return undefined;
    const answer = await post(base().web, "/login/oauth/access_token", signal, {
      client_id: clientId,
      device_code: code,
      grant_type: "urn:ietf:params:oauth:grant-type:device_code",
    });
    const { error, access_token: token, interval } = answer;
    if (error === "authorization_pending") return undefined;
    if (error === "slow_down") {
      quietUntil.set(code, Date.now() + (typeof interval === "number" ? interval : SLOWER) * 1000);
      return undefined;
    }
    quietUntil.delete(code);
    if (error !== undefined) throw (ENDINGS[String(error)] ?? otherEnding)(answer);
    if (typeof token !== "string") throw notAsDocumented();
    return credentialOf(base(), token, signal, secondsIn(answer["expires_in"]));
  }

  return {
    poll,
    async begin({ scopes }: AuthRequest, { signal }): Promise<AuthBegun> {
      const { web } = base();
      const scope = (scopes?.length ? scopes : ["repo"]).join(" ");
      const answer = await post(web, "/login/device/code", signal, { client_id: clientId, scope });
      if (answer["error"] !== undefined) throw otherEnding(answer);
      const { device_code, user_code, verification_uri } = answer;
      if (![device_code, user_code, verification_uri].every((value) => typeof value === "string")) {
        throw notAsDocumented();
      }
      // The user is sent there to type a code in: it must be GitHub's own page.
      const url = URL.parse(String(verification_uri));
      if (url?.origin !== new URL(web).origin) throw notAsDocumented();
      return {
        kind: "device",
        url: url.href,
        userCode: String(user_code),
        message: `Open ${url.href} and type in ${inLine(String(user_code), 40)}. Only do so if you asked for this yourself.`,
        state: { device_code },
        expiresInSeconds: secondsIn(answer["expires_in"]) ?? 900,
        intervalSeconds: secondsIn(answer["interval"]) ?? SLOWER,
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

export const PERMISSIONS = "Issues and Pull requests: read and write; Contents: read, or write where it is to merge";

/** The page with what is needed filled in; which repositories, only the user can say. */
export function tokenPage({ web }: Base): string {
  return `${web}/settings/personal-access-tokens/new?name=skillet&issues=write&pull_requests=write&contents=read`;
}

const SLOWER = 5;

const ENDINGS: Readonly<Record<string, (answer: Data) => SkillError>> = {
  expired_token: () => gone("The code has expired"),
  token_expired: () => gone("The code has expired"),
  incorrect_device_code: () => gone("GitHub does not know this sign-in"),
  access_denied: () =>
    new SkillError("denied", { message: "It was cancelled on GitHub", fix: `begin again: ${SIGN_IN}` }),
};

function gone(message: string): SkillError {
  return new SkillError("auth-needed", { message, fix: `begin again: ${SIGN_IN}` });
}

function otherEnding({ error, error_description: description }: Data): SkillError {
  const why = typeof description === "string" ? description : String(error);
  return new SkillError("provider-failed", {
    message: `GitHub does not sign in this way: ${inLine(why, 200)}`,
    fix: "look at client_id, and whether device flow is turned on for that app",
  });
}

/** Whose token it is, as GitHub says it. */
async function credentialOf({ api }: Base, token: string, signal: AbortSignal, seconds?: number): Promise<Credential> {
  const { body, headers } = await openApi({ base: api, token, signal }).get("/user");
  if (!isData(body) || typeof body["login"] !== "string") throw notAsDocumented();
  const scopes = (headers.get("x-oauth-scopes") ?? "").split(",").flatMap((scope) => scope.trim() || []);
  const expiresAt =
    seconds === undefined
      ? timeOf(headers.get("github-authentication-token-expiration"))
      : new Date(Date.now() + seconds * 1000).toISOString();
  return {
    account: inLine(body["login"], 100),
    secret: { token },
    // A fine-grained token has permissions, of which GitHub does not tell.
    ...(scopes.length > 0 ? { scopes } : {}),
    ...(expiresAt ? { expiresAt } : {}),
  };
}

/** `2026-12-31 12:00:00 UTC`, or with an offset. */
function timeOf(written: string | null): string | undefined {
  const time = new Date(written ?? "");
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString();
}

function secondsIn(value: unknown): number | undefined {
  return typeof value === "number" && value > 0 && value < 1e9 ? Math.ceil(value) : undefined;
}

async function post(web: string, path: string, signal: AbortSignal, values: Record<string, string>): Promise<Data> {
  const { text } = await exchange(new URL(`${web}${path}`), {
    method: "POST",
    signal,
    headers: { accept: "application/json", "user-agent": "skillet" },
    body: new URLSearchParams(values),
  });
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    throw notAsDocumented();
  }
  if (!isData(answer)) throw notAsDocumented();
  return answer;
}
