import type { Effect } from "../host/approvals.ts";
import type { Credential } from "../host/capabilities.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";
import type { Data } from "../skill/data.ts";
import { agreeTo } from "./agree.ts";
import { type Answer, failure, refused } from "./answer.ts";
import { notFor } from "./checks.ts";
import { contextOf, type Scene, userOf } from "./scene.ts";

/** A step of signing in, asked for from a run. Contract: resolves. */
export async function signIn(scene: Scene, step: "begin" | "complete" | "poll", params: Data): Promise<Answer> {
  const { capability: named, flow } = params;
  // Before it is over: then nobody knows it any more.
  const aim = typeof named === "string" ? named : scene.auth.aimOf(String(flow), userOf(scene.run));
  const answer = await answerTo(scene, step, params).catch((error) => failure(error, scene.run.hide));
  const outcome = answer.ok ? "ok" : answer.error.code;
  scene.audit({ method: `auth.${step}`, outcome, ...(aim === undefined ? {} : { capability: scene.run.hide(aim) }) });
  return answer;
}

async function answerTo(scene: Scene, step: "begin" | "complete" | "poll", params: Data): Promise<Answer> {
  const { run, capabilities } = scene;
  const { signal, skill } = run;
  const user = userOf(run);
  const { auth } = scene;
  const flow = String(params["flow"]);
  if (step === "complete") return done(await auth.complete(flow, String(params["callback"]), user, { signal }));
  if (step === "poll") return done(await auth.poll(flow, user, { signal }));
  const capability = String(params["capability"]);
  const refusal = notFor(scene, capability);
  const provider = capabilities.providerOf(capability, skill);
  if (refusal || !provider) return refusal ?? failure(undefined, run.hide);
  if (++scene.signIns > MOST_SIGN_INS) {
    return refused("quota-reached", `This run has begun ${MOST_SIGN_INS} sign-ins`, "go on with one of them, or end");
  }
  const scopes = params["scopes"] as readonly string[] | undefined;
  const request = { capability, context: contextOf(run), ...defined({ scopes }) };
  return done(await auth.begin(provider, request, user, { signal }));
}

/** Each is kept in the vault for a while, where there is room for so many: no skill takes it from everybody else. */
const MOST_SIGN_INS = 10;

/**
 * Whose sign-in is kept is not for a skill's code to choose: from then on every skill that was given the capability acts as that account, and
 * writes where its owner reads. Throws a SkillError where nobody agrees.
 */
export async function agreeToSignIn(
  scene: Scene,
  flow: string,
  { namespace, credential }: { namespace: string; credential: Credential },
): Promise<void> {
  const { run } = scene;
  const { account, scopes = [] } = credential;
  const say = (text: string) => inLine(run.hide(text), 300);
  const effect: Effect = {
    ...{ run: run.run, skill: run.skill.name, source: run.skill.origin.source, place: run.place },
    tool: `${namespace}.sign-in`,
    input: { account: say(account), ...(scopes.length > 0 ? { scopes: scopes.map(say) } : {}) },
    on: "outside",
    what: `Keeps this sign-in: from now on all skills that were given ${namespace} act as ${say(account)}.`,
    where: `${namespace}, as ${say(account)}`,
    isReversible: true,
    reason: "it changes something outside of the workspace",
    isOnce: true,
  };
  const refusal = await agreeTo(scene, { name: `approval:auth.${flow}`, effect, about: effect.tool });
  if (refusal) throw new SkillError(refusal.error.code, refusal.error);
}

function done(result: object): Answer {
  return { ok: true, result: { ...result } };
}
