import type { Notice } from "../host/sandbox.ts";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";
import type { Hiding } from "../shared/redact.ts";

/** What could not be had, or what the machine refuses. Anything else is a bug, and thrown. */
export function asNotice(error: unknown): Notice {
  if (error instanceof SkillError) return { code: error.code, message: error.message, fix: error.fix ?? "" };
  if (codeOf(error) === "") throw error;
  return {
    code: "machine",
    message: `It could not be run: ${reason(error)} (${codeOf(error)})`,
    fix: "check the folders that it needs, and that there is room",
  };
}

/** Without secrets. */
export function hide(hiding: Hiding): (notice: Notice) => Notice {
  return ({ code, message, fix }) => ({ code, message: hiding.text(message), fix: hiding.text(fix) });
}
