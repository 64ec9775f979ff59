import { statSync } from "node:fs";
import { isAbsolute, join, resolve } from "node:path";
import type { ErrorCode } from "../codes/codes.ts";
import { SkillError } from "../shared/error.ts";
import { frozen } from "../shared/frozen.ts";
import { reason } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import type { Skill } from "../skill/skill.ts";
import { isSameStamp, stampOf, statOf } from "../source/file.ts";
import { type FolderSkill, readFolderSkill } from "../source/folder-skill.ts";
import { checkEnabled, checkKnown, invalid, isOn, named } from "./section.ts";

export interface SkillRefOptions {
  /** Absolute, or relative to `basePath`. */
  path: string;
  /** The working folder when left out. For paths relative to a module: `import.meta.dirname`. */
  basePath?: string;
  /** Whether it is there at all; asked whenever a prompt is rendered. */
  enabled?: () => boolean;
}

/** A skill's folder on the disk, as a prompt refers to it. Its path is trusted: whoever writes the prompt vouches for it. */
export interface SkillRef {
  readonly kind: "ref";
  readonly path: string;
  readonly basePath: string | undefined;
  readonly resolvedPath: string;
  readonly skillMdPath: string;
  /** As its frontmatter has it. Throws a SkillRefError when it is none. */
  readonly name: string;
  readonly description: string;
  isEnabled(): boolean;
  /** Looks at the folder again. Throws a SkillRefError. */
  validate(): void;
  /** It as a skill like any other, as it is now. Throws a SkillRefError when it is none any more, or one of another name. */
  toSkill(): Skill;
}

export type RefReason = "not_found" | "not_directory" | "missing_skill_md" | "invalid_frontmatter";

/** A reference that leads to no skill. */
export class SkillRefError extends SkillError {
  readonly path: string;
  readonly reason: RefReason;
  readonly details: string | undefined;

  constructor(path: string, why: RefReason, details?: string, cause?: unknown) {
    super(SAYS[why].code, {
      message: `The skill in ${path} cannot be used: ${SAYS[why].what}${details === undefined ? "" : ` (${details})`}`,
      fix: SAYS[why].fix,
      cause,
    });
    this.path = path;
    this.reason = why;
    this.details = details;
  }
}

const SAYS: Record<RefReason, { code: ErrorCode; what: string; fix: string }> = {
  not_found: {
    code: "ref-not-found",
    what: "the folder does not exist",
    fix: "correct the path; a relative one begins at basePath",
  },
  not_directory: { code: "ref-not-directory", what: "it is no folder", fix: "name the folder that holds SKILL.md" },
  missing_skill_md: {
    code: "ref-missing-skill-md",
    what: "there is no SKILL.md in it",
    fix: "write one, with `name` and `description` at its head",
  },
  invalid_frontmatter: {
    code: "ref-invalid-frontmatter",
    what: "the head of its SKILL.md is not as it must be",
    fix: "`skillet check` on the folder says what is wrong, and where",
  },
};

/** Refers to a skill's folder. Throws a SkillRefError at once when it is none, unless it is not enabled now. */
export function skillRef(options: SkillRefOptions | string): SkillRef {
  const { path, basePath, enabled } = typeof options === "string" ? { path: options } : options;
  const where = named("The reference to", path);
  if (typeof options === "object") checkKnown(options, REF_KEYS, where);
  if (typeof path !== "string" || path.trim() === "")
    throw invalid(where, "the path is empty", "name a skill's folder");
  if (basePath !== undefined && typeof basePath !== "string")
    throw invalid(where, "`basePath` is no text", "give a folder: import.meta.dirname");
  checkEnabled(where, enabled);
  const resolvedPath = isAbsolute(path) ? path : resolve(basePath ?? process.cwd(), path);
  const skillMdPath = join(resolvedPath, "SKILL.md");
  let known: FolderSkill | undefined;
  const validate = () => {
    known = read(resolvedPath);
    return known.skill;
  };
  const isSame = ({ stamp }: FolderSkill) => {
    const stats = statOf(skillMdPath);
    return stats !== undefined && stamp !== undefined && isSameStamp(stampOf(stats), stamp);
  };
  const ref: SkillRef = {
    kind: "ref",
    path,
    basePath,
    resolvedPath,
    skillMdPath,
    get name() {
      return (known?.skill ?? validate()).name;
    },
    get description() {
      return (known?.skill ?? validate()).description;
    },
    isEnabled: () => enabled === undefined || isOn(enabled, where),
    validate: () => void validate(),
    toSkill() {
      if (!known) return validate();
      if (isSame(known)) return known.skill;
      const now = read(resolvedPath);
      const [before, after] = [known.skill.name, now.skill.name];
      if (before !== after)
        throw new SkillRefError(resolvedPath, "invalid_frontmatter", `it was called "${before}", and now "${after}"`);
      known = now;
      return now.skill;
    },
  };
  if (ref.isEnabled()) validate();
  return frozen(ref);
}

const REF_KEYS: ReadonlySet<string> = new Set(["path", "basePath", "enabled"]);
const NAME = /^[a-z0-9][a-z0-9-]{0,63}$/;

function read(path: string): FolderSkill {
  const found = readFolder(path);
  if (!found) throw new SkillRefError(path, "missing_skill_md");
  if ("findings" in found) {
    const [{ code, message } = NOTHING] = found.findings;
    const why = NO_FILE.has(code) ? "missing_skill_md" : "invalid_frontmatter";
    throw new SkillRefError(path, why, `SKILL.md ${message}`);
  }
  const problem = problemOf(found);
  if (problem !== undefined) throw new SkillRefError(path, "invalid_frontmatter", problem);
  return found;
}

function readFolder(path: string): ReturnType<typeof readFolderSkill> {
  try {
    if (statSync(path).isDirectory()) return readFolderSkill(path, { scope: "inline", source: "ref" });
  } catch (error) {
    throw new SkillRefError(path, "not_found", reason(error), error);
  }
  throw new SkillRefError(path, "not_directory");
}

const NOTHING = { code: "", message: "is no skill" };
/** What is there is no file, or none that can be read. */
const NO_FILE: ReadonlySet<string> = new Set(["not-a-file", "link-loop", "not-a-folder", "unreadable"]);

/** Elsewhere a folder's name may serve, and a description be made of the text. */
function problemOf({ skill, written: { name, description } }: FolderSkill): string | undefined {
  if (name === undefined || name === null) return "`name` is missing";
  if (typeof name !== "string" || !NAME.test(name))
    return `the name "${inLine(String(name), 80)}" is not of up to 64 lower-case letters, digits and hyphens`;
  if (skill.name !== name) return `the name "${name}" is reserved`;
  return typeof description === "string" && description.trim() !== "" ? undefined : "`description` is missing";
}
