import type { Notice } from "../host/sandbox.ts";
import type { Traces } from "../host/traces.ts";
import { type Io, printer } from "./io.ts";
import { sayNotice } from "./say.ts";

/** What happens is told to this. */
export type Tracing = Pick<Traces, "take">;

/**
 * Work that is traced where the environment names a collector. Contract: that is waited for, two seconds at most, once the work is done and has
 * said all that it had to say.
 */
export async function traced<T>(io: Io, work: (traces: Tracing | undefined) => Promise<T>): Promise<T> {
  const traces = await openTracesFor(io);
  try {
    return await work(traces);
  } finally {
    await traces?.close();
  }
}

/** Nothing of it is loaded where there is no collector. */
async function openTracesFor(io: Io): Promise<(Tracing & { close(): Promise<void> }) | undefined> {
  if (!NAMED.some((name) => io.env[name])) return undefined;
  const { openTraces } = await import("../host/traces.ts");
  const traces = openTraces(io.env);
  if (!traces) return undefined;
  const out = printer(io.stderr, io.env);
  const say = (notice: Notice | undefined) => {
    if (notice) sayNotice(out, out.yellow("!"), notice.message, notice.fix);
  };
  say(traces.notice);
  return { take: traces.take, close: async () => say(await traces.flush()) };
}

const NAMED = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
