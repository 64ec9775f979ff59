import type { Isolation, Notice } from "../host/sandbox.ts";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import { type Hiding, type Secrets, SHORTEST_SECRET } from "../shared/redact.ts";

/** What could not be had, what the machine refuses, or what nobody thought of. */
export function asNotice(error: unknown): Notice {
  if (error instanceof SkillError) return { code: error.code, message: error.message, fix: error.fix ?? "" };
  if (codeOf(error) === "") {
    const fix = "try again; if it stays so, it is a bug of skillet or of the program around it";
    return { code: "failed", message: `It failed: ${inLine(reason(error), 300)}`, fix };
  }
  return {
    code: "machine",
    message: `It could not be run: ${reason(error)} (${codeOf(error)})`,
    fix: "check the folders that it needs, and that there is room",
  };
}

/** Without secrets. */
export function hide(hiding: Hiding): (notice: Notice) => Notice {
  return ({ code, message, fix, diff }) => ({
    code,
    message: hiding.text(message),
    fix: hiding.text(fix),
    ...(diff === undefined ? {} : { diff: hiding.text(diff) }),
  });
}

const DEEPEST = 200;

/** Plain data without secrets, wherever they stand in it; what stands too deep is left out. */
export function hideIn<T>(hiding: Hiding, value: T, depth = 0): T {
  if (typeof value === "string") return hiding.text(value) as T;
  if (value === null || typeof value !== "object") return value;
  if (depth === DEEPEST) return undefined as T;
  if (Array.isArray(value)) return value.map((item) => hideIn(hiding, item, depth + 1)) as T;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [hiding.text(key), hideIn(hiding, item, depth + 1)]),
  ) as T;
}

/** Values that are too short to be hidden. */
export function shortSecrets(secrets: Secrets): Notice[] {
  const short = [...secrets].filter(([, value]) => Buffer.byteLength(value) < SHORTEST_SECRET).map(([name]) => name);
  if (short.length === 0) return [];
  return [
    {
      code: "secret-short",
      message: `${short.join(", ")} is too short to be told from other text: it is not hidden in the output`,
      fix: `use a value of ${SHORTEST_SECRET} characters or more`,
    },
  ];
}

/** Code that nothing kept apart, because the operator said so. */
export function unkept(isolation: Pick<Isolation, "level"> | undefined): Notice[] {
  if (isolation?.level !== "none") return [];
  return [
    {
      code: "not-isolated",
      message: "Nothing kept this code apart: it could do all that you can",
      fix: 'remove level = "none" under [sandbox] in config.toml',
    },
  ];
}
