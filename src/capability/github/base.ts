import { SkillError } from "../../shared/error.ts";
import { inLine } from "../../shared/prompt.ts";

/** Where GitHub is: its API, and the pages that people see. */
export interface Base {
  /** Without a slash at its end. */
  api: string;
  web: string;
}

export const GITHUB_API = "https://api.github.com";

/** Throws a SkillError for what a token must not be sent to. */
export function baseOf(written: string): Base {
  const address = URL.parse(written);
  const isSafe = address?.protocol === "https:" || (address?.protocol === "http:" && LOOPBACK.test(address.hostname));
  const isPlain = address !== null && `${address.username}${address.password}${address.search}${address.hash}` === "";
  if (!isSafe || !isPlain) {
    throw new SkillError("provider-missing", {
      message: `base_url of github, ${shownBase(written)}, is no address that a token can be sent to`,
      fix: `write ${GITHUB_API}, or https://HOST/api/v3 for a GitHub Enterprise Server`,
    });
  }
  const api = address.href.replace(/\/+$/, "");
  return { api, web: api === GITHUB_API ? "https://github.com" : webOf(address) };
}

/** For people: without a password or whatever else somebody put into it. */
export function shownBase(written: string): string {
  const address = URL.parse(written);
  return inLine(address ? shown(address) : JSON.stringify(written), 200);
}

function shown({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`;
}

/** Where a sign-in holds. Contract: does not throw, and no password is in it. */
export function githubOrigin({ baseUrl = GITHUB_API, clientId }: { baseUrl?: string; clientId?: string }): string {
  const address = URL.parse(baseUrl);
  const place = address ? shown(address).replace(/\/+$/, "") : "nowhere";
  return clientId === undefined ? place : `${place} (client_id ${clientId})`;
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** With data residency the API is a host of its own, api.SUBDOMAIN.ghe.com; else it is a path of the one host. */
function webOf({ origin, hostname }: URL): string {
  return /^api\.[\w-]+\.ghe\.com$/.test(hostname) ? `https://${hostname.slice("api.".length)}` : origin;
}
