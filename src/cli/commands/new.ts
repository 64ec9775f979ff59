import { existsSync, mkdirSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Option } from "commander";
import { SkillError } from "../../errors/problem.ts";
import { defineSkill } from "../../skill/define-skill.ts";
import { renderDocument } from "../../skill/frontmatter.ts";
import { DESCRIPTION_PLACEHOLDER, INSTRUCTIONS_TEMPLATE } from "../../skill/lint.ts";
import { findNameProblem, MAX_NAME_LENGTH, PROFILES, type Profile, STANDARD_NAME } from "../../skill/skill.ts";
import { checkPath } from "../../skill/source/check-skills.ts";
import { formatDisplayPath, listLocations } from "../../skill/source/locations.ts";
import { copySkill } from "../../skill/source/skill-copy.ts";
import { createFolder } from "../../util/file-access.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  discoverForCommand,
  EXIT,
  formatExamples,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { type CommandIo, createPrinter, printJson } from "../output.ts";
import { writeToolsetTypes } from "./schema.ts";

/** `skillet new`. */
export const newCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Create a skill from a template that `check` reports until you edit it")
      .argument("<name>", "Lowercase letters, digits and hyphens")
      .option("-d, --description <text>", "Describe what it does and when to use it")
      .addOption(
        new Option("--in <folder>", "Create the skill in this folder").default(undefined, "<workspace>/skills"),
      )
      .addOption(new Option("--user", "Create the skill in ~/.skillet/skills").conflicts("in"))
      .option("--toolset", "Add a tool in TypeScript, with types for your editor")
      .addHelpText(
        "after",
        formatExamples(
          "skillet new release-notes",
          'skillet new deploy --description "Deploys the app. Use when asked to ship."',
          "skillet new weather --toolset",
        ),
      ),
  run: createNewSkill,
};

interface NewOptions {
  description?: string;
  in?: string;
  user?: boolean;
  toolset?: boolean;
}

async function createNewSkill({ io, options, args: [name = ""] }: CommandContext<NewOptions>): Promise<number> {
  if (!STANDARD_NAME.test(name) || name.length > MAX_NAME_LENGTH || findNameProblem(name)) {
    throw new SkillError("name-invalid", {
      message: `"${name}" is not a valid skill name`,
      fix: `use up to ${MAX_NAME_LENGTH} lowercase letters, digits and single hyphens: ${suggestName(name)}`,
    });
  }
  const environment = resolveCommandEnvironment(io, options);
  const parent = options.in
    ? resolve(io.cwd, options.in)
    : options.user
      ? join(environment.skilletHome, "skills")
      : (listLocations(environment).at(-1)?.path ?? "");
  const folder = join(parent, name);
  if (existsSync(folder)) {
    throw new SkillError("exists", {
      message: `${formatDisplayPath(folder, environment)} already exists`,
      fix: "choose another name, or edit the existing skill",
    });
  }
  const description =
    options.description ?? `${formatTitle(name)}: ${DESCRIPTION_PLACEHOLDER}. Use when the user asks for it by name.`;
  defineSkill({ name, description, instructions: "checked before anything is written" });
  const file = join(folder, "SKILL.md");
  const draft = join(parent, `.${name}.${process.pid}`);
  try {
    createFolder(draft);
    writeFileSync(join(draft, "SKILL.md"), renderSkillTemplate(name, description, options.toolset === true));
    if (options.toolset) {
      mkdirSync(join(draft, "toolsets"));
      writeFileSync(join(draft, "toolsets", "index.ts"), TOOLSET_TEMPLATE);
    }
    renameSync(draft, folder);
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    throw new SkillError("unwritable", {
      message: `${formatDisplayPath(folder, environment)} cannot be created`,
      fix: `check that ${dirname(folder)} is writable`,
      cause: error,
    });
  }
  const types = options.toolset ? writeToolsetTypes(parent) : undefined;
  await trustNewSkill(io, options, folder).catch((error) => {
    rmSync(folder, { recursive: true, force: true }); // Otherwise the same command fails again, because the skill exists.
    throw error;
  });
  if (options.json) printJson(io.stdout, { name, file, ...(types ? { types: types.folder } : {}) });
  else {
    const out = createPrinter(io.stdout, io.env);
    const here = { ...environment, workspace: io.cwd };
    out.line`${out.green("✓")} ${formatDisplayPath(file, here)}`;
    if (types) {
      out.line`${out.green("✓")} ${formatDisplayPath(join(folder, "toolsets", "index.ts"), here)}`;
      out.line`${out.green("✓")} ${formatDisplayPath(types.folder, here)} ${out.dim("(types for your editor; ignored by git)")}`;
    }
    for (const [profile, message] of findTemplateProblems(folder))
      out.line`${out.yellow("!")} ${message} ${out.dim(`(profile ${profile})`)}`;
    out.line`  edit it, then: ${out.cyan(`skillet check ${formatDisplayPath(folder, here)}`)}`;
  }
  return EXIT.fine;
}

/** Trusts the new skill: its author is the user, wherever it is. A later change by others needs trust again. */
async function trustNewSkill(io: CommandIo, options: CommonOptions, folder: string): Promise<void> {
  const found = await discoverForCommand(io, options);
  const path = realpathSync(folder);
  const skill = [...found.catalog.skills, ...found.catalog.shadowed].find(({ origin }) => origin.folder === path);
  if (skill && found.trust.getStatus(skill) === "untrusted")
    found.trust.grant([{ skill, copy: await copySkill(skill) }]);
}

/** Returns the problems caused by the chosen description, with the first profile that reports each. */
function findTemplateProblems(folder: string): [Profile, string][] {
  const said = new Map<string, Profile>();
  for (const profile of PROFILES) {
    const { files } = checkPath(folder, { profile });
    for (const { code, message } of files.flatMap((file) => file.diagnostics))
      if (code !== "template-unedited" && !said.has(message)) said.set(message, profile);
  }
  return [...said].map(([message, profile]) => [profile, message]);
}

const TOOLSET_TEMPLATE = [
  'import { Tool } from "@agent/tools";',
  'import { z } from "zod";',
  "",
  "// `toolsets` in SKILL.md names this file and this export.",
  "export const tools = [",
  '  Tool.define("describe_city", {',
  '    description: "Describes a city in one sentence.",',
  '    parameters: z.object({ city: z.string().describe("the name of the city") }),',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a template of the file that is written
  "    execute: async ({ city }) => `${city.trim()} is a city.`,",
  "  }),",
  "];",
  "",
].join("\n");

function renderSkillTemplate(name: string, description: string, hasToolset: boolean): string {
  const title = formatTitle(name);
  const toolsets = hasToolset ? { toolsets: ["toolsets/index:tools"] } : {};
  return renderDocument(
    { name, description, ...toolsets, metadata: { version: "0.1.0", tags: [name.split("-")[0] ?? name] } },
    [`# ${title}`, "", ...INSTRUCTIONS_TEMPLATE].join("\n"),
  );
}

function formatTitle(name: string): string {
  const words = name.replaceAll("-", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function suggestName(name: string): string {
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, MAX_NAME_LENGTH);
  return slug === "" || findNameProblem(slug) ? "for example `release-notes`" : `for example \`${slug}\``;
}
