import type { Notice } from "../host/sandbox.ts";
import type { Traces } from "../host/traces.ts";
import { type Io, printer } from "./io.ts";

/** Traces of what a command does. */
export interface CommandTraces extends Pick<Traces, "take"> {
  /** Waits for a collector, two seconds at most, and says when it did not get them. */
  close(): Promise<void>;
}

/** Opens them where the environment names a collector; nothing of it is loaded where it does not. */
export async function openTracesFor(io: Io): Promise<CommandTraces | undefined> {
  if (!NAMED.some((name) => io.env[name])) return undefined;
  const { openTraces } = await import("../host/traces.ts");
  const traces = openTraces(io.env);
  if (!traces) return undefined;
  const out = printer(io.stderr, io.env);
  const say = (notice: Notice | undefined) => {
    if (notice) out.line`${out.yellow("!")} ${notice.message}: ${notice.fix}`;
  };
  say(traces.notice);
  return { take: traces.take, close: async () => say(await traces.flush()) };
}

const NAMED = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
