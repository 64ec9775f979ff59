import { type Answer, refused } from "./answer.ts";
import type { Scene } from "./scene.ts";

/** How much a run may ask of providers. Counted when one is about to be asked. */
export function overCalls(scene: Scene): (Answer & { ok: false }) | undefined {
  const { calls } = scene.capabilities.quota;
  if (scene.calls >= calls) return quotaReached(`${calls} calls of capabilities`, "calls_per_run");
  scene.calls++;
  return undefined;
}

/**
 * How often its user is asked about a change. Counted with the question, and written down: who asks until somebody is tired, or lets the run
 * wait each time, gets no more answers than others.
 */
export async function overChanges(scene: Scene, question: string): Promise<(Answer & { ok: false }) | undefined> {
  const { changes } = scene.capabilities.quota;
  const { run, asked } = scene;
  if (asked.size === 0) for (const name of askedBefore(scene)) asked.add(name);
  if (asked.has(question)) return undefined;
  if (asked.size >= changes)
    return quotaReached(`${changes} changes, with those that were not agreed to`, "changes_per_run");
  const step = stepOf(asked.size);
  asked.add(question);
  await run.step(step, async () => question);
  return undefined;
}

function* askedBefore({ run }: Scene): Generator<string> {
  for (let number = 0; ; number++) {
    const known = run.done<string>(stepOf(number));
    if (!known) return;
    yield known.value;
  }
}

function stepOf(number: number): string {
  return `capability-asked:${number}`;
}

function quotaReached(what: string, key: string): Answer & { ok: false } {
  return refused(
    "quota-reached",
    `This run has made all of its ${what}`,
    `finish with what there is; the operator's limit is [capabilities] ${key} in config.toml`,
  );
}
