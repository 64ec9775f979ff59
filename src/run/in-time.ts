import { startTimer } from "../shared/patience.ts";
import { safely } from "../skill/safely.ts";
import type { CallOptions, Tool, ToolResult } from "../skill/tool.ts";
import { untilAborted } from "./grace.ts";

/** One call, in time: a tool that hangs is an error, never something that is waited for for ever. */
export async function callInTime(
  tool: Tool,
  input: unknown,
  { signal, ...more }: CallOptions,
  seconds: number,
  /** How long was waited for people, which is not its time. */
  waited?: () => number,
): Promise<ToolResult> {
  const inner = new AbortController();
  const onAbort = () => inner.abort(signal?.reason);
  const late = new Error(`It did not end within ${seconds} seconds`);
  const stop = startTimer(seconds * 1000, () => inner.abort(late), waited);
  signal?.addEventListener("abort", onAbort, { once: true });
  if (signal?.aborted) onAbort();
  try {
    const result = await untilAborted(
      safely(() => tool.execute(input, { ...more, signal: inner.signal })),
      inner.signal,
    );
    return result.code === "aborted" && inner.signal.reason === late ? tooLate(late) : result;
  } catch (error) {
    if (error === late) return tooLate(late);
    return { content: "It was interrupted.", isError: true, code: "aborted" };
  } finally {
    signal?.removeEventListener("abort", onAbort);
    stop();
  }
}

function tooLate({ message }: Error): ToolResult {
  return { content: `${message}.`, isError: true, code: "tool-timeout" };
}
