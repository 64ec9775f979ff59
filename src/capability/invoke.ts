import type { Data } from "../skill/data.ts";
import { WITHDRAWN } from "./agree.ts";
import { type Answer, refused, remembered } from "./answer.ts";
import { askProvider } from "./ask-provider.ts";
import { change, nameOf } from "./change.ts";
import { type Call, type Checked, check } from "./checks.ts";
import { overCalls } from "./quota.ts";
import { digestOf, nameFor, type Scene } from "./scene.ts";

/** Calls an operation of a capability: one check after the other, each with its own code. Contract: resolves. */
export async function invoke(scene: Scene, params: Data, gone?: AbortSignal): Promise<Answer> {
  const [start, until] = [performance.now(), scene.run.until()];
  const call = { ...readCall(params), gone };
  const checked = await check(scene, call);
  const answer = "ok" in checked ? checked : await answerTo(scene, checked);
  // Without what somebody thought about it.
  const ms = Math.max(0, Math.round((performance.now() - start - (scene.run.until() - until)) * 100) / 100);
  const outcome = answer.ok ? "ok" : answer.error.code;
  // Whatever it says: a name that is none may be a secret.
  const [capability, operation] = [call.capability, call.operation].map(scene.run.hide) as [string, string];
  const { digest } = call;
  const account = "ok" in checked ? call.account : (checked.credential?.account ?? call.account);
  const { approval, removed, is_repeated: isRepeated } = answer.ok ? answer.result : {};
  const more = {
    ...(isRepeated === true ? { outcome: "repeated" } : {}),
    ...(account === undefined ? {} : { account: scene.run.hide(account) }),
    ...(typeof approval === "string" ? { approval } : {}),
    ...(typeof removed === "number" ? { removed } : {}),
  };
  scene.audit({ method: "invoke", outcome, capability, operation, input: digest, ms, ...more });
  scene.run.onCalled?.({ capability, operation, outcome, ms });
  return answer;
}

function readCall(params: Data): Omit<Call, "gone"> {
  const { capability, operation, input = {}, account, key, approval } = params;
  const text = (value: unknown) => (typeof value === "string" ? value : undefined);
  const what = { capability: String(capability), operation: String(operation), input, account: text(account) };
  return { ...what, key: text(key), approval: text(approval), digest: digestOf(what) };
}

async function answerTo(scene: Scene, call: Checked): Promise<Answer> {
  const { key, digest } = call;
  if (key === undefined) return perform(scene, call);
  const step = `capability-key:${nameFor(key)}`;
  const known = scene.keyed.get(key);
  const before = known?.digest ?? scene.run.done<string>(step)?.value;
  if (before !== undefined && before !== digest) return otherArguments(key);
  if (known) return repeated((await known.answer) as Answer);
  const answer = scene.run.step(step, async () => digest).then(() => perform(scene, call));
  scene.keyed.set(key, { digest, answer });
  const came = await answer;
  if (!came.ok && came.error.code === WITHDRAWN) scene.keyed.delete(key); // Nobody was answered, and nothing was done.
  return came;
}

async function perform(scene: Scene, call: Checked): Promise<Answer> {
  if (call.does.mutating) return change(scene, call);
  return overCalls(scene) ?? askProvider(scene, call, `${scene.run.run}:${nameOf(scene, call)}`);
}

function otherArguments(key: string): Answer {
  return refused(
    "key-used",
    `The key "${key}" was used for another call`,
    "take another key for another call; the same key is for the same call again",
  );
}

function repeated(answer: Answer): Answer {
  if (answer.ok) return remembered(answer);
  const { code, message, fix } = answer.error;
  return refused(code, message, `${fix ? `${fix}; ` : ""}this is what came of it before: take another key to try anew`);
}
