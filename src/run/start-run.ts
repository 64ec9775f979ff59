/** Work under way: await it for the result, iterate it for the events, abort it. */
export interface Run<Event, Result> extends PromiseLike<Result>, AsyncIterable<Event> {
  abort(): void;
}

/** Contract of `work`: it resolves, also when it was aborted or refused. `emit` never throws. */
export function startRun<Event, Result>(
  work: (emit: (event: Event) => void, signal: AbortSignal) => Promise<Result>,
  outer?: AbortSignal,
): Run<Event, Result> {
  const controller = new AbortController();
  const signal = outer ? AbortSignal.any([outer, controller.signal]) : controller.signal;
  const events: Event[] = [];
  let isOver = false;
  const waiting: (() => void)[] = [];
  const wake = () => {
    for (const resume of waiting.splice(0)) resume();
  };
  const emit = (event: Event) => {
    events.push(event);
    wake();
  };
  const result = work(emit, signal).finally(() => {
    isOver = true;
    wake();
  });
  result.then(undefined, () => {}); // Whoever awaits it is told; nobody else is.
  return {
    // biome-ignore lint/suspicious/noThenProperty: a run is awaited like a promise
    then: (fulfilled, rejected) => result.then(fulfilled, rejected),
    abort: () => controller.abort(),
    async *[Symbol.asyncIterator]() {
      for (let next = 0; ; ) {
        while (next < events.length) yield events[next++] as Event;
        if (isOver) return void (await result);
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
    },
  };
}
