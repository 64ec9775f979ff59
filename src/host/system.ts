import { existsSync } from "node:fs";
import { systemProgram } from "./programs.ts";
import type { SandboxSettings } from "./sandbox-settings.ts";

/** What this machine can do for a skill. Looked at when asked, and once. */
export interface System {
  platform: NodeJS.Platform;
  /** Whether code sees this machine's programs, or those of an image, which only the image knows. */
  programs: "host" | "own";
  /** Whether code in a sandbox finds this program. */
  hasProgram(name: string): boolean;
  /** The program that is to keep code apart and is not there. Quick: whether it works is tried when it is used. */
  missingEngine(): string | undefined;
  /** Whether system packages can be had here. */
  hasPackages(): boolean;
}

/** Contract: the settings are looked at when it is asked, so that they may follow their files. */
export function openSystem(settings: Pick<SandboxSettings, "engine" | "level" | "program">): System {
  const { platform } = process;
  const known = new Map<string, boolean>();
  const hasProgram = (name: string) => {
    const has = known.get(name) ?? (name === "node" || systemProgram(name) !== undefined);
    known.set(name, has);
    return has;
  };
  const engineOf = () => settings.engine ?? (platform === "darwin" ? "seatbelt" : "bubblewrap");
  return {
    platform,
    get programs() {
      return ["docker", "podman"].includes(engineOf()) ? "own" : "host";
    },
    hasProgram,
    missingEngine() {
      const program = PROGRAMS[engineOf()];
      const isNeeded = settings.level !== "none" && settings.program === undefined;
      return isNeeded && !hasProgram(program) ? program : undefined;
    },
    hasPackages: () => platform === "linux" && hasProgram("apt-get") && existsSync("/var/lib/dpkg/status"),
  };
}

const PROGRAMS = { bubblewrap: "bwrap", docker: "docker", podman: "podman", seatbelt: "sandbox-exec" } as const;
