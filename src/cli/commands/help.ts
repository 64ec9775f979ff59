import { existsSync } from "node:fs";
import { join } from "node:path";
import { COMMAND_CODES, MCP_CODES, PROMPT_CODES, STUDIO_CODES } from "../../errors/error-codes.ts";
import { type CodeRow, SkillError } from "../../errors/problem.ts";
import { ARCHIVE_ERROR_CODES, LOCK_CODES, SOURCE_CODES } from "../../errors/remote-codes.ts";
import { ENGINE_CODES, RUN_CODES, TOOL_CODES, USE_CODES } from "../../errors/run-codes.ts";
import { CAPABILITY_CODES, SCRIPT_CODES } from "../../errors/sandbox-codes.ts";
import { packageRoot } from "../../util/system.ts";
import { findNearest, truncateLine } from "../../util/text.ts";
import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-context.ts";
import { type CommandIo, createPrinter, printHanging, printJson } from "../output.ts";
import { buildProgram, expandAlias, failUnknownCommand, findMeantCommand, listCommandNames } from "../program.ts";

/** `skillet help`. */
export const helpCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Show the help of a command, or explain an error code")
      .argument("[topic...]", "A command, or the code that a message ends with. Defaults to the program itself.")
      .addHelpText(
        "after",
        formatExamples("skillet help run", "skillet help config set", "skillet help sandbox-unavailable"),
      ),
  run: printHelp,
};

async function printHelp({ io, options, args }: CommandContext<object>): Promise<number> {
  const path = expandAlias(args);
  const [topic = ""] = path;
  const codes = path.length === 1 ? await explainCode(topic) : [];
  const isCommand = path.length !== 1 || listCommandNames().includes(topic);
  if (!isCommand && codes.length === 0) await failUnknownTopic(topic);
  if (isCommand || codes.length === 0) {
    let command = await buildProgram(io, path, () => {});
    for (const name of path) {
      const inner = command.commands.find((other) => other.name() === name);
      command = inner ?? failUnknownCommand(command, name);
    }
    command.outputHelp();
  } else if (options.json) printJson(io.stdout, { codes });
  if (!options.json) for (const code of codes) printCode(io, code);
  return EXIT.fine;
}

/** The explanation of an error code, a finding or a rule of the scanner. */
interface CodeExplanation {
  code: string;
  meaning: string;
  fix: string;
  /** The name of the code in 0.1.0, if it was asked for by this name. */
  formerName?: string;
  /** For findings: the severity by profile. */
  severities?: Readonly<Record<string, string>>;
  /** The pages that document it, as absolute paths where this package ships them. */
  pages: readonly string[];
}

/** Explains a code. A finding and a rule of the scanner can have the same one. */
async function explainCode(typed: string): Promise<CodeExplanation[]> {
  const { findNewName } = await import("../../errors/renamed-names.ts");
  const value = normalizeCode(typed);
  const code = findNewName("code", value) ?? value;
  const { FINDING_CODES } = await import("../../errors/finding-codes.ts");
  const { SCAN_RULES } = await import("../../scan/all-rules.ts");
  const found: CodeExplanation[] = [];
  if (Object.hasOwn(FINDING_CODES, code)) {
    const { PROFILES } = await import("../../skill/skill.ts");
    const { meaning, fix, severities } = FINDING_CODES[code as keyof typeof FINDING_CODES];
    const byProfile = PROFILES.map((profile) => [profile, SEVERITIES[severities[profile] ?? severities.all]] as const);
    const pages = [`errors.md#${code}`, "skills.md"].map(formatPage);
    found.push({ code, meaning, fix, severities: Object.fromEntries(byProfile), pages });
  }
  for (const { codes, pages = {} } of CODE_SECTIONS) {
    const row = Object.hasOwn(codes, code) ? codes[code] : undefined;
    if (row)
      found.push({
        code,
        meaning: row.meaning,
        fix: row.fix,
        pages: [`errors.md#${code}`, ...Object.values(pages)].map(formatPage),
      });
  }
  for (const { id, title, why, fix } of SCAN_RULES)
    if (id === code) found.push({ code, meaning: `The skill ${title}. ${why}`, fix, pages: [formatPage("scan.md")] });
  return found.map((one) => (code === value ? one : { ...one, formerName: value }));
}

/** Returns the code in a copied text such as `[not-utf8]`. */
function normalizeCode(typed: string): string {
  return typed.toLowerCase().replace(/^[[(`"']+|[\])`"'.:]+$/g, "");
}

const SEVERITIES = {
  error: "error",
  "reported-error": "error, loaded",
  warning: "warning",
  info: "hint",
  none: "not reported",
} as const;

/** Returns the absolute path of a page that this package ships; if it is missing, its path in the repository. */
function formatPage(page: string): string {
  const root = packageRoot();
  const [file = ""] = page.split("#");
  return root !== undefined && existsSync(join(root, "docs", file)) ? join(root, "docs", page) : `docs/${page}`;
}

function printCode(io: CommandIo, { code, meaning, fix, formerName, severities, pages }: CodeExplanation): void {
  const out = createPrinter(io.stdout, io.env);
  out.line`${out.bold(code)}${formerName === undefined ? "" : out.dim(`  formerly ${formerName}`)}`;
  printHanging(out, "  ", [meaning], { indent: 2 });
  printHanging(out, "  Fix: ", [fix], { indent: 7 });
  for (const [at, page] of pages.entries()) out.line`  ${at === 0 ? "See: " : "     "}${page}`;
  const groups = Map.groupBy(Object.entries(severities ?? {}), ([, severity]) => severity);
  const text = [...groups].map(([severity, rows]) => `${severity} (${rows.map(([profile]) => profile).join(", ")})`);
  if (groups.size === 1)
    printHanging(out, "  ", [`Severity: ${[...groups.keys()].join()} in every profile of check`], { indent: 2 });
  else if (groups.size > 1) printHanging(out, "  Severity: ", [text.join("; ")], { indent: 12 });
}

/** Throws for a topic that is neither a command nor a code, with the nearest ones. */
async function failUnknownTopic(typed: string): Promise<void> {
  const { ERROR_CODES } = await import("../../errors/error-codes.ts");
  const codes = Object.keys(ERROR_CODES);
  const code = normalizeCode(typed);
  if (findMeantCommand(code) !== undefined) return; // `buildProgram` reports it, as for every mistyped command.
  const nearest = findNearest(code, codes);
  const words = code.split("-").filter((word) => word.length > 2);
  const similar = codes.filter((other) => words.some((word) => other.split("-").includes(word)));
  const meant = nearest === undefined ? similar.slice(0, MAX_SIMILAR) : [nearest];
  throw new SkillError("usage", {
    message: `Unknown command or error code "${truncateLine(typed, 60)}"`,
    ...(meant.length > 0
      ? { fix: `did you mean ${meant.join(", ")}?` }
      : { fix: `${formatPage("errors.md")} lists the codes; see the commands`, commands: ["skillet --help"] }),
  });
}

const MAX_SIMILAR = 5;

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
    title: "Studio",
    about: "From `skillet studio`, and from the requests of its page.",
    pages: { Studio: "studio.md" },
    codes: STUDIO_CODES,
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
