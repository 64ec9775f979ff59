import { SkillError } from "../shared/error.ts";
import { reason } from "../shared/inside.ts";

export interface InstallationFailure {
  skillName: string;
  skillsDir: string;
  /** Whether it was to be written from code, or copied from a folder. */
  source: "inline" | "ref";
  cause: unknown;
  fix?: string;
  /** Whether it was to be taken away. */
  isRemoval?: boolean;
}

/** A skill could not be put in its place, or taken away. Nothing of it, and of what was to come with it, was left there, or changed. */
export class SkillInstallationError extends SkillError {
  readonly skillName: string;
  readonly skillsDir: string;
  readonly source: "inline" | "ref";
  declare readonly cause: Error;

  constructor({ skillName, skillsDir, source, cause, fix, isRemoval = false }: InstallationFailure) {
    super("installation-failed", {
      message: `Skill "${skillName}" cannot be ${isRemoval ? "removed from" : "installed into"} ${skillsDir}: ${reason(cause)}`,
      fix: fix ?? "check that the folder can be written to, and that there is room; nothing was left half-written",
      cause: cause instanceof Error ? cause : new Error(String(cause)),
    });
    this.skillName = skillName;
    this.skillsDir = skillsDir;
    this.source = source;
  }
}
