/** Work under way: await it for the result, iterate it for the events, abort it. */
export interface Run<Event, Result> extends PromiseLike<Result>, AsyncIterable<Event> {
  abort(): void;
}

interface Link<Event> {
  event?: Event;
  next?: Link<Event>;
}

/** How many events are kept for somebody who comes late. */
const MOST_KEPT = 10_000;

/** Contract of `work`: it resolves, also when it was aborted or refused. `emit` never throws. */
export function startRun<Event, Result>(
  work: (emit: (event: Event) => void, signal: AbortSignal) => Promise<Result>,
  outer?: AbortSignal,
): Run<Event, Result> {
  const controller = new AbortController();
  const signal = outer ? AbortSignal.any([outer, controller.signal]) : controller.signal;
  // Whoever iterates holds the place that it has come to: what all have seen is let go of. Until somebody does, the last ones are kept.
  let last: Link<Event> = {};
  let first: Link<Event> | undefined = last;
  let kept = 0;
  let isOver = false;
  const waiting: (() => void)[] = [];
  const wake = () => {
    for (const resume of waiting.splice(0)) resume();
  };
  const emit = (event: Event) => {
    last.next = {};
    last.event = event;
    last = last.next;
    if (first && ++kept > MOST_KEPT) first = first.next;
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
      let at = first ?? last;
      first = undefined;
      for (;;) {
        for (; at.next; at = at.next) yield at.event as Event;
        if (isOver) return void (await result);
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
    },
  };
}
