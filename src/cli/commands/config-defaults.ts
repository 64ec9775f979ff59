import { KEYS, type Key } from "../../host/keys.ts";

/** What holds where nobody says anything: a value, or in words what stands in for one. */
interface Usual {
  value?: unknown;
  says?: string;
}

/** What keeps code apart where the configuration does not say: what the platform has. */
export function usualSandbox(platform: NodeJS.Platform): { level: string; engine: string } {
  return platform === "darwin" ? { level: "partial", engine: "seatbelt" } : { level: "strong", engine: "bubblewrap" };
}

export function usual(row: Key): Usual {
  return row.default === undefined ? (OTHERS[row.path] ?? {}) : { value: row.default };
}

/** The keys that hold for everything, not for a skill or model of some name. */
export const GENERAL: readonly Key[] = KEYS.filter(({ path }) => !path.includes("*"));

/** Keys whose default is no value of the table: it is the machine's, or it is none. */
const OTHERS: Record<string, Usual> = {
  "limits.tokens": { says: "no limit" },
  "tools.web_search.provider": { says: "none; runs have no web_search" },
  "tools.web_search.url": { says: "that of the provider" },
  "tools.web_search.api_key": { says: "none" },
  "tools.web_search.results": { value: 5 },
  "disclosure.asks": { value: [] },
  "disclosure.shortlist": { says: "after a list of skills; elsewhere one that fits beyond doubt" },
  "sandbox.level": { value: usualSandbox(process.platform).level },
  "sandbox.engine": { value: usualSandbox(process.platform).engine },
  "sandbox.image": { says: "none; docker and podman need one" },
  "sandbox.program": { says: "the system's own docker or podman" },
  "capabilities.vault_passphrase_file": { says: "none; a key of the system's keyring, or a file beside the vault" },
  "sandbox.workspace": { says: "none; tools of runs: read-write in your own workspace" },
};
