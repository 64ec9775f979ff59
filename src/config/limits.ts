import type { IsolationLevel } from "../host/sandbox-contract.ts";

/** The limits of a run. A skill, a workspace and a caller can only lower them. */
export interface RunLimits {
  /** The iterations of a run, unless the skill sets them. */
  iterations: number;
  /** The maximum iterations that a skill may set. */
  iterationCap: number;
  /** The time limit of a run, including nested runs. */
  seconds: number;
  /** The maximum depth of skills that call skills. 1 allows none. */
  nesting: number;
  /** The token limit of a run, including nested runs, input and output. Defaults to no limit. */
  tokens?: number;
  /** The cost ceilings of all runs together, and of each run. */
  cost?: CostCeilings;
  /** The time limit of one tool call. Tools that start programs also have a separate limit. */
  toolSeconds: number;
  /** The maximum characters of tool output that a model gets. */
  toolOutput: number;
}

/** Ceilings in US dollars: of one run with its nested runs, and of all runs in a calendar day or month (UTC). */
export interface CostCeilings {
  run?: number;
  day?: number;
  month?: number;
}

export const DEFAULT_RUN_LIMITS: RunLimits = {
  iterations: 10,
  iterationCap: 50,
  seconds: 15 * 60,
  nesting: 3,
  toolSeconds: 300,
  toolOutput: 12_000,
};

export const WORKSPACE_ACCESS = ["none", "read", "read-write"] as const;
export type WorkspaceAccess = (typeof WORKSPACE_ACCESS)[number];
export const SANDBOX_ENGINES = ["bubblewrap", "docker", "podman", "seatbelt"] as const;
export type SandboxEngine = (typeof SANDBOX_ENGINES)[number];

/** The settings of sandboxes. */
export interface SandboxSettings {
  /** The minimum isolation. Defaults to strong, and to partial on macOS, which has no stronger one. */
  level?: IsolationLevel;
  engine?: SandboxEngine;
  /** The container image. */
  image?: string;
  /** The docker or podman program, instead of the one in a system folder. Set by the operator, so its owner is not checked. */
  program?: string;
  /** The hosts that every skill may reach, as `host:port`. */
  network: readonly string[];
  /** The hosts of the Python package index, as `host:port`. */
  pythonIndex: readonly string[];
  /** The access of code to the workspace. Defaults to none, except for the tools of a run in the user's own workspace. */
  workspace?: WorkspaceAccess;
  /** In bytes. */
  memory: number;
  processes: number;
  /** In bytes. */
  disk: number;
}

/** The limits of a script. */
export interface ScriptLimits {
  seconds: number;
  /** Bytes of output. */
  output: number;
  /** The maximum number of arguments, and their total bytes. */
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

/** The settings of all capabilities. */
export interface CapabilitySettings {
  /** The maximum calls of a run, and how many of them may be mutating. */
  calls: number;
  changes: number;
  /** The passphrase file from which the vault's key is derived, instead of a key of the system. */
  passphraseFile?: string;
}

export const DEFAULT_CAPABILITY_SETTINGS: CapabilitySettings = { calls: 200, changes: 20 };

/** The settings of a capability provider: a program of the operator, or a built-in one. */
export interface ProviderSettings {
  enabled?: boolean;
  namespace?: string;
  command?: readonly string[];
  seconds?: number;
  /** Unresolved environment variables of the program: a value, `env:NAME` or `file:PATH`. */
  env?: ReadonlyMap<string, string>;
  /** The types of chats that may use it. Defaults to private ones. */
  chatTypes?: readonly string[];
  allowChatIds?: readonly string[];
  /** The address of the backend, for a built-in provider. */
  baseUrl?: string;
  /** The OAuth client id. */
  clientId?: string;
}

/** The database that several machines share, and the limits of a worker on this one. */
export interface EngineSettings {
  /** The URL of a Postgres database, `env:NAME` or `file:PATH`. If undefined, runs are files of this machine. */
  url?: string;
  /** The key that encrypts what the database stores: `env:NAME` or `file:PATH`. If undefined, it is stored as it is. */
  sealKey?: string;
  /** The number of runs that a worker works on at once. */
  slots: number;
  /** The number of runs of a tenant that all workers work on at once. */
  tenantSlots?: number;
  /** The time after which a run of a worker that no longer answers is given to another. */
  leaseSeconds: number;
  /** The time that a running run waits for an unavailable database. */
  outageSeconds: number;
  /** The time that a worker which is stopped gives its runs to end. */
  drainSeconds: number;
  /** The number of times that a run may end its worker. */
  attempts: number;
}

export const DEFAULT_ENGINE_SETTINGS: EngineSettings = {
  slots: 8,
  leaseSeconds: 15,
  outageSeconds: 60,
  drainSeconds: 30,
  attempts: 3,
};
