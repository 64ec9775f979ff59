import { systemProgram } from "../host/programs.ts";
import type { Notice } from "../host/sandbox.ts";
import type { Prompt } from "../prompt/prompt.ts";
import { scriptsOf } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import { READING } from "./own-tools.ts";

/** The tool of Claude that starts programs. */
const BASH = "Bash";

/** What Claude Code's sandbox needs on Linux, by the package that has it. */
const NEEDED: Readonly<Record<string, string>> = { bwrap: "bubblewrap", socat: "socat" };

/** Returns the problem of a machine on which Claude Code has no sandbox; undefined if it has one. */
export function sandboxProblem(
  platform: NodeJS.Platform = process.platform,
  find: (program: string) => string | undefined = systemProgram,
): Notice | undefined {
  const missing = platform === "linux" ? Object.keys(NEEDED).filter((program) => find(program) === undefined) : [];
  if (missing.length === 0) return undefined;
  return {
    code: "claude-sandbox-missing",
    message: `Claude Code has no sandbox for commands here: ${missing.join(" and ")} ${missing.length === 1 ? "is" : "are"} not installed`,
    fix: `install the package: apt-get install ${missing.map((program) => NEEDED[program]).join(" ")}`,
  };
}

interface ScriptPlan {
  /** Claude's own tools, where the program names none. */
  tools: readonly string[];
  problem?: Notice;
}

/** Decides whether commands are offered, so that scripts of referenced skills can be run: where a sandbox holds them. */
export function planScripts(prompt: Prompt, isInstalled: boolean, problem = sandboxProblem()): ScriptPlan {
  const hasScripts =
    isInstalled && prompt.skills().some((one) => one.kind === "ref" && scriptsOf(one.toSkill()).length > 0);
  if (!hasScripts) return { tools: READING };
  return problem ? { tools: READING, problem } : { tools: [...READING, BASH] };
}

/** Returns the rules that let Claude run the scripts of these skills, and no other command. */
export function scriptGrants(installed: ReadonlyMap<string, Skill>, skillsDir: string | undefined): string[] {
  if (skillsDir === undefined) return [];
  return [...installed].flatMap(([name, skill]) =>
    scriptsOf(skill).flatMap(({ path }) =>
      [skillsDir, "~/.claude/skills"].flatMap((folder) => {
        const script = `${folder}/${name}/${path}`;
        return ["", "bash ", "sh ", "python3 ", "node "].map((program) => `${BASH}(${program}${script}:*)`);
      }),
    ),
  );
}
