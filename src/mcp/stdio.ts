import type { Readable, Writable } from "node:stream";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { reason } from "../shared/inside.ts";
import { oneLine } from "../shared/text.ts";
import { openLines } from "./lines.ts";
import type { Serving } from "./serve.ts";

export interface StdioStreams {
  input: Readable;
  output: Writable;
}

/** Serves one client over two streams, whichever revision it speaks. Resolves when it has gone, or with the signal, once its session is over. */
export async function serveStreams(
  serving: Serving,
  { input, output }: StdioStreams,
  { signal, onNotice }: { signal?: AbortSignal; onNotice?(text: string): void } = {},
): Promise<void> {
  const gone = Promise.withResolvers<void>();
  for (const event of ["end", "close", "error"]) input.once(event, gone.resolve);
  output.once("error", gone.resolve);
  signal?.addEventListener("abort", () => gone.resolve(), { once: true });
  if (signal?.aborted) gone.resolve();
  let told = 0;
  const handle = serveStdio(() => serving.open(), {
    transport: openLines({ input, output }),
    onerror: (error) => {
      if (++told <= MOST_NOTICES) onNotice?.(oneLine(reason(error), 300));
    },
  });
  await gone.promise;
  await handle.close();
}

/** Some clients never read what is said on stderr: once that is full, nothing goes on. */
const MOST_NOTICES = 20;
