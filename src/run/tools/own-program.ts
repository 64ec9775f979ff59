import { posix } from "node:path";
import type { ErrorCode } from "../../codes/codes.ts";
import { SkillError } from "../../shared/error.ts";
import { isInside } from "../../shared/inside.ts";
import { inLine } from "../../shared/prompt.ts";
import { grouped } from "../../shared/text.ts";
import type { EnclosedOptions, EnclosedOutcome } from "../enclosure.ts";
import { sayEnding } from "../ending.ts";
import type { ToolScene } from "./tool-scene.ts";

export interface OwnProgram {
  tool: string;
  /** As the model wrote it; the folder where commands start when left out. */
  path?: string | undefined;
  /** A program for `sh`: finds the path in `$path`, and what is in `env`. Contract: no text of a model is a part of it. */
  program: string;
  env?: Readonly<Record<string, string>>;
  writes?: boolean;
  /** Whether it is no failure that there was more to print than fits. */
  mayBeCut?: boolean;
  options?: Pick<EnclosedOptions, "stdin" | "output" | "isRaw" | "signal">;
}

/** The path as the sandbox names it, and what came of the program. Throws a SkillError for what cannot be done. */
export async function runOwnProgram(
  scene: ToolScene,
  { tool, program, env = {}, writes = false, mayBeCut = false, options = {}, ...given }: OwnProgram,
): Promise<{ path: string; outcome: EnclosedOutcome }> {
  const roots = rootsOf(scene, writes);
  const path = placed(scene, given.path ?? ".", roots);
  if (Object.values(env).some((value) => value.includes("\0") || value.length > LONGEST)) throw unusable(tool);
  const outcome = await scene.enclosure.run(["sh", "-c", `${GUARD}\n${program}`, "sh", path, ...roots], {
    ...options,
    env,
    isPlain: true,
    ...(writes ? {} : { access: "read" as const }),
  });
  const { ending, exitCode, stderr } = outcome;
  if (ending !== "exit" && !(ending === "output" && mayBeCut)) {
    throw new SkillError(`tool-${ending}`, { message: `${tool}: ${sayEnding(outcome).said}` });
  }
  const known = ENDINGS.get(exitCode ?? 0);
  if (known) throw new SkillError(known.code, { message: `${shown(path)} ${known.says}`, fix: known.fix });
  if (exitCode !== 0 && writes) throw closed(path, stderr);
  return { path, outcome };
}

/** In characters: a system takes more, of a path or of anything. */
const LONGEST = 4096;

/** Where the tools may look, or write. */
function rootsOf({ enclosure: { places, access } }: ToolScene, writes: boolean): string[] {
  if (writes) return access === "read-write" && places.workspace !== undefined ? [places.workspace] : [];
  return [places.workspace, places.skill].filter((place) => place !== undefined);
}

function placed({ enclosure: { folder } }: ToolScene, path: string, roots: readonly string[]): string {
  const whole = posix.resolve(folder, path);
  if (!path.includes("\0") && path.length <= LONGEST && roots.some((root) => isInside(root, whole))) return whole;
  throw new SkillError("path-outside", {
    message: `${shown(path)} is not in ${roots.join(" or ") || "a folder that can be used"}`,
    fix: "name a path there",
  });
}

/** Where a link leads counts. What is not there yet is judged by the folder that it will be in. */
const GUARD = `path=$1; shift; at=$path; inside=
while [ ! -e "$at" ] && [ ! -L "$at" ] && [ -n "$at" ]; do at=\${at%/*}; done
real=$(readlink -f "$at"; echo x); real=\${real%?x}
for root; do root=$(readlink -f "$root"; echo x); root=\${root%?x}; case $real/ in "$root"/*) inside=1; esac; done
[ "$inside" ] || exit 91`;

/** What the programs end with that are ours. */
const ENDINGS = new Map<number, { code: ErrorCode; says: string; fix: string }>([
  [91, { code: "path-outside", says: "leads out of its folder", fix: "name what it leads to, if that is in there" }],
  [92, { code: "path-missing", says: "is not there", fix: "list_files shows what is" }],
  [93, { code: "path-folder", says: "is a folder", fix: "list_files shows what is in it" }],
  [94, { code: "path-no-file", says: "is no ordinary file", fix: "name another" }],
  [95, { code: "path-closed", says: "may not be read by tools", fix: "let others read it, or name another" }],
  [96, { code: "path-no-folder", says: "is no folder", fix: "read_file reads a file" }],
]);

/** Ends the program where the path is no file to read. */
export const NEEDS_FILE = `[ -d "$path" ] && exit 93; [ -e "$path" ] || exit 92; [ -f "$path" ] || exit 94; [ -r "$path" ] || exit 95`;

function closed(path: string, stderr: string): SkillError {
  const isReadOnly = /read-only/i.test(stderr);
  const why = isReadOnly ? "it is closed to tools" : lastOf(stderr);
  return new SkillError(isReadOnly || /denied|not permitted/i.test(stderr) ? "path-closed" : "tool-failed", {
    message: `${shown(path)} could not be written: ${why}`,
    fix: isReadOnly
      ? "what other programs run or obey (.git, .vscode, .envrc and their like) is for people to change; write elsewhere"
      : "check the path, and that there is room",
  });
}

/** What is said stands behind the names of programs and files. */
function lastOf(stderr: string): string {
  return inLine(stderr.trim().split("\n").at(-1)?.split(": ").at(-1) ?? "", 200) || "nothing says why";
}

export function shown(path: string): string {
  return JSON.stringify(inLine(path, 300));
}

function unusable(tool: string): SkillError {
  return new SkillError("input-invalid", {
    message: `${tool} takes no NUL character, and no pattern of more than ${grouped(LONGEST)} characters`,
    fix: "give it another",
  });
}
