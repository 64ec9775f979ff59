import type { Effect } from "../host/approvals.ts";
import { inLine } from "../shared/prompt.ts";
import { agreeTo } from "./agree.ts";
import { type Answer, refused, remembered } from "./answer.ts";
import { askProvider } from "./ask-provider.ts";
import type { Checked } from "./checks.ts";
import { overCalls } from "./quota.ts";
import { hiddenIn, nameFor, type Scene } from "./scene.ts";

/**
 * An operation that changes something: done once for one word of somebody's, on exactly these arguments. What was done stays done when
 * the run is gone on with; what was begun and whose end nobody knows is asked about again.
 */
export async function change(scene: Scene, call: Checked): Promise<Answer> {
  const { run } = scene;
  const name = nameOf(scene, call);
  let attempt = name;
  for (let again = 1; ; again++) {
    const known = run.done<Answer>(stepOf(attempt));
    if (known) return remembered(known.value);
    if (!run.done(begunOf(attempt))) break;
    attempt = `${name}.again${again}`;
  }
  const approval = `apr_${nameFor([run.run, attempt, call.digest]).slice(0, 20)}`;
  const refusal = (await agreed(scene, call, { attempt, approval, isAgain: attempt !== name })) ?? overCalls(scene);
  if (refusal) return refusal;
  scene.words.set(approval, call.digest);
  // Written down first: whoever cannot say what was done does not do it.
  const { capability, operation, digest, credential } = call;
  const account = credential && { account: run.hide(credential.account) };
  scene.audit({ method: "invoke", outcome: "begun", capability, operation, input: digest, approval, ...account });
  await run.step(begunOf(attempt), async () => true);
  return run.step(stepOf(attempt), async () => {
    // Not the attempt's: who did it before, and remembers, does not do it twice.
    const answer = await askProvider(scene, call, `${run.run}:${name}`);
    if (answer.ok) return { ok: true, result: { ...answer.result, approval } };
    return UNKNOWN_END.has(answer.error.code) ? { ok: false, error: { ...answer.error, fix: LOOK_FIRST } } : answer;
  });
}

/** It was asked for, and nobody said whether it was done. */
const UNKNOWN_END = new Set([
  ...["provider-timeout", "provider-failed", "provider-answer", "unavailable"],
  ...["output-invalid", "output-too-large"],
]);
const LOOK_FIRST = "whether it was done is not known: look, before it is tried again";

/** The same for the same call at the same place of the run, however often it is gone on with. */
export function nameOf(scene: Scene, { key, digest }: Checked): string {
  if (key !== undefined) return `key.${nameFor([key, digest])}`;
  const at = `${scene.place}.${nameFor(digest)}`;
  const times = (scene.seen.get(at) ?? 0) + 1;
  scene.seen.set(at, times);
  return `${at}.${times}`;
}

function stepOf(name: string): string {
  return `capability:${name}`;
}

function begunOf(name: string): string {
  return `capability-begun:${name}`;
}

interface Asking {
  attempt: string;
  approval: string;
  isAgain: boolean;
}

async function agreed(scene: Scene, call: Checked, asking: Asking): Promise<(Answer & { ok: false }) | undefined> {
  const { approval: given, digest, gone } = call;
  if (given !== undefined) return wordProblem(scene, given, digest);
  const effect = effectOf(scene, call, asking);
  return agreeTo(scene, { name: `approval:${asking.attempt}`, effect, about: asking.approval, gone });
}

/** A word is for one call with its arguments, and was used for that: what is wrong with one that is brought along. */
function wordProblem({ words }: Scene, id: string, digest: string): Answer & { ok: false } {
  const known = words.get(id);
  const fix = "leave the approval out: the user is asked again";
  if (!known) return refused("approval-unknown", `Nobody has given the approval "${id}" in this run`, fix);
  if (known !== digest) return refused("approval-other", `The approval "${id}" was given for another call`, fix);
  return refused("approval-used", `The approval "${id}" was used: one holds for one call`, fix);
}

function effectOf({ run }: Scene, call: Checked, { isAgain }: Asking): Effect {
  const { capability, operation, input, does, provider, credential } = call;
  const from = run.originsOf(input, does.inputSchema);
  const say = (text: string) => inLine(run.hide(text), 500);
  return {
    run: run.run,
    skill: run.skill.name,
    source: run.skill.origin.source,
    place: run.place,
    tool: `${capability}.${operation}`,
    input: hiddenIn(input, run.hide),
    on: "outside",
    what: say(isAgain ? `${does.description} (${AGAIN})` : does.description),
    where: say(credential ? `${provider.namespace}, as ${credential.account}` : provider.namespace),
    ...(does.isReversible === undefined ? {} : { isReversible: does.isReversible }),
    reason: "it changes something outside of the workspace",
    isOnce: true,
    ...(from.length > 0 ? { from } : {}),
  };
}

const AGAIN = "it was begun before, and how that ended is not known: it may have been done already";
