import { COMMAND_CODES, MCP_CODES, PROMPT_CODES } from "./error-codes.ts";
import type { CodeRow } from "./problem.ts";
import { ARCHIVE_ERROR_CODES, LOCK_CODES, SOURCE_CODES } from "./remote-codes.ts";
import { ENGINE_CODES, RUN_CODES, TOOL_CODES, USE_CODES } from "./run-codes.ts";
import { CAPABILITY_CODES, SCRIPT_CODES } from "./sandbox-codes.ts";

/** A group of codes: a section of docs/errors.md. */
export interface CodeSection {
  title: string;
  /** Where the codes come from, in Markdown. */
  about: string;
  /** Pages about the topic, by title, relative to docs/. */
  pages?: Readonly<Record<string, string>>;
  codes: Readonly<Record<string, CodeRow>>;
}

/** The codes by topic, except for the findings. */
export const CODE_SECTIONS: readonly CodeSection[] = [
  {
    title: "Addresses and sources",
    about: "From `add`, `update`, `outdated` and `addSkills`: addresses of sources, downloads and repositories.",
    pages: { "Remote skills": "supply.md" },
    codes: SOURCE_CODES,
  },
  {
    title: "Archives and their entries",
    about:
      "From the same commands. A source that violates one of these rules is rejected as a whole, and nothing is written to disk.",
    codes: ARCHIVE_ERROR_CODES,
  },
  {
    title: "Locks, signatures and trust",
    about: "From the same commands, and from `verify`, `sign`, `signers`, `trust`, `remove` and `export`.",
    pages: { Signatures: "signatures.md" },
    codes: LOCK_CODES,
  },
  {
    title: "Uses",
    about:
      "Reasons why a skill is not loaded, used or run: from `findDenials(skill, host)`, `refusals` of a run or a script, and results of tools that take a skill. A command whose run or script is refused exits with 3.",
    pages: { Use: "use.md" },
    codes: USE_CODES,
  },
  {
    title: "Runs, models and limits",
    about:
      "A run always resolves. These are the codes of its `error` and its `warnings`, and of its outcome where it is the result of a tool. `createRunStore`, `resumeRun`, `runs`, `resume`, `approve` and `cancel` throw the codes about runs.",
    pages: { Runs: "runs.md", models: "models.md" },
    codes: RUN_CODES,
  },
  {
    title: "Workers and their database",
    about:
      "From `engine`, `worker`, `workers`, `run --detach` and every command about runs when an engine is configured.",
    pages: { Workers: "workers.md" },
    codes: ENGINE_CODES,
  },
  {
    title: "Scripts, sandboxes and packages",
    about: "From `script`, `run_skill_script`, `packages` and every other way to run code of a skill.",
    pages: { Scripts: "scripts.md", sandboxes: "sandbox.md", packages: "packages.md" },
    codes: SCRIPT_CODES,
  },
  {
    title: "Tools and toolsets",
    about:
      "A session never throws: a refused `load` or tool call returns a result with `isError`, one of these codes, and the fix in its `content`. `skill.read` throws the codes that start with `resource-`. Tools of a skill or of your program can have their own codes.",
    pages: { Tools: "tools.md", toolsets: "toolsets.md" },
    codes: TOOL_CODES,
  },
  {
    title: "Capabilities and providers",
    about:
      "Printed by `skillet-sb` in a sandbox, recorded as the outcome in the audit log, and printed by `capability` and `auth`.",
    pages: {
      "Order of the checks": "capabilities.md#checks-of-a-call",
      "answers of a provider": "providers.md#codes",
    },
    codes: CAPABILITY_CODES,
  },
  {
    title: "MCP",
    about:
      'From MCP servers that provide tools to runs, and from `serve` and `connect`. Clients of `skillet serve` find the code of a result in `_meta["skillet/code"]`.',
    pages: { MCP: "mcp.md" },
    codes: MCP_CODES,
  },
  {
    title: "Prompts, copies and Claude",
    about:
      "Constructors throw immediately: a `PromptValidationError`, a `SkillRefError` or a `SkillInstallationError`, which are all `SkillError`s.",
    pages: { Prompts: "prompts.md", copies: "export.md", Claude: "claude.md" },
    codes: PROMPT_CODES,
  },
  {
    title: "The command line",
    about: "From every command, and from files that several parts of skillet write.",
    codes: COMMAND_CODES,
  },
];
