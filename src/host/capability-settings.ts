/** What holds for every capability. */
export interface CapabilitySettings {
  /** How many calls a run may make of them, and how many of these may change something. */
  calls: number;
  changes: number;
  /** The file that the vault's key is made from, in place of the system's own keeping. */
  passphraseFile?: string;
}

export const CAPABILITY_DEFAULTS: CapabilitySettings = { calls: 200, changes: 20 };

/** Who serves capabilities: a program of the operator's, or one of ours. */
export interface ProviderSettings {
  enabled?: boolean;
  namespace?: string;
  command?: readonly string[];
  seconds?: number;
  /** Variables of the program, as they are written: a value, `env:NAME`, `file:PATH`. */
  env?: ReadonlyMap<string, string>;
  /** The chats that it is there for; private ones when left out. */
  chatTypes?: readonly string[];
  allowChatIds?: readonly string[];
  /** Where the system behind it is, for one of ours. */
  baseUrl?: string;
  /** What sign-in pages know this program by. */
  clientId?: string;
}
