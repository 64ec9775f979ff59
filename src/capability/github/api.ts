import { SkillError } from "../../shared/error.ts";
import { inLine } from "../../shared/prompt.ts";
import { openHiding } from "../../shared/redact.ts";
import { type Data, isData } from "../../skill/data.ts";
import { type Exchange, type Exchanged, exchange } from "./exchange.ts";
import { failureOf, SIGN_IN } from "./failure.ts";
import { notAsDocumented } from "./shape.ts";

export interface ApiOptions {
  /** Without a slash at its end. */
  base: string;
  token: string;
  signal: AbortSignal;
}

export interface Answer {
  body: unknown;
  headers: Headers;
}

/** GitHub's REST API, for one token. Everything throws a SkillError. */
export interface Api {
  get(path: string, query?: Query): Promise<Answer>;
  /** What changes something. */
  send(method: "POST" | "PATCH" | "PUT", path: string, body: Data): Promise<Answer>;
}

export type Query = Readonly<Record<string, string | number | undefined>>;

export function openApi({ base, token, signal }: ApiOptions): Api {
  // A header is made of it.
  if (!/^[\x21-\x7e]{1,1024}$/.test(token)) {
    throw new SkillError("auth-needed", { message: "The token of GitHub is none", fix: SIGN_IN });
  }
  const hiding = openHiding(new Map([["GITHUB_TOKEN", token]]));
  const headers = {
    accept: "application/vnd.github+json",
    authorization: `Bearer ${token}`,
    "user-agent": "skillet",
    "x-github-api-version": "2022-11-28",
  };

  async function ask(method: Exchange["method"], to: URL, sent?: Data): Promise<Answer> {
    const request = sent
      ? { method, signal, headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(sent) }
      : { method, signal, headers };
    const asked = { what: inLine(`${method} ${to.pathname}`, 200), isChange: method !== "GET" };
    let at = to;
    let answer = await exchange(at, request);
    for (let count = 0; REDIRECTS.has(answer.status); count++) {
      if (asked.isChange) throw moved(answer, asked.what);
      at = leadsTo(answer, at, { what: asked.what, count });
      answer = await exchange(at, request);
    }
    const { status, text } = answer;
    if (status >= 200 && status < 300) return { body: jsonOf(text), headers: answer.headers };
    throw failureOf({ ...asked, status, headers: answer.headers, body: heard(hiding.text(text)) });
  }

  return {
    get: async (path, query = {}) => ask("GET", addressOf(base, path, query)),
    send: async (method, path, body) => ask(method, addressOf(base, path, {}), body),
  };
}

/** A path with values in it, none of which can be more than one name: path`/repos/${owner}/${repo}`. */
export function path(pieces: TemplateStringsArray, ...values: (string | number)[]): string {
  return pieces.reduce((before, piece, index) => `${before}${nameOf(values[index - 1] ?? "")}${piece}`);
}

/** What takes several names: `docs/guide.md`. */
export function deepPath(written: string): string {
  return written.split("/").map(nameOf).join("/");
}

/** Encoding leaves dots alone, and an address takes two of them for a step up. */
function nameOf(value: string | number): string {
  const name = String(value);
  if (name !== "" && name !== "." && name !== ".." && name.isWellFormed()) return encodeURIComponent(name);
  throw new SkillError("input-invalid", {
    message: `"${inLine(name, 100)}" cannot be part of a path`,
    fix: "write plain names, without . and ..",
  });
}

function addressOf(base: string, below: string, query: Query): URL {
  const address = new URL(`${base}${below}`);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) address.searchParams.set(name, String(value));
  }
  return address;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const MOST_REDIRECTS = 3;

/** Contract: of the same origin, so that nobody else is sent the token. */
function leadsTo({ status, headers }: Exchanged, from: URL, { what, count }: { what: string; count: number }): URL {
  const to = URL.parse(headers.get("location") ?? "", from.href);
  if (to && to.origin === from.origin && count < MOST_REDIRECTS) return to;
  const where = to && to.origin !== from.origin ? `to ${inLine(to.host, 100)}, which is somewhere else` : "nowhere";
  throw new SkillError("provider-answer", {
    message: `GitHub's answer leads ${where}: it was not followed (${status}, ${what})`,
    fix: "look whether base_url is that of GitHub's REST API",
  });
}

function moved({ status }: Exchanged, what: string): SkillError {
  return new SkillError("not-found", {
    message: `It has moved, and nothing was changed (${status}, ${what})`,
    fix: "ask github.repos get for its new name, and use that",
  });
}

function jsonOf(written: string): unknown {
  try {
    return written === "" ? undefined : JSON.parse(written);
  } catch {
    throw notAsDocumented();
  }
}

/** Of a refusal, which need not be JSON. */
function heard(written: string): Data {
  try {
    const body: unknown = JSON.parse(written);
    return isData(body) ? body : {};
  } catch {
    return {};
  }
}
