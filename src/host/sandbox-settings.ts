import type { Level } from "./sandbox.ts";

export const WORKSPACE_ACCESS = ["none", "read", "read-write"] as const;
export type WorkspaceAccess = (typeof WORKSPACE_ACCESS)[number];
export const ENGINES = ["bubblewrap", "docker", "podman", "seatbelt"] as const;
export type Engine = (typeof ENGINES)[number];

/** How code is kept apart. */
export interface SandboxSettings {
  /** The least that will do. Without it: strong, but for macOS, which has partial at best. */
  level?: Level;
  engine?: Engine;
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
export const SANDBOX_DEFAULTS: SandboxSettings = {
  network: [],
  pythonIndex: ["pypi.org:443", "files.pythonhosted.org:443"],
  memory: 512 * MIB,
  processes: 128,
  disk: 64 * MIB,
};
export const SCRIPT_DEFAULTS: ScriptLimits = { seconds: 60, output: MIB, arguments: 100, argumentBytes: 4096 };
