import { openAuth } from "../../capability/auth.ts";
import type { AuthBeginResult, AuthResult } from "../../capability/protocol.ts";
import type { CapabilityProvider } from "../../host/capabilities.ts";
import { defined } from "../../shared/defined.ts";
import { oneLine } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { discoverToUse, type Found, requireConfiguration } from "../found.ts";
import { type Io, interruptible, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { providersOf } from "../providers-found.ts";
import { OWNER } from "../vault.ts";
import { broughtBack, requestOf, type ScopeOptions, showBegun } from "./auth-login.ts";

/** A sign-in step by step, for programs that ask their user themselves. */
export async function begin({ io, options, args: [wanted = ""] }: Context<ScopeOptions>): Promise<number> {
  return withFound(io, options, async (found, signal) => {
    const [provider] = providersOf(found, wanted) as [CapabilityProvider];
    const begun = await openAuth(found.capabilities).begin(provider, requestOf(wanted, options), OWNER, { signal });
    if (options.json) printJson(io.stdout, begunFacts(provider.namespace, begun));
    else {
      const out = printer(io.stdout, io.env);
      showBegun(out, provider.namespace, begun);
      const next = begun.kind === "device" ? `poll ${begun.flow}` : `complete ${begun.flow} < FILE`;
      out.line`  then  ${out.cyan(`skillet auth ${next}`)}`;
    }
    return EXIT.fine;
  });
}

export async function complete({ io, options, args: [flow = ""] }: Context<object>): Promise<number> {
  return withFound(io, options, async (found, signal) => {
    const text = await broughtBack(io, "paste", signal);
    return say(io, options.json, await openAuth(found.capabilities).complete(flow, text, OWNER, { signal }));
  });
}

export async function poll({ io, options, args: [flow = ""] }: Context<object>): Promise<number> {
  return withFound(io, options, async (found, signal) =>
    say(io, options.json, await openAuth(found.capabilities).poll(flow, OWNER, { signal })),
  );
}

function begunFacts(namespace: string, begun: AuthBeginResult): object {
  const { flow, kind, message, url, user_code: userCode, expires_in_seconds: seconds } = begun;
  const expiresAt = new Date(Date.now() + seconds * 1000).toISOString();
  return {
    namespace,
    flow,
    kind,
    message,
    ...defined({ url, userCode }),
    expiresAt,
    ...defined({ intervalMs: msOf(begun) }),
  };
}

function msOf({ interval_seconds: seconds }: { interval_seconds?: number }): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000;
}

async function withFound(
  io: Io,
  options: Context<object>["options"],
  work: (found: Found, signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const found = await discoverToUse(io, options);
  requireConfiguration(io, found);
  return interruptible(io, (signal) => work(found, signal));
}

function say(io: Io, asJson: boolean | undefined, result: AuthResult): number {
  const out = printer(io.stdout, io.env);
  const { status, account = "", interval_seconds: seconds = 5 } = result;
  if (asJson) printJson(io.stdout, { status, ...defined({ account: result.account, intervalMs: msOf(result) }) });
  else if (status === "signed-in") out.line`${out.green("✓")} signed in as ${oneLine(account, 100)}`;
  else out.line`${out.yellow("?")} not done yet: ask again in ${seconds} s`;
  return status === "signed-in" ? EXIT.fine : EXIT.waiting;
}
