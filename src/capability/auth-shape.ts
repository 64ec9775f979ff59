import type { AuthBegun, Credential } from "../host/capabilities.ts";
import { SkillError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";
import { isData } from "../skill/data.ts";
import { withoutCredentials } from "./credential-names.ts";

/** How a sign-in began, as people are shown it. Throws a SkillError when it cannot be that. */
export function checkedBegun(
  namespace: string,
  begun: AuthBegun,
): AuthBegun & { expiresInSeconds: number; intervalSeconds: number } {
  const no = (why: string) => unfit(namespace, why);
  if (!isData(begun)) throw no("begins a sign-in with something that is none");
  const { kind, url, userCode, message, state, expiresInSeconds, intervalSeconds } = begun as AuthBegun;
  if (!["link", "device", "paste"].includes(kind)) throw no("begins a sign-in of a kind that there is not");
  if (url === undefined && kind !== "paste") throw no("begins a sign-in without an address to open");
  if (kind === "device" && typeof userCode !== "string") throw no("begins a sign-in without the code to type in");
  if (state !== undefined && !isData(state)) throw no("begins a sign-in with a state that is no object");
  return {
    kind,
    message: inLine(String(message ?? ""), LONGEST_MESSAGE),
    ...(url === undefined ? {} : { url: checkedAddress(url, no) }),
    ...(typeof userCode === "string" ? { userCode: inLine(userCode, LONGEST_CODE) } : {}),
    ...(state === undefined ? {} : { state }),
    expiresInSeconds: within(expiresInSeconds, DEFAULT_SECONDS, 1, MOST_SECONDS),
    intervalSeconds: within(intervalSeconds, DEFAULT_INTERVAL, 1, MOST_INTERVAL),
  };
}

/** Throws a SkillError when it cannot be kept. Contract: nothing of it is in the message. */
export function checkedCredential(namespace: string, credential: Credential): Credential {
  const no = (why: string) => unfit(namespace, why);
  if (!isData(credential)) throw no("gives no credential for a sign-in");
  const { account, secret, scopes, expiresAt } = credential as Credential;
  if (
    typeof account !== "string" ||
    account === "" ||
    account.length > LONGEST_ACCOUNT ||
    inLine(account) !== account
  ) {
    throw no("gives a credential without saying whose it is");
  }
  if (!isData(secret) || JSON.stringify(secret).length > LARGEST_SECRET) throw no("gives a credential that is none");
  const isList = scopes === undefined || (Array.isArray(scopes) && scopes.every((scope) => typeof scope === "string"));
  if (!isList) throw no("gives a credential with scopes that are none");
  if (expiresAt !== undefined && Number.isNaN(Date.parse(expiresAt)))
    throw no("gives a credential with a time that is none");
  return { account, secret, ...(scopes ? { scopes } : {}), ...(expiresAt === undefined ? {} : { expiresAt }) };
}

const LONGEST_MESSAGE = 500;
const LONGEST_CODE = 64;
const LONGEST_ADDRESS = 4096;
const LONGEST_ACCOUNT = 300;
const LARGEST_SECRET = 64 * 1024;
const [DEFAULT_SECONDS, MOST_SECONDS] = [600, 3600];
const [DEFAULT_INTERVAL, MOST_INTERVAL] = [5, 60];

/** People open it: a page of the web, and nothing in it that lets anybody in. */
function checkedAddress(written: unknown, no: (why: string) => SkillError): string {
  const url = typeof written === "string" && written.length <= LONGEST_ADDRESS ? URL.parse(written) : null;
  if (url === null || !["https:", "http:"].includes(url.protocol)) throw no("gives an address that is none of the web");
  const rest = new URL(url);
  rest.searchParams.delete("state"); // Lets nobody in, and is often a JWT.
  const hasCredential = url.username !== "" || url.password !== "" || withoutCredentials(rest.href, "") !== rest.href;
  if (hasCredential || url.href.length > LONGEST_ADDRESS) throw no("gives an address that nobody should open");
  return url.href;
}

function within(asked: unknown, usual: number, least: number, most: number): number {
  return typeof asked === "number" && Number.isFinite(asked) ? Math.min(Math.max(asked, least), most) : usual;
}

function unfit(namespace: string, why: string): SkillError {
  return new SkillError("provider-answer", {
    message: `The provider of ${namespace} ${why}`,
    fix: "tell whoever made it",
  });
}
