import type { ApprovalRequest } from "../host/approval.ts";
import type {
  CapabilityProvider,
  Credential,
  OperationDescription,
  ProviderAnswer,
  VaultEntry,
} from "../host/capability-contract.ts";
import { findSchemaProblem } from "../host/json-schema.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../util/objects.ts";
import type { Secrets } from "../util/redact.ts";
import { findNearest } from "../util/text.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import {
  type BrokerContext,
  countCall,
  createProviderContext,
  createShortDigest,
  digestJson,
  findProviderOperation,
  getUserId,
  loadProviderDescription,
  REQUEST_WITHDRAWN,
  redactJson,
  requestBrokerApproval,
} from "./broker-context.ts";
import {
  type BrokerAnswer,
  createErrorAnswer,
  type InvokeResult,
  markAsRepeated,
  refuseRequest,
} from "./broker-protocol.ts";
import {
  collectCredentialSecrets,
  filterCredentials,
  formatOtherAccounts,
  matchesAccount,
} from "./credential-filter.ts";
import { toProviderError, withProviderTimeout } from "./provider-contract.ts";
import { validateCredential } from "./sign-in-input.ts";

/** Calls an operation of a capability: one check after the other, each with its own code. Contract: resolves. */
export async function invokeCapability(
  scene: BrokerContext,
  params: JsonObject,
  gone?: AbortSignal,
): Promise<BrokerAnswer> {
  const [start, until] = [performance.now(), scene.run.until()];
  const call = { ...parseCapabilityCall(params), gone };
  const checked = await checkCapabilityCall(scene, call);
  const answer = "ok" in checked ? checked : await performOnce(scene, checked);
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

function parseCapabilityCall(params: JsonObject): Omit<CapabilityCall, "gone"> {
  const { capability, operation, input = {}, account, key, approval } = params;
  const text = (value: unknown) => (typeof value === "string" ? value : undefined);
  const what = { capability: String(capability), operation: String(operation), input, account: text(account) };
  return { ...what, key: text(key), approval: text(approval), digest: digestJson(what) };
}

async function performOnce(scene: BrokerContext, call: CheckedCapabilityCall): Promise<BrokerAnswer> {
  const { key, digest } = call;
  if (key === undefined) return performCall(scene, call);
  const step = `capability-key:${createShortDigest(key)}`;
  const known = scene.keyed.get(key);
  const before = known?.digest ?? scene.run.done<string>(step)?.value;
  if (before !== undefined && before !== digest) return refuseReusedKey(key);
  if (known) return repeatAnswer((await known.answer) as BrokerAnswer);
  const answer = scene.run.step(step, async () => digest).then(() => performCall(scene, call));
  scene.keyed.set(key, { digest, answer });
  const came = await answer;
  if (!came.ok && came.error.code === REQUEST_WITHDRAWN) scene.keyed.delete(key); // Nobody was answered, and nothing was done.
  return came;
}

async function performCall(scene: BrokerContext, call: CheckedCapabilityCall): Promise<BrokerAnswer> {
  if (call.does.mutating) return performMutation(scene, call);
  return countCall(scene) ?? callProvider(scene, call, `${scene.run.run}:${createCallName(scene, call)}`);
}

function refuseReusedKey(key: string): BrokerAnswer {
  return refuseRequest(
    "key-used",
    `The key "${key}" was used for another call`,
    "take another key for another call; the same key is for the same call again",
  );
}

function repeatAnswer(answer: BrokerAnswer): BrokerAnswer {
  if (answer.ok) return markAsRepeated(answer);
  const { code, message, fix } = answer.error;
  return refuseRequest(
    code,
    message,
    `${fix ? `${fix}; ` : ""}this is what came of it before: take another key to try anew`,
  );
}

/** One call, with what is found out of it on the way. */
interface CapabilityCall {
  readonly capability: string;
  readonly operation: string;
  readonly input: unknown;
  readonly account: string | undefined;
  readonly key: string | undefined;
  readonly approval: string | undefined;
  /** Ends when whoever asks waits for it no longer. */
  readonly gone: AbortSignal | undefined;
  /** What somebody agrees to: exactly this. */
  readonly digest: string;
}

/** A call that passed all checks but somebody's word. */
interface CheckedCapabilityCall extends CapabilityCall {
  provider: CapabilityProvider;
  does: OperationDescription;
  credential: Credential | undefined;
}

/** Whether it may be asked for at all, from what is cheapest to know on. */
async function checkCapabilityCall(
  scene: BrokerContext,
  call: CapabilityCall,
): Promise<CheckedCapabilityCall | (BrokerAnswer & { ok: false })> {
  const { run, capabilities } = scene;
  const { capability, operation, input, account } = call;
  const refusal = refuseCapability(scene, capability);
  const provider = capabilities.providerOf(capability, run.skill);
  if (refusal || !provider) return refusal ?? refuseCaller(capability);
  const sought = await findProviderOperation(scene, provider, capability, operation).catch((error) => ({ error }));
  if ("error" in sought) return createErrorAnswer(sought.error, run.hide);
  if (!("found" in sought)) {
    const meant = findNearest(operation, sought.names);
    const near = meant === undefined ? "" : `did you mean "${meant}"? `;
    return refuseRequest(
      "operation-unknown",
      `${capability} has no operation "${operation}"`,
      `${near}it has: ${sought.names.join(", ") || "none"}`,
    );
  }
  const does = sought.found;
  // As it is shown and sent on: `1e400` is a number only until it is written.
  const own = JSON.parse(JSON.stringify(input));
  const problem =
    JSON.stringify(own).length > MAX_INPUT_LENGTH ? INPUT_TOO_LARGE : await findSchemaProblem(does.inputSchema, own);
  if (problem !== undefined)
    return refuseRequest("input-invalid", problem, `it takes: ${formatSchemaFields(does.inputSchema)}`);
  const found = await findCredential(scene, provider, call, does);
  if ("ok" in found) return found;
  return { ...call, input: own, account, provider, does, credential: found.credential };
}

const MAX_INPUT_LENGTH = 256 * 1024;
const INPUT_TOO_LARGE = "Invalid input: it is larger than 256 KiB";

/** Why a capability is not for this run: it did not declare it, was not given it, or its caller may not have it. */
export function refuseCapability(
  { run, capabilities }: BrokerContext,
  id: string,
): (BrokerAnswer & { ok: false }) | undefined {
  const { skill, caller } = run;
  const revoked = run.revoked?.();
  if (revoked) return refuseRequest(revoked.code, revoked.message, "tell the user");
  const declared = skill.manifest.capabilities;
  // Whether there is such a one is not told: for this skill there is none.
  if (!declared.includes(id)) {
    const fix = declared.length === 0 ? "it declares none" : `it declares: ${declared.join(", ")}`;
    return refuseRequest("capability-undeclared", `Skill '${skill.name}' declares no capability "${id}"`, fix);
  }
  if (!capabilities.isGranted(id, skill))
    return refuseRequest("capability-not-granted", `Skill '${skill.name}' was not given ${id}`, "tell the user");
  const isHere = capabilities.providerOf(id, skill) && capabilities.isVisible(id, caller, skill);
  return isHere ? undefined : refuseCaller(id);
}

function refuseCaller(id: string): BrokerAnswer & { ok: false } {
  return refuseRequest("context-denied", `${id} is not there for this caller`, "tell the user");
}

/** Who is signed in, where anybody is: a provider may need nobody. */
async function findCredential(
  scene: BrokerContext,
  provider: CapabilityProvider,
  { account, capability }: CapabilityCall,
  { scopes = [] }: OperationDescription,
): Promise<{ credential: Credential | undefined } | (BrokerAnswer & { ok: false })> {
  const { namespace, origin } = provider;
  const { vault } = scene.capabilities;
  const user = getUserId(scene.run);
  const login = `skillet auth login ${namespace}`;
  let credential: Credential | undefined;
  let kept: VaultEntry[] = [];
  try {
    credential = vault.get(namespace, { user, account, origin });
    if (!credential) kept = vault.list().filter((entry) => matchesAccount(entry, namespace, { user }));
  } catch (error) {
    return createErrorAnswer(error, scene.run.hide, "vault-unreadable");
  }
  // One who needs nobody is not kept from serving by a sign-in of another who did.
  const isNeeded =
    account !== undefined || (kept.length > 0 && (await loadProviderDescription(scene, provider)).hasAuth !== false);
  if (!credential && isNeeded) {
    const who = account === undefined ? "" : ` as "${account}"`;
    const message = `Nobody is signed in to ${namespace}${who}${formatOtherAccounts(kept, origin)}`;
    return refuseRequest("auth-needed", scene.run.hide(message), `the user runs: ${login}`);
  }
  const { scopes: agreed = [] } = credential ?? {};
  // Of many a token it is not told what it is good for: then its provider has to know.
  const missing = agreed.length === 0 ? [] : scopes.filter((scope) => !agreed.includes(scope));
  if (missing.length > 0) {
    // With all of them: the next sign-in takes the place of this one.
    const all = [...agreed, ...missing].join(" --scope ");
    return refuseRequest(
      "scope-missing",
      `${capability} needs more than was agreed to at sign-in: ${missing.join(", ")}`,
      `the user runs: ${login} --scope ${all}`,
    );
  }
  return { credential };
}

/** `title (required), text, limit`. */
function formatSchemaFields(schema: JsonObject): string {
  const properties = isJsonObject(schema["properties"]) ? Object.keys(schema["properties"]) : [];
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return properties.map((name) => (required.includes(name) ? `${name} (required)` : name)).join(", ") || "nothing";
}

/**
 * An operation that changes something: done once for one word of somebody's, on exactly these arguments. What was done stays done when
 * the run is gone on with; what was begun and whose end nobody knows is asked about again.
 */
async function performMutation(scene: BrokerContext, call: CheckedCapabilityCall): Promise<BrokerAnswer> {
  const { run } = scene;
  const name = createCallName(scene, call);
  let attempt = name;
  for (let again = 1; ; again++) {
    const known = run.done<BrokerAnswer>(formatResultStep(attempt));
    if (known) return markAsRepeated(known.value);
    if (!run.done(formatStartStep(attempt))) break;
    attempt = `${name}.again${again}`;
  }
  const approval = `apr_${createShortDigest([run.run, attempt, call.digest]).slice(0, 20)}`;
  const refusal =
    (await approveMutation(scene, call, { attempt, approval, isAgain: attempt !== name })) ?? countCall(scene);
  if (refusal) return refusal;
  scene.words.set(approval, call.digest);
  // Written down first: whoever cannot say what was done does not do it.
  const { capability, operation, digest, credential } = call;
  const account = credential && { account: run.hide(credential.account) };
  scene.audit({ method: "invoke", outcome: "begun", capability, operation, input: digest, approval, ...account });
  await run.step(formatStartStep(attempt), async () => true);
  return run.step(formatResultStep(attempt), async () => {
    // Not the attempt's: who did it before, and remembers, does not do it twice.
    const answer = await callProvider(scene, call, `${run.run}:${name}`);
    if (answer.ok) return { ok: true, result: { ...answer.result, approval } };
    return UNKNOWN_OUTCOME_CODES.has(answer.error.code)
      ? { ok: false, error: { ...answer.error, fix: UNKNOWN_OUTCOME_FIX } }
      : answer;
  });
}

/** It was asked for, and nobody said whether it was done. */
const UNKNOWN_OUTCOME_CODES = new Set([
  ...["provider-timeout", "provider-failed", "provider-answer", "unavailable"],
  ...["output-invalid", "output-too-large"],
]);
const UNKNOWN_OUTCOME_FIX = "whether it was done is not known: look, before it is tried again";

/** The same for the same call at the same place of the run, however often it is gone on with. */
function createCallName(scene: BrokerContext, { key, digest }: CheckedCapabilityCall): string {
  if (key !== undefined) return `key.${createShortDigest([key, digest])}`;
  const at = `${scene.place}.${createShortDigest(digest)}`;
  const times = (scene.seen.get(at) ?? 0) + 1;
  scene.seen.set(at, times);
  return `${at}.${times}`;
}

function formatResultStep(name: string): string {
  return `capability:${name}`;
}

function formatStartStep(name: string): string {
  return `capability-begun:${name}`;
}

interface MutationAttempt {
  attempt: string;
  approval: string;
  isAgain: boolean;
}

async function approveMutation(
  scene: BrokerContext,
  call: CheckedCapabilityCall,
  asking: MutationAttempt,
): Promise<(BrokerAnswer & { ok: false }) | undefined> {
  const { approval: given, digest, gone } = call;
  if (given !== undefined) return refuseApprovalId(scene, given, digest);
  const effect = createMutationRequest(scene, call, asking);
  return requestBrokerApproval(scene, { name: `approval:${asking.attempt}`, effect, about: asking.approval, gone });
}

/** A word is for one call with its arguments, and was used for that: what is wrong with one that is brought along. */
function refuseApprovalId({ words }: BrokerContext, id: string, digest: string): BrokerAnswer & { ok: false } {
  const known = words.get(id);
  const fix = "leave the approval out: the user is asked again";
  if (!known) return refuseRequest("approval-unknown", `Nobody has given the approval "${id}" in this run`, fix);
  if (known !== digest) return refuseRequest("approval-other", `The approval "${id}" was given for another call`, fix);
  return refuseRequest("approval-used", `The approval "${id}" was used: one holds for one call`, fix);
}

function createMutationRequest(
  { run }: BrokerContext,
  call: CheckedCapabilityCall,
  { isAgain }: MutationAttempt,
): ApprovalRequest {
  const { capability, operation, input, does, provider, credential } = call;
  const from = run.originsOf(input, does.inputSchema);
  const say = (text: string) => sanitizeLine(run.hide(text), 500);
  return {
    run: run.run,
    skill: run.skill.name,
    source: run.skill.origin.source,
    place: run.place,
    tool: `${capability}.${operation}`,
    input: redactJson(input, run.hide),
    on: "outside",
    what: say(isAgain ? `${does.description} (${RETRY_NOTE})` : does.description),
    where: say(credential ? `${provider.namespace}, as ${credential.account}` : provider.namespace),
    ...(does.isReversible === undefined ? {} : { isReversible: does.isReversible }),
    reason: "it changes something outside of the workspace",
    isOnce: true,
    ...(from.length > 0 ? { from } : {}),
  };
}

const RETRY_NOTE = "it was begun before, and how that ended is not known: it may have been done already";

/** In characters, as JSON. */
const MAX_OUTPUT_LENGTH = 1024 * 1024;

/** Asks a provider, and takes out of its answer what is nobody's to see. Contract: resolves, in the provider's time. */
async function callProvider(scene: BrokerContext, call: CheckedCapabilityCall, key: string): Promise<BrokerAnswer> {
  const { provider, does, capability, operation, credential } = call;
  let answer: ProviderAnswer;
  try {
    const { namespace, seconds, origin } = provider;
    const asked = { capability, operation, input: call.input, context: createProviderContext(scene.run), key };
    answer = await withProviderTimeout(
      (signal) => provider.invoke({ ...asked, ...omitUndefined({ credential }) }, { signal }),
      {
        ...{ namespace, seconds, signal: scene.run.signal },
      },
    );
    if (answer.credential) {
      const renewed = validateCredential(namespace, answer.credential);
      scene.capabilities.vault.set(namespace, getUserId(scene.run), renewed, { origin, isRenewed: true });
    }
  } catch (error) {
    return redactAnswer(
      attributeToProvider(createErrorAnswer(toProviderError(error, provider.namespace), scene.run.hide)),
      collectCredentialSecrets(credential),
    );
  }
  const { output } = answer;
  const text = stringifyOutput(output);
  if (text === undefined)
    return refuseRequest("provider-answer", `What ${capability} gave is no JSON`, "tell the user");
  if (text.length > MAX_OUTPUT_LENGTH) {
    return refuseRequest(
      "output-too-large",
      `What ${capability} gave is larger than 1 MiB`,
      "ask for less: a limit, one item",
    );
  }
  // As a check of the provider, not of what it found: what does not fit is not passed on.
  const problem = does.outputSchema && (await findSchemaProblem(does.outputSchema, structuredClone(output), "lenient"));
  if (problem !== undefined) {
    return refuseRequest(
      "output-invalid",
      `What ${capability} gave is not what it says that it gives`,
      "tell the user",
    );
  }
  const secrets = collectCredentialSecrets(credential, answer.credential);
  const { value: found, removed } = filterCredentials(JSON.parse(text), secrets);
  // It is written down, and a skill may have sent its own secrets there.
  const value = redactJson(found, scene.run.hide);
  scene.run.addOrigin(`${capability} ${operation}`, JSON.stringify(value));
  const result: InvokeResult = {
    ...{ capability, operation, label: "untrusted", output: value },
    ...(removed > 0 ? { removed } : {}),
  };
  return { ok: true, result: { ...result } };
}

/** Of what others wrote it is said that they did: it is no next step of ours. */
function attributeToProvider(answer: BrokerAnswer & { ok: false }): BrokerAnswer & { ok: false } {
  const { code, message, fix } = answer.error;
  if (code.startsWith("provider-")) return answer;
  return refuseRequest(code, `The provider says: ${message}`, fix && `the provider says: ${fix}`);
}

function redactAnswer(answer: BrokerAnswer & { ok: false }, secrets: Secrets): BrokerAnswer {
  return { ok: false, error: filterCredentials(answer.error, secrets).value as typeof answer.error };
}

function stringifyOutput(output: unknown): string | undefined {
  try {
    return JSON.stringify(output ?? null);
  } catch {
    return undefined;
  }
}
