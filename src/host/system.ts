import { existsSync } from "node:fs";
import { systemProgram } from "./programs.ts";
import type { SandboxSettings } from "./sandbox-settings.ts";

/** What this machine can do for a skill. Looked at when asked, and once. */
export interface System {
  platform: NodeJS.Platform;
  /** Whether code in a sandbox finds this program. */
  hasProgram(name: string): boolean;
  /** Whether there is something to keep code apart with. Quick: it is tried only when it is used. */
  hasSandbox(): boolean;
  /** Whether system packages can be had here. */
  hasPackages(): boolean;
}

export function openSystem(settings: SandboxSettings): System {
  const { platform } = process;
  const known = new Map<string, boolean>();
  const hasProgram = (name: string) => {
    const has = known.get(name) ?? (name === "node" || systemProgram(name) !== undefined);
    known.set(name, has);
    return has;
  };
  const engine = settings.engine ?? (platform === "darwin" ? "seatbelt" : "bubblewrap");
  return {
    platform,
    hasProgram,
    hasSandbox: () => settings.level === "none" || hasProgram(PROGRAMS[engine]),
    hasPackages: () => platform === "linux" && hasProgram("apt-get") && existsSync("/var/lib/dpkg/status"),
  };
}

const PROGRAMS = { bubblewrap: "bwrap", docker: "docker", podman: "podman", seatbelt: "sandbox-exec" } as const;
