import type { SkillEvent } from "./events.ts";
import { type Env, type Fetch, openExporter, type Span } from "./otlp.ts";
import type { Notice } from "./sandbox.ts";
import { openSpans } from "./spans.ts";

/** Tells a collector of OpenTelemetry what happens in runs. */
export interface Traces {
  /** What is not as the environment asks for. */
  readonly notice: Notice | undefined;
  /** Contract: never throws, and nothing waits for it. */
  take(event: SkillEvent): void;
  /** Sends what is left, and waits for it two seconds at most. Gives what went wrong. */
  flush(): Promise<Notice | undefined>;
}

/** Set up by the environment, as OpenTelemetry says; nothing where that names no collector, or whoever started us traces nothing. */
export function openTraces(env: Env, fetch: Fetch = globalThis.fetch): Traces | undefined {
  const exporter = openExporter(env, fetch);
  const caller = callerIn(env);
  if (!exporter || caller?.isSampled === false) return undefined;
  const spans = openSpans({ parent: caller, hasContent: CONTENT.test(env[CONTENT_SWITCH] ?? "") });
  let waiting: Span[] = [];
  const send = () => {
    const batch = waiting;
    waiting = [];
    for (let at = 0; at < batch.length; at += BATCH) exporter.send(batch.slice(at, at + BATCH));
  };
  return {
    notice: exporter.notice,
    take(event) {
      if (!("run" in event)) return;
      try {
        const { ended, isOver } = spans.take(event);
        waiting.push(...ended);
        if (isOver || waiting.length >= BATCH) send();
      } catch {
        // What cannot be told is lost; the run goes on.
      }
    },
    flush() {
      waiting.push(...spans.end(new Date()));
      send();
      return exporter.flush(LONGEST_FLUSH_MS);
    },
  };
}

const BATCH = 512;
const LONGEST_FLUSH_MS = 2000;
const CONTENT_SWITCH = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
const CONTENT = /^(?:true|span_only|span_and_event)$/i;

/** `00-<trace>-<span>-<flags>`: what this program is a part of. */
function callerIn(env: Env): { traceId: string; spanId: string; isSampled: boolean } | undefined {
  const written = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(env["TRACEPARENT"]?.trim() ?? "");
  const [, traceId = "", spanId = "", flags = ""] = written ?? [];
  if (!/[^0]/.test(traceId) || !/[^0]/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}
