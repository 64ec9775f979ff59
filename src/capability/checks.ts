import type { CapabilityProvider, Credential, OperationDescription, VaultEntry } from "../host/capabilities.ts";
import { schemaProblem } from "../host/schema.ts";
import { nearest } from "../shared/text.ts";
import { type Data, isData } from "../skill/data.ts";
import { type Answer, failure, refused } from "./answer.ts";
import { describe, operationOf, type Scene, userOf } from "./scene.ts";
import { isOf, whoElse } from "./vault-entry.ts";

/** One call, with what is found out of it on the way. */
export interface Call {
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
export interface Checked extends Call {
  provider: CapabilityProvider;
  does: OperationDescription;
  credential: Credential | undefined;
}

/** Whether it may be asked for at all, from what is cheapest to know on. */
export async function check(scene: Scene, call: Call): Promise<Checked | (Answer & { ok: false })> {
  const { run, capabilities } = scene;
  const { capability, operation, input, account } = call;
  const refusal = notFor(scene, capability);
  const provider = capabilities.providerOf(capability, run.skill);
  if (refusal || !provider) return refusal ?? context(capability);
  const sought = await operationOf(scene, provider, capability, operation).catch((error) => ({ error }));
  if ("error" in sought) return failure(sought.error, run.hide);
  if (!("found" in sought)) {
    const meant = nearest(operation, sought.names);
    const near = meant === undefined ? "" : `did you mean "${meant}"? `;
    return refused(
      "operation-unknown",
      `${capability} has no operation "${operation}"`,
      `${near}it has: ${sought.names.join(", ") || "none"}`,
    );
  }
  const does = sought.found;
  // As it is shown and sent on: `1e400` is a number only until it is written.
  const own = JSON.parse(JSON.stringify(input));
  const problem = JSON.stringify(own).length > LARGEST_INPUT ? TOO_LARGE : await schemaProblem(does.inputSchema, own);
  if (problem !== undefined) return refused("input-invalid", problem, `it takes: ${fieldsOf(does.inputSchema)}`);
  const found = await credentialFor(scene, provider, call, does);
  if ("ok" in found) return found;
  return { ...call, input: own, account, provider, does, credential: found.credential };
}

const LARGEST_INPUT = 256 * 1024;
const TOO_LARGE = "Invalid input: it is larger than 256 KiB";

/** Why a capability is not for this run: it did not declare it, was not given it, or its caller may not have it. */
export function notFor({ run, capabilities }: Scene, id: string): (Answer & { ok: false }) | undefined {
  const { skill, caller } = run;
  const revoked = run.revoked?.();
  if (revoked) return refused(revoked.code, revoked.message, "tell the user");
  const declared = skill.manifest.capabilities;
  // Whether there is such a one is not told: for this skill there is none.
  if (!declared.includes(id)) {
    const fix = declared.length === 0 ? "it declares none" : `it declares: ${declared.join(", ")}`;
    return refused("capability-undeclared", `Skill '${skill.name}' declares no capability "${id}"`, fix);
  }
  if (!capabilities.isGranted(id, skill))
    return refused("capability-not-granted", `Skill '${skill.name}' was not given ${id}`, "tell the user");
  const isHere = capabilities.providerOf(id, skill) && capabilities.isVisible(id, caller, skill);
  return isHere ? undefined : context(id);
}

function context(id: string): Answer & { ok: false } {
  return refused("context-denied", `${id} is not there for this caller`, "tell the user");
}

/** Who is signed in, where anybody is: a provider may need nobody. */
async function credentialFor(
  scene: Scene,
  provider: CapabilityProvider,
  { account, capability }: Call,
  { scopes = [] }: OperationDescription,
): Promise<{ credential: Credential | undefined } | (Answer & { ok: false })> {
  const { namespace, origin } = provider;
  const { vault } = scene.capabilities;
  const user = userOf(scene.run);
  const login = `skillet auth login ${namespace}`;
  let credential: Credential | undefined;
  let kept: VaultEntry[] = [];
  try {
    credential = vault.get(namespace, { user, account, origin });
    if (!credential) kept = vault.list().filter((entry) => isOf(entry, namespace, { user }));
  } catch (error) {
    return failure(error, scene.run.hide, "vault-unreadable");
  }
  // One who needs nobody is not kept from serving by a sign-in of another who did.
  const isNeeded = account !== undefined || (kept.length > 0 && (await describe(scene, provider)).hasAuth !== false);
  if (!credential && isNeeded) {
    const who = account === undefined ? "" : ` as "${account}"`;
    const message = `Nobody is signed in to ${namespace}${who}${whoElse(kept, origin)}`;
    return refused("auth-needed", scene.run.hide(message), `the user runs: ${login}`);
  }
  const { scopes: agreed = [] } = credential ?? {};
  // Of many a token it is not told what it is good for: then its provider has to know.
  const missing = agreed.length === 0 ? [] : scopes.filter((scope) => !agreed.includes(scope));
  if (missing.length > 0) {
    // With all of them: the next sign-in takes the place of this one.
    const all = [...agreed, ...missing].join(" --scope ");
    return refused(
      "scope-missing",
      `${capability} needs more than was agreed to at sign-in: ${missing.join(", ")}`,
      `the user runs: ${login} --scope ${all}`,
    );
  }
  return { credential };
}

/** `title (required), text, limit`. */
function fieldsOf(schema: Data): string {
  const properties = isData(schema["properties"]) ? Object.keys(schema["properties"]) : [];
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return properties.map((name) => (required.includes(name) ? `${name} (required)` : name)).join(", ") || "nothing";
}
