import type { Credential, Vault } from "../host/capability-contract.ts";

/** Providers renew a credential shortly before it expires. Then one process at a time uses it, so that it is renewed once. */
const EXPIRY_MARGIN_MS = 5 * 60_000;

/** The credential to use for a call. `end`: the call is over. */
interface ReservedCredential {
  credential: Credential | undefined;
  end(): Promise<void>;
}

/** Waits for the renewal of an expiring credential by another process, or reserves it for this one. */
export async function reserveRenewal(
  vault: Vault,
  namespace: string,
  { user, credential, origin, seconds }: RenewalOptions,
): Promise<ReservedCredential> {
  const unreserved = { credential, end: async () => {} };
  if (!credential || !isExpiring(credential)) return unreserved;
  const renewal = await vault.beginRenewal?.(namespace, { user, account: credential.account, origin }, seconds);
  if (!renewal || isExpiring(renewal.credential)) return renewal ?? unreserved;
  await renewal.end();
  return { ...unreserved, credential: renewal.credential };
}

interface RenewalOptions {
  user: string;
  credential: Credential | undefined;
  origin: string | undefined;
  seconds: number;
}

function isExpiring({ expiresAt }: Credential): boolean {
  return expiresAt !== undefined && Date.parse(expiresAt) < Date.now() + EXPIRY_MARGIN_MS;
}
