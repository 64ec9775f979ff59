import type { VaultEntry } from "../host/capabilities.ts";
import { inLine } from "../shared/prompt.ts";
import { byText } from "../shared/text.ts";
import { withoutCredentials } from "./credential-names.ts";

/** Whether it is of this namespace, user and account, as far as they are said. */
export function isOf(
  entry: VaultEntry,
  namespace: string,
  { user, account }: { user?: string; account?: string | undefined },
): boolean {
  if (entry.namespace !== namespace) return false;
  return [entry.user, undefined].includes(user) && [entry.account, undefined].includes(account);
}

/** Whether a provider of this origin may have it; one that says none has what was signed in with such a one. */
export function isAt(entry: VaultEntry, origin: string | undefined): boolean {
  return entry.origin === origin;
}

/** Who is signed in there, or who was where it was before: that is given to nobody else. */
export function whoElse(kept: readonly VaultEntry[], origin: string | undefined): string {
  const here = kept.filter((entry) => isAt(entry, origin));
  const names = (entries: readonly VaultEntry[]) =>
    [...new Set(entries.map((entry) => inLine(entry.account, 60)))].sort(byText).slice(0, MOST_NAMED).join(", ");
  if (here.length > 0) return `; there is: ${names(here)}`;
  const [other] = kept;
  const before = withoutCredentials(other?.origin ?? "another place", "…");
  return other ? ` where it is now; ${names(kept)} did so at ${inLine(before, 150)}` : "";
}

const MOST_NAMED = 10;
