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
  reserveRenewal,
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

/** Calls an operation of a capability after a series of checks, each with its own error code. Contract: resolves. */
export async function invokeCapability(
  context: BrokerContext,
  params: JsonObject,
  clientSignal?: AbortSignal,
): Promise<BrokerAnswer> {
  const [start, until] = [performance.now(), context.run.getDeadline()];
  const call = { ...parseCapabilityCall(params), clientSignal };
  const checked = await checkCapabilityCall(context, call);
  const answer = "ok" in checked ? checked : await performOnce(context, checked);
  // Excludes the time spent waiting for approvals.
  const ms = Math.max(0, Math.round((performance.now() - start - (context.run.getDeadline() - until)) * 100) / 100);
  const outcome = answer.ok ? "ok" : answer.error.code;
  // Redacted even if unknown: an invalid name may be a secret.
  const [capability, operation] = [call.capability, call.operation].map(context.run.redact) as [string, string];
  const { digest } = call;
  const account = "ok" in checked ? call.account : (checked.credential?.account ?? call.account);
  const { approval, removed, is_repeated: isRepeated } = answer.ok ? answer.result : {};
  const more = {
    ...(isRepeated === true ? { outcome: "repeated" } : {}),
    ...(account === undefined ? {} : { account: context.run.redact(account) }),
    ...(typeof approval === "string" ? { approval } : {}),
    ...(typeof removed === "number" ? { removed } : {}),
  };
  await context.audit({ method: "invoke", outcome, capability, operation, input: digest, ms, ...more });
  context.run.onCalled?.({ capability, operation, outcome, ms });
  return answer;
}

function parseCapabilityCall(params: JsonObject): Omit<CapabilityCall, "clientSignal"> {
  const { capability, operation, input = {}, account, key, approval } = params;
  const text = (value: unknown) => (typeof value === "string" ? value : undefined);
  const what = { capability: String(capability), operation: String(operation), input, account: text(account) };
  return { ...what, key: text(key), approval: text(approval), digest: digestJson(what) };
}

async function performOnce(context: BrokerContext, call: CheckedCapabilityCall): Promise<BrokerAnswer> {
  const { key, digest } = call;
  if (key === undefined) return performCall(context, call);
  const step = `capability-key:${createShortDigest(key)}`;
  const known = context.answersByKey.get(key);
  const before = known?.digest ?? context.run.findStep<string>(step)?.value;
  if (before !== undefined && before !== digest) return refuseReusedKey(key);
  if (known) return repeatAnswer((await known.answer) as BrokerAnswer);
  const answer = context.run.step(step, async () => digest).then(() => performCall(context, call));
  context.answersByKey.set(key, { digest, answer });
  const result = await answer;
  if (!result.ok && result.error.code === REQUEST_WITHDRAWN) context.answersByKey.delete(key); // The client was gone, and nothing was done.
  return result;
}

async function performCall(context: BrokerContext, call: CheckedCapabilityCall): Promise<BrokerAnswer> {
  if (call.operationDescription.mutating) return performMutation(context, call);
  return countCall(context) ?? callProvider(context, call, `${context.run.run}:${createCallName(context, call)}`);
}

function refuseReusedKey(key: string): BrokerAnswer {
  return refuseRequest(
    "idempotency-key-reused",
    `The key "${key}" was used for another call`,
    "use a new key for each call; a key is only reused to repeat the same call",
  );
}

function repeatAnswer(answer: BrokerAnswer): BrokerAnswer {
  if (answer.ok) return markAsRepeated(answer);
  const { code, message, fix, commands } = answer.error;
  const repeated = "this is the recorded answer: use another key to try again";
  return refuseRequest(code, message, fix === "" ? repeated : `${repeated}; ${fix}`, commands);
}

/** One call, with what the checks find out about it. */
interface CapabilityCall {
  readonly capability: string;
  readonly operation: string;
  readonly input: unknown;
  readonly account: string | undefined;
  readonly key: string | undefined;
  readonly approval: string | undefined;
  /** Aborts when the client disconnects. */
  readonly clientSignal: AbortSignal | undefined;
  /** The digest of the capability, operation, input and account: an approval covers exactly this. */
  readonly digest: string;
}

/** A call that passed every check except the approval. */
interface CheckedCapabilityCall extends CapabilityCall {
  provider: CapabilityProvider;
  operationDescription: OperationDescription;
  credential: Credential | undefined;
}

/** Checks if a call is allowed, cheapest checks first. */
async function checkCapabilityCall(
  context: BrokerContext,
  call: CapabilityCall,
): Promise<CheckedCapabilityCall | (BrokerAnswer & { ok: false })> {
  const { run, capabilities } = context;
  const { capability, operation, input } = call;
  const refusal = refuseCapability(context, capability);
  const provider = capabilities.findProvider(capability, run.skill);
  if (refusal || !provider) return refusal ?? refuseCaller(capability);
  const lookup = await findProviderOperation(context, provider, capability, operation).catch((error) => ({ error }));
  if ("error" in lookup) return createErrorAnswer(lookup.error, run.redact);
  if (!("found" in lookup)) {
    const nearest = findNearest(operation, lookup.names);
    const hint = nearest === undefined ? "" : `did you mean "${nearest}"? `;
    return refuseRequest(
      "operation-unknown",
      `${capability} has no operation "${operation}"`,
      `${hint}available: ${lookup.names.join(", ") || "none"}`,
    );
  }
  const description = lookup.found;
  // As it is shown and sent: `1e400` is a number only until it is serialized.
  const normalized = JSON.parse(JSON.stringify(input));
  const problem =
    JSON.stringify(normalized).length > MAX_INPUT_LENGTH
      ? INPUT_TOO_LARGE
      : await findSchemaProblem(description.inputSchema, normalized);
  if (problem !== undefined)
    return refuseRequest("input-invalid", problem, `input fields: ${formatSchemaFields(description.inputSchema)}`);
  const found = await findCredential(context, provider, call, description);
  if ("ok" in found) return found;
  return { ...call, ...found, input: normalized, provider, operationDescription: description };
}

const MAX_INPUT_LENGTH = 256 * 1024;
const INPUT_TOO_LARGE = "Invalid input: it is larger than 256 KiB";

/** Returns the refusal if this run may not use a capability: it is undeclared, not granted, or not available to the caller. */
export function refuseCapability(
  { run, capabilities }: BrokerContext,
  id: string,
): (BrokerAnswer & { ok: false }) | undefined {
  const { skill, caller } = run;
  const revoked = run.findRevocation?.();
  if (revoked) return refuseRequest(revoked.code, revoked.message, "tell the user");
  const declared = skill.manifest.capabilities;
  // Does not reveal that a capability exists: for this skill it does not.
  if (!declared.includes(id)) {
    const fix = declared.length === 0 ? "it declares none" : `it declares: ${declared.join(", ")}`;
    return refuseRequest("capability-undeclared", `Skill '${skill.name}' declares no capability "${id}"`, fix);
  }
  if (!capabilities.isGranted(id, skill))
    return refuseRequest("capability-not-granted", `Skill '${skill.name}' was not granted ${id}`, "tell the user");
  const isAvailable = capabilities.findProvider(id, skill) && capabilities.isVisible(id, caller, skill);
  return isAvailable ? undefined : refuseCaller(id);
}

function refuseCaller(id: string): BrokerAnswer & { ok: false } {
  return refuseRequest("context-denied", `${id} is not available to this caller`, "tell the user");
}

/** Finds the credential of the signed-in account, if there is one: not every provider needs it. */
async function findCredential(
  context: BrokerContext,
  provider: CapabilityProvider,
  { account, capability }: CapabilityCall,
  { scopes = [] }: OperationDescription,
): Promise<{ credential: Credential | undefined } | (BrokerAnswer & { ok: false })> {
  const { namespace, origin } = provider;
  const { vault } = context.capabilities;
  const user = getUserId(context.run);
  const login = `skillet auth login ${namespace}`;
  let credential: Credential | undefined;
  let entries: VaultEntry[] = [];
  try {
    credential = await vault.get(namespace, { user, account, origin });
    if (!credential) entries = (await vault.list()).filter((entry) => matchesAccount(entry, namespace, { user }));
  } catch (error) {
    return createErrorAnswer(error, context.run.redact, "vault-unreadable");
  }
  // A provider without sign-in is not blocked by the credential of another provider of its namespace.
  const isNeeded =
    account !== undefined ||
    (entries.length > 0 && (await loadProviderDescription(context, provider)).hasAuth !== false);
  if (!credential && isNeeded) {
    const who = account === undefined ? "" : ` as "${account}"`;
    const message = `No account is signed in to ${namespace}${who}${formatOtherAccounts(entries, origin)}`;
    return refuseRequest("auth-needed", context.run.redact(message), "the user runs", [login]);
  }
  const { scopes: granted = [] } = credential ?? {};
  // Many tokens do not report their scopes: then the provider has to check.
  const missing = granted.length === 0 ? [] : scopes.filter((scope) => !granted.includes(scope));
  if (missing.length > 0) {
    // Lists all scopes: the next sign-in replaces this one.
    const all = [...granted, ...missing].join(" --scope ");
    return refuseRequest(
      "scope-missing",
      `${capability} needs scopes that were not granted at sign-in: ${missing.join(", ")}`,
      "the user runs",
      [`${login} --scope ${all}`],
    );
  }
  return { credential };
}

/** Formats the fields as `title (required), text, limit`. */
function formatSchemaFields(schema: JsonObject): string {
  const properties = isJsonObject(schema["properties"]) ? Object.keys(schema["properties"]) : [];
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return properties.map((name) => (required.includes(name) ? `${name} (required)` : name)).join(", ") || "nothing";
}

/**
 * Performs a mutating operation: once per approval, with exactly these arguments. A result is kept when the run is resumed. If an attempt
 * was begun and its outcome is unknown, a new approval is requested.
 */
async function performMutation(context: BrokerContext, call: CheckedCapabilityCall): Promise<BrokerAnswer> {
  const { run } = context;
  const name = createCallName(context, call);
  let attempt = name;
  for (let again = 1; ; again++) {
    const known = run.findStep<BrokerAnswer>(formatResultStep(attempt));
    if (known) return markAsRepeated(known.value);
    if (!run.findStep(formatStartStep(attempt))) break;
    attempt = `${name}.again${again}`;
  }
  const approval = `apr_${createShortDigest([run.run, attempt, call.digest]).slice(0, 20)}`;
  const refusal =
    (await approveMutation(context, call, { attempt, approval, isAgain: attempt !== name })) ?? countCall(context);
  if (refusal) return refusal;
  context.usedApprovals.set(approval, call.digest);
  // Audited first: a change that cannot be recorded is not made.
  const { capability, operation, digest, credential } = call;
  const account = credential && { account: run.redact(credential.account) };
  const begun = { method: "invoke", outcome: "begun", capability, operation, input: digest, approval };
  await context.audit({ ...begun, ...account });
  await run.step(formatStartStep(attempt), async () => true);
  return run.step(formatResultStep(attempt), async () => {
    // The key of the call, not of the attempt: a provider that already did it does not repeat it.
    const answer = await callProvider(context, call, `${run.run}:${name}`);
    if (answer.ok) return { ok: true, result: { ...answer.result, approval } };
    return UNKNOWN_OUTCOME_CODES.has(answer.error.code)
      ? { ok: false, error: { ...answer.error, fix: UNKNOWN_OUTCOME_FIX } }
      : answer;
  });
}

/** Errors after which the change may or may not have been made. */
const UNKNOWN_OUTCOME_CODES = new Set([
  ...["provider-timeout", "provider-failed", "provider-answer-invalid", "unavailable"],
  ...["output-invalid", "output-too-large"],
]);
const UNKNOWN_OUTCOME_FIX = "the change may have been made: check before you try again";

/** Returns a name that is the same for the same call at the same point of the run, however often it is resumed. */
function createCallName(context: BrokerContext, { key, digest }: CheckedCapabilityCall): string {
  if (key !== undefined) return `key.${createShortDigest([key, digest])}`;
  const at = `${context.callId}.${createShortDigest(digest)}`;
  const times = (context.repeatCounts.get(at) ?? 0) + 1;
  context.repeatCounts.set(at, times);
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
  context: BrokerContext,
  call: CheckedCapabilityCall,
  attempt: MutationAttempt,
): Promise<(BrokerAnswer & { ok: false }) | undefined> {
  const { approval, digest, clientSignal } = call;
  if (approval !== undefined) return refuseApprovalId(context, approval, digest);
  const request = createMutationRequest(context, call, attempt);
  return requestBrokerApproval(context, {
    name: `approval:${attempt.attempt}`,
    request,
    label: attempt.approval,
    clientSignal,
  });
}

/** Explains why an approval id in a request is refused: an approval covers one call with its arguments, and is used up by it. */
function refuseApprovalId({ usedApprovals }: BrokerContext, id: string, digest: string): BrokerAnswer & { ok: false } {
  const known = usedApprovals.get(id);
  const fix = "omit the approval: the user is asked again";
  if (!known) return refuseRequest("approval-unknown", `This run has no approval "${id}"`, fix);
  if (known !== digest)
    return refuseRequest("approval-mismatch", `The approval "${id}" was given for another call`, fix);
  return refuseRequest("approval-used", `The approval "${id}" was already used: it covers one call`, fix);
}

function createMutationRequest(
  { run }: BrokerContext,
  call: CheckedCapabilityCall,
  { isAgain }: MutationAttempt,
): ApprovalRequest {
  const { capability, operation, input, operationDescription: description, provider, credential } = call;
  const from = run.findOrigins(input, description.inputSchema);
  const clean = (text: string) => sanitizeLine(run.redact(text), 500);
  return {
    run: run.run,
    skill: run.skill.name,
    source: run.skill.origin.source,
    location: run.path,
    tool: `${capability}.${operation}`,
    input: redactJson(input, run.redact),
    on: "outside",
    what: clean(isAgain ? `${description.description} (${RETRY_NOTE})` : description.description),
    where: clean(credential ? `${provider.namespace}, as ${credential.account}` : provider.namespace),
    ...(description.isReversible === undefined ? {} : { isReversible: description.isReversible }),
    reason: "it changes something outside of the workspace",
    isOnce: true,
    ...(from.length > 0 ? { from } : {}),
  };
}

const RETRY_NOTE = "an earlier attempt has an unknown outcome: it may already be done";

/** In characters, as JSON. */
const MAX_OUTPUT_LENGTH = 1024 * 1024;

/** Calls a provider and redacts its answer. Contract: resolves, within the provider's timeout. */
async function callProvider(context: BrokerContext, call: CheckedCapabilityCall, key: string): Promise<BrokerAnswer> {
  const { provider, operationDescription: description, capability, operation } = call;
  const [{ namespace, seconds, origin }, { vault }, user] = [provider, context.capabilities, getUserId(context.run)];
  let { credential } = call;
  let answer: ProviderAnswer;
  let reserved: Awaited<ReturnType<typeof reserveRenewal>> | undefined;
  try {
    reserved = await reserveRenewal(vault, namespace, { user, credential, origin, seconds });
    ({ credential } = reserved);
    const about = { capability, operation, input: call.input, context: createProviderContext(context.run), key };
    const request = { ...about, ...omitUndefined({ credential }) };
    answer = await withProviderTimeout(
      (signal) => context.run.underLease(async () => provider.invoke(request, { signal })),
      { namespace, seconds, signal: context.run.signal },
    );
    if (answer.credential) {
      const renewed = validateCredential(namespace, answer.credential);
      await vault.set(namespace, user, renewed, { origin, isRenewed: true });
    }
    await reserved.end();
  } catch (error) {
    await reserved?.end().catch(() => {}); // It ends by itself.
    return redactAnswer(
      attributeToProvider(createErrorAnswer(toProviderError(error, namespace), context.run.redact)),
      collectCredentialSecrets(credential),
    );
  }
  const text = stringifyOutput(answer.output);
  if (text === undefined)
    return refuseRequest("provider-answer-invalid", `The output of ${capability} is not JSON`, "tell the user");
  if (text.length > MAX_OUTPUT_LENGTH) {
    return refuseRequest(
      "output-too-large",
      `The output of ${capability} is larger than 1 MiB`,
      "request less: set a limit, or get one item",
    );
  }
  // Checks the provider, not the data: output that violates the schema is not passed on.
  const problem =
    description.outputSchema &&
    (await findSchemaProblem(description.outputSchema, structuredClone(answer.output), "lenient"));
  if (problem !== undefined) {
    return refuseRequest("output-invalid", `The output of ${capability} does not match its schema`, "tell the user");
  }
  const secrets = collectCredentialSecrets(credential, answer.credential);
  const { value: found, removed } = filterCredentials(JSON.parse(text), secrets);
  // The result is recorded, and a skill may have sent its own secrets.
  const value = redactJson(found, context.run.redact);
  context.run.addOrigin(`${capability} ${operation}`, JSON.stringify(value));
  const result: InvokeResult = {
    ...{ capability, operation, label: "untrusted", output: value },
    ...(removed > 0 ? { removed } : {}),
  };
  return { ok: true, result: { ...result } };
}

/** Marks text that the provider wrote, so that it does not look like skillet's own instruction. */
function attributeToProvider(answer: BrokerAnswer & { ok: false }): BrokerAnswer & { ok: false } {
  const { code, message, fix, commands } = answer.error;
  if (code.startsWith("provider-")) return answer;
  return refuseRequest(code, `The provider says: ${message}`, fix && `the provider says: ${fix}`, commands);
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
