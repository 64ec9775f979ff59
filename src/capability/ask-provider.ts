import type { ProviderAnswer } from "../host/capabilities.ts";
import { schemaProblem } from "../host/schema.ts";
import { defined } from "../shared/defined.ts";
import type { Secrets } from "../shared/redact.ts";
import { type Answer, failure, refused } from "./answer.ts";
import { checkedCredential } from "./auth-shape.ts";
import type { Checked } from "./checks.ts";
import { filterCredentials, secretsOf } from "./filter.ts";
import type { InvokeResult } from "./protocol.ts";
import { asProviderError, inTime } from "./provider-error.ts";
import { contextOf, hiddenIn, type Scene, userOf } from "./scene.ts";

/** In characters, as JSON. */
const LARGEST_OUTPUT = 1024 * 1024;

/** Asks a provider, and takes out of its answer what is nobody's to see. Contract: resolves, in the provider's time. */
export async function askProvider(scene: Scene, call: Checked, key: string): Promise<Answer> {
  const { provider, does, capability, operation, credential } = call;
  let answer: ProviderAnswer;
  try {
    const { namespace, seconds, origin } = provider;
    const asked = { capability, operation, input: call.input, context: contextOf(scene.run), key };
    answer = await inTime((signal) => provider.invoke({ ...asked, ...defined({ credential }) }, { signal }), {
      ...{ namespace, seconds, signal: scene.run.signal },
    });
    if (answer.credential) {
      const renewed = checkedCredential(namespace, answer.credential);
      scene.capabilities.vault.set(namespace, userOf(scene.run), renewed, { origin, isRenewed: true });
    }
  } catch (error) {
    return withoutSecrets(
      told(failure(asProviderError(error, provider.namespace), scene.run.hide)),
      secretsOf(credential),
    );
  }
  const { output } = answer;
  const text = textOf(output);
  if (text === undefined) return refused("provider-answer", `What ${capability} gave is no JSON`, "tell the user");
  if (text.length > LARGEST_OUTPUT) {
    return refused(
      "output-too-large",
      `What ${capability} gave is larger than 1 MiB`,
      "ask for less: a limit, one item",
    );
  }
  // As a check of the provider, not of what it found: what does not fit is not passed on.
  const problem = does.outputSchema && (await schemaProblem(does.outputSchema, structuredClone(output), "lenient"));
  if (problem !== undefined) {
    return refused("output-invalid", `What ${capability} gave is not what it says that it gives`, "tell the user");
  }
  const secrets = secretsOf(credential, answer.credential);
  const { value: found, removed } = filterCredentials(JSON.parse(text), secrets);
  // It is written down, and a skill may have sent its own secrets there.
  const value = hiddenIn(found, scene.run.hide);
  scene.run.addOrigin(`${capability} ${operation}`, JSON.stringify(value));
  const result: InvokeResult = {
    ...{ capability, operation, label: "untrusted", output: value },
    ...(removed > 0 ? { removed } : {}),
  };
  return { ok: true, result: { ...result } };
}

/** Of what others wrote it is said that they did: it is no next step of ours. */
function told(answer: Answer & { ok: false }): Answer & { ok: false } {
  const { code, message, fix } = answer.error;
  if (code.startsWith("provider-")) return answer;
  return refused(code, `The provider says: ${message}`, fix && `the provider says: ${fix}`);
}

function withoutSecrets(answer: Answer & { ok: false }, secrets: Secrets): Answer {
  return { ok: false, error: filterCredentials(answer.error, secrets).value as typeof answer.error };
}

function textOf(output: unknown): string | undefined {
  try {
    return JSON.stringify(output ?? null);
  } catch {
    return undefined;
  }
}
