import { setTimeout as sleep } from "node:timers/promises";
import { type Auth, openAuth } from "../../capability/auth.ts";
import type { AuthBeginResult } from "../../capability/protocol.ts";
import type { AuthRequest, CapabilityProvider } from "../../host/capabilities.ts";
import { defined } from "../../shared/defined.ts";
import { SkillError } from "../../shared/error.ts";
import { count, oneLine } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { discoverToUse, type Found, requireConfiguration } from "../found.ts";
import { type Io, interruptible, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { providersOf } from "../providers-found.ts";
import { OWNER } from "../vault.ts";
import { printHanging } from "../wrap.ts";

export interface ScopeOptions {
  scope?: string[];
}

/** Signs in, in one go: says what to do, and waits for it. */
export async function login({ io, options, args: [wanted = ""] }: Context<ScopeOptions>): Promise<number> {
  const found = await discoverToUse(io, options);
  requireConfiguration(io, found);
  const [provider] = providersOf(found, wanted) as [CapabilityProvider];
  const { namespace } = provider;
  return interruptible(io, async (signal) => {
    const note = noting(found, namespace);
    const { vault, providerOf } = found.capabilities;
    const auth = openAuth({ vault, providerOf });
    try {
      const begun = await auth.begin(provider, requestOf(wanted, options), OWNER, { signal });
      showBegun(printer(io.stderr, io.env), namespace, begun);
      const account = await (begun.kind === "device" ? polled : pasted)(io, auth, begun, signal);
      note("ok");
      saySignedIn(io, options.json, namespace, account);
      return EXIT.fine;
    } catch (error) {
      note(signal.aborted ? "aborted" : error instanceof SkillError ? error.code : "error");
      if (!signal.aborted) throw error;
      throw new SkillError("interrupted", {
        message: "not signed in: it was stopped",
        fix: `to go on with it: skillet auth login ${wanted}`,
      });
    }
  });
}

/** A sign-in at a capability of a provider may be less than one at all of it. */
export function requestOf(wanted: string, { scope }: ScopeOptions): AuthRequest {
  const capability = wanted.includes(".") ? wanted : undefined;
  return { context: {}, ...defined({ capability, scopes: scope }) };
}

function saySignedIn(io: Io, asJson: boolean | undefined, namespace: string, account: string): void {
  const out = printer(io.stdout, io.env);
  if (asJson) printJson(io.stdout, { status: "signed-in", namespace, account });
  else out.line`${out.green("✓")} signed in to ${namespace} as ${oneLine(account, 100)}`;
}

/** One line for a sign-in, however often it was asked about. */
function noting({ capabilities: { audit } }: Found, capability: string): (outcome: string) => void {
  return (outcome) => void audit.add({ run: "", skill: "", source: "", method: "auth.login", capability, outcome });
}

/** What the user has to do. */
export function showBegun(out: Printer, namespace: string, begun: AuthBeginResult): void {
  const { message, url, user_code: code, expires_in_seconds: seconds } = begun;
  // An address stands once, where it can be copied.
  const said = oneLine(url === undefined ? message : message.replaceAll(url, "the page below"), 500);
  printHanging(out, out.text`${out.bold(`To sign in to ${namespace}`)}  `, [said], {
    indent: 2,
    start: namespace.length + 17,
  });
  if (url !== undefined) out.line`  open  ${out.cyan(url)}`;
  if (code !== undefined) out.line`  type  ${out.bold(code)}`;
  out.line`  ${out.dim(`this holds for ${count(Math.max(1, Math.round(seconds / 60)), "minute")}`)}`;
}

type Finish = (io: Io, auth: Auth, begun: AuthBeginResult, signal: AbortSignal) => Promise<string>;

const pasted: Finish = async (io, auth, { flow, kind }, signal) => {
  const text = await broughtBack(io, kind, signal);
  const { account = "" } = await auth.complete(flow, text, OWNER, { signal });
  return account;
};

/** What was piped in, or is pasted at the terminal. Throws a SkillError when there is none. */
export async function broughtBack(io: Io, kind: AuthBeginResult["kind"], signal?: AbortSignal): Promise<string> {
  const ask = async () => {
    if (kind === "link") return io.ask?.("Paste the address that it led to: ", signal);
    if (io.askHidden) return io.askHidden("Paste it here (it is not shown): ");
    return io.ask?.("Paste it here (it is shown): ", signal);
  };
  const text = ((io.stdin ? await io.stdin() : await ask()) ?? "").trim();
  if (text !== "") return text;
  throw new SkillError("auth-unfinished", {
    message: `Nothing was ${io.stdin ? "piped in" : "pasted"}, so nobody is signed in`,
    fix: "run it again at a terminal, or pipe it in: < FILE",
  });
}

const polled: Finish = async (io, auth, begun, signal) => {
  const { flow, expires_in_seconds: seconds } = begun;
  const end = performance.now() + seconds * 1000;
  const waiting = openWaiting(io);
  try {
    for (let pause = begun.interval_seconds ?? USUAL_SECONDS; performance.now() < end; ) {
      await sleep(pause * 1000, undefined, { signal });
      const result = await auth.poll(flow, OWNER, { signal }).catch(unlessPassing);
      if (result?.status === "signed-in") return result.account ?? "";
      pause = result?.interval_seconds ?? pause;
    }
  } finally {
    waiting.end();
  }
  throw new SkillError("flow-expired", {
    message: `It was not finished within ${count(Math.max(1, Math.round(seconds / 60)), "minute")}, so nobody is signed in`,
    fix: "run it again, which gives another code",
  });
};

const USUAL_SECONDS = 5;
const PASSING = new Set(["rate-limited", "unavailable", "provider-timeout"]);

function unlessPassing(error: unknown): undefined {
  if (error instanceof SkillError && PASSING.has(error.code)) return undefined;
  throw error;
}

/** A line for whoever waits; on a terminal one that counts. */
function openWaiting(io: Io): { end(): void } {
  const { stderr, env } = io;
  const out = printer(stderr, env);
  const text = "waiting until that is done there; Ctrl-C stops waiting";
  if (stderr.isTTY !== true || env["TERM"] === "dumb") {
    out.line`${out.dim(text)}`;
    return { end() {} };
  }
  const start = performance.now();
  const draw = () => {
    const seconds = Math.round((performance.now() - start) / 1000);
    stderr.write(`\r\x1b[2K${out.dim(oneLine(`${text} · ${seconds} s`, out.width - 1)).text}`);
  };
  draw();
  const timer = setInterval(draw, 1000);
  return {
    end() {
      clearInterval(timer);
      stderr.write("\r\x1b[2K");
    },
  };
}
