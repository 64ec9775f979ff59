/** How long work may take to end once it was told to. */
const GRACE_MS = 2000;

/** Work that is to end with a signal. Who does not listen is not waited for: rejects with the signal's reason then. */
export async function untilAborted<T>(work: PromiseLike<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  let grace: NodeJS.Timeout | undefined;
  const onAbort = () => {
    grace = setTimeout(() => reject(signal.reason), GRACE_MS);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    clearTimeout(grace);
  }
}
