import type { IsolationLevel } from "../host/sandbox-contract.ts";

/** What a run may use. A skill, a workspace and a caller can only ask for less. */
export interface RunLimits {
  /** How often a skill that says nothing of it asks its model. */
  iterations: number;
  /** And one that does, at most. */
  mostIterations: number;
  /** How long a run takes at most, with all that it calls. */
  seconds: number;
  /** How deep skills may call skills; 1: not at all. */
  nesting: number;
  /** Tokens of a run with all that it calls, in and out; no bound when left out. */
  tokens?: number;
  /** How long one call of a tool takes at most; those that start programs have a limit of their own besides. */
  toolSeconds: number;
  /** How many characters of a tool's output a model gets. */
  toolOutput: number;
}

export const DEFAULT_RUN_LIMITS: RunLimits = {
  iterations: 10,
  mostIterations: 50,
  seconds: 15 * 60,
  nesting: 3,
  toolSeconds: 300,
  toolOutput: 12_000,
};

export const WORKSPACE_ACCESS = ["none", "read", "read-write"] as const;
export type WorkspaceAccess = (typeof WORKSPACE_ACCESS)[number];
export const SANDBOX_ENGINES = ["bubblewrap", "docker", "podman", "seatbelt"] as const;
export type SandboxEngine = (typeof SANDBOX_ENGINES)[number];

/** How code is kept apart. */
export interface SandboxSettings {
  /** The least that will do. Without it: strong, but for macOS, which has partial at best. */
  level?: IsolationLevel;
  engine?: SandboxEngine;
  /** What a container is made from. */
  image?: string;
  /** The client of docker or podman, in place of the one in a folder of the system's. The operator's own word: nobody checks whose it is. */
  program?: string;
  /** `host:port`, each opened for every skill. */
  network: readonly string[];
  /** Where Python packages are fetched from, as `host:port`. */
  pythonIndex: readonly string[];
  /** What code sees of the workspace. Without it: nothing, but for the tools of a run in the user's own workspace. */
  workspace?: WorkspaceAccess;
  /** In bytes. */
  memory: number;
  processes: number;
  /** In bytes. */
  disk: number;
}

/** What a script may use. */
export interface ScriptLimits {
  seconds: number;
  /** Bytes of output. */
  output: number;
  /** How many arguments, and how many bytes they are together. */
  arguments: number;
  argumentBytes: number;
}

const MIB = 1024 * 1024;
export const DEFAULT_SANDBOX_SETTINGS: SandboxSettings = {
  network: [],
  pythonIndex: ["pypi.org:443", "files.pythonhosted.org:443"],
  memory: 512 * MIB,
  processes: 128,
  disk: 64 * MIB,
};
export const DEFAULT_SCRIPT_LIMITS: ScriptLimits = { seconds: 60, output: MIB, arguments: 100, argumentBytes: 4096 };

/** What holds for every capability. */
export interface CapabilitySettings {
  /** How many calls a run may make of them, and how many of these may change something. */
  calls: number;
  changes: number;
  /** The file that the vault's key is made from, in place of the system's own keeping. */
  passphraseFile?: string;
}

export const DEFAULT_CAPABILITY_SETTINGS: CapabilitySettings = { calls: 200, changes: 20 };

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
