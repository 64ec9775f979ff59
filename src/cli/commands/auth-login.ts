import { setTimeout as sleep } from "node:timers/promises";
import type { AuthBeginResult, AuthResult } from "../../capabilities/broker-protocol.ts";
import { createSignInFlows, type SignInFlows } from "../../capabilities/sign-in-flows.ts";
import { SkillError } from "../../errors/problem.ts";
import type { AuthRequest, CapabilityProvider } from "../../host/capability-contract.ts";
import { omitUndefined } from "../../util/objects.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import { findProviders, TERMINAL_USER } from "../capability-providers.ts";
import {
  type CommandContext,
  type CommandHost,
  discoverWithCapabilities,
  EXIT,
  requireConfiguration,
} from "../command-context.ts";
import { type CommandIo, createPrinter, type Printer, printHanging, printJson, runInterruptible } from "../output.ts";

interface ScopeOptions {
  scope?: string[];
}

/** Signs in: prints the steps and waits until they are done. */
export async function signIn({ io, options, args: [wanted = ""] }: CommandContext<ScopeOptions>): Promise<number> {
  const found = await discoverWithCapabilities(io, options);
  requireConfiguration(io, found);
  const [provider] = findProviders(found, wanted) as [CapabilityProvider];
  const { namespace } = provider;
  return runInterruptible(io, async (signal) => {
    const note = createAuditNote(found, namespace);
    const { vault, findProvider: providerOf } = found.capabilities;
    const auth = createSignInFlows({ vault, findProvider: providerOf });
    try {
      const begun = await auth.begin(provider, createAuthRequest(wanted, options), TERMINAL_USER, { signal });
      printSignInSteps(createPrinter(io.stderr, io.env), namespace, begun);
      const account = await (begun.kind === "device" ? finishPolled : finishPasted)(io, auth, begun, signal);
      note("ok");
      printSignedIn(io, options.json, namespace, account);
      return EXIT.fine;
    } catch (error) {
      note(signal.aborted ? "aborted" : error instanceof SkillError ? error.code : "error");
      if (!signal.aborted) throw error;
      throw new SkillError("interrupted", {
        message: "not signed in: interrupted",
        fix: "try again",
        commands: [`skillet auth login ${wanted}`],
      });
    }
  });
}

/** Returns the request. A sign-in for one capability may need fewer scopes than one for the whole provider. */
function createAuthRequest(wanted: string, { scope }: ScopeOptions): AuthRequest {
  const capability = wanted.includes(".") ? wanted : undefined;
  return { context: {}, ...omitUndefined({ capability, scopes: scope }) };
}

function printSignedIn(io: CommandIo, asJson: boolean | undefined, namespace: string, account: string): void {
  const out = createPrinter(io.stdout, io.env);
  if (asJson) printJson(io.stdout, { status: "signed-in", namespace, account });
  else out.line`${out.green("✓")} signed in to ${namespace} as ${truncateLine(account, 100)}`;
}

/** Returns a function that adds one audit line for the sign-in, however often it is polled. */
function createAuditNote({ capabilities: { audit } }: CommandHost, capability: string): (outcome: string) => void {
  return (outcome) => void audit.add({ run: "", skill: "", source: "", method: "auth.login", capability, outcome });
}

/** Prints the steps for the user. */
function printSignInSteps(out: Printer, namespace: string, begun: AuthBeginResult): void {
  const { message, url, user_code: code, expires_in_seconds: seconds } = begun;
  // The address is printed once, on its own line, where it can be copied.
  const text = truncateLine(url === undefined ? message : message.replaceAll(url, "the page below"), 500);
  printHanging(out, out.text`${out.bold(`To sign in to ${namespace}`)}  `, [text], {
    indent: 2,
    start: namespace.length + 17,
  });
  if (url !== undefined) out.line`  open  ${out.cyan(url)}`;
  if (code !== undefined) out.line`  type  ${out.bold(code)}`;
  out.line`  ${out.dim(`valid for ${formatCount(Math.max(1, Math.round(seconds / 60)), "minute")}`)}`;
}

type SignInFinisher = (
  io: CommandIo,
  auth: SignInFlows,
  begun: AuthBeginResult,
  signal: AbortSignal,
) => Promise<string>;

const finishPasted: SignInFinisher = async (io, auth, { flow, kind }, signal) => {
  const text = await readSignInAnswer(io, kind, signal);
  const { account = "" } = await auth.complete(flow, text, TERMINAL_USER, { signal });
  return account;
};

/** Returns the piped or pasted answer. Throws a SkillError if it is empty. */
async function readSignInAnswer(io: CommandIo, kind: AuthBeginResult["kind"], signal?: AbortSignal): Promise<string> {
  const ask = async () => {
    if (kind === "link") return io.ask?.("Paste the address of the final page: ", signal);
    if (io.askHidden) return io.askHidden("Paste it here (hidden): ");
    return io.ask?.("Paste it here (visible): ", signal);
  };
  const text = ((io.stdin ? await io.stdin() : await ask()) ?? "").trim();
  if (text !== "") return text;
  throw new SkillError("auth-unfinished", {
    message: `Nothing was ${io.stdin ? "piped in" : "pasted"}: not signed in`,
    fix: "run it again at a terminal, or pipe it in: < FILE",
  });
}

const finishPolled: SignInFinisher = async (io, auth, begun, signal) => {
  const { flow, expires_in_seconds: seconds } = begun;
  const end = performance.now() + seconds * 1000;
  const waiting = createSignInIndicator(io);
  try {
    for (let pause = begun.interval_seconds ?? DEFAULT_POLL_SECONDS; performance.now() < end; ) {
      await sleep(pause * 1000, undefined, { signal });
      const result = await auth.poll(flow, TERMINAL_USER, { signal }).catch(ignoreTransient);
      if (result?.status === "signed-in") return result.account ?? "";
      pause = result?.interval_seconds ?? pause;
    }
  } finally {
    waiting.end();
  }
  throw new SkillError("flow-expired", {
    message: `The sign-in was not finished within ${formatCount(Math.max(1, Math.round(seconds / 60)), "minute")}`,
    fix: "run the command again for a new code",
  });
};

const DEFAULT_POLL_SECONDS = 5;
const TRANSIENT_CODES = new Set(["rate-limited", "unavailable", "provider-timeout"]);

function ignoreTransient(error: unknown): undefined {
  if (error instanceof SkillError && TRANSIENT_CODES.has(error.code)) return undefined;
  throw error;
}

/** Shows that the sign-in is pending, with a timer at a terminal. */
function createSignInIndicator(io: CommandIo): { end(): void } {
  const { stderr, env } = io;
  const out = createPrinter(stderr, env);
  const text = "waiting for you to finish there; Ctrl-C cancels";
  if (stderr.isTTY !== true || env["TERM"] === "dumb") {
    out.line`${out.dim(text)}`;
    return { end() {} };
  }
  const start = performance.now();
  const draw = () => {
    const seconds = Math.round((performance.now() - start) / 1000);
    stderr.write(`\r\x1b[2K${out.dim(truncateLine(`${text} · ${seconds} s`, out.width - 1)).text}`);
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

/** Starts a sign-in step by step, for programs with their own user interface. */
export async function beginSignIn({ io, options, args: [wanted = ""] }: CommandContext<ScopeOptions>): Promise<number> {
  return withSignInHost(io, options, async (found, signal) => {
    const [provider] = findProviders(found, wanted) as [CapabilityProvider];
    const begun = await createSignInFlows(found.capabilities).begin(
      provider,
      createAuthRequest(wanted, options),
      TERMINAL_USER,
      { signal },
    );
    if (options.json) printJson(io.stdout, toBegunJson(provider.namespace, begun));
    else {
      const out = createPrinter(io.stdout, io.env);
      printSignInSteps(out, provider.namespace, begun);
      const next = begun.kind === "device" ? `poll ${begun.flow}` : `complete ${begun.flow} < FILE`;
      out.line`  then  ${out.cyan(`skillet auth ${next}`)}`;
    }
    return EXIT.fine;
  });
}

export async function completeSignIn({ io, options, args: [flow = ""] }: CommandContext<object>): Promise<number> {
  return withSignInHost(io, options, async (found, signal) => {
    const text = await readSignInAnswer(io, "paste", signal);
    return printSignInResult(
      io,
      options.json,
      await createSignInFlows(found.capabilities).complete(flow, text, TERMINAL_USER, { signal }),
    );
  });
}

export async function pollSignIn({ io, options, args: [flow = ""] }: CommandContext<object>): Promise<number> {
  return withSignInHost(io, options, async (found, signal) =>
    printSignInResult(
      io,
      options.json,
      await createSignInFlows(found.capabilities).poll(flow, TERMINAL_USER, { signal }),
    ),
  );
}

function toBegunJson(namespace: string, begun: AuthBeginResult): object {
  const { flow, kind, message, url, user_code: userCode, expires_in_seconds: seconds } = begun;
  const expiresAt = new Date(Date.now() + seconds * 1000).toISOString();
  return {
    namespace,
    flow,
    kind,
    message,
    ...omitUndefined({ url, userCode }),
    expiresAt,
    ...omitUndefined({ intervalMs: getPollMs(begun) }),
  };
}

function getPollMs({ interval_seconds: seconds }: { interval_seconds?: number }): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000;
}

async function withSignInHost(
  io: CommandIo,
  options: CommandContext<object>["options"],
  work: (found: CommandHost, signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const found = await discoverWithCapabilities(io, options);
  requireConfiguration(io, found);
  return runInterruptible(io, (signal) => work(found, signal));
}

function printSignInResult(io: CommandIo, asJson: boolean | undefined, result: AuthResult): number {
  const out = createPrinter(io.stdout, io.env);
  const { status, account = "", interval_seconds: seconds = 5 } = result;
  if (asJson)
    printJson(io.stdout, { status, ...omitUndefined({ account: result.account, intervalMs: getPollMs(result) }) });
  else if (status === "signed-in") out.line`${out.green("✓")} signed in as ${truncateLine(account, 100)}`;
  else out.line`${out.yellow("?")} pending: poll again in ${seconds} s`;
  return status === "signed-in" ? EXIT.fine : EXIT.waiting;
}
