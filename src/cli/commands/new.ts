import { existsSync, mkdirSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { SkillError } from "../../shared/error.ts";
import { defineSkill } from "../../skill/define.ts";
import { PROFILES, type Profile } from "../../skill/diagnostic.ts";
import { LONGEST_NAME, STANDARD_NAME, unusableName } from "../../skill/name.ts";
import { renderDocument } from "../../skill/render.ts";
import { checkPath } from "../../source/check.ts";
import { copySkill } from "../../source/digest.ts";
import { displayPath, locations } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, surroundingsFor } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import type { CommonOptions, Context } from "../program.ts";
import { writeToolsetTypes } from "../toolset-types.ts";

interface NewOptions {
  description?: string;
  in?: string;
  user?: boolean;
  toolset?: boolean;
}

export async function newSkill({ io, options, args: [name = ""] }: Context<NewOptions>): Promise<number> {
  if (!STANDARD_NAME.test(name) || name.length > LONGEST_NAME || unusableName(name)) {
    throw new SkillError("name-unusable", {
      message: `"${name}" cannot be a skill's name`,
      fix: `use up to ${LONGEST_NAME} lower-case letters, digits and single hyphens: ${suggestion(name)}`,
    });
  }
  const around = surroundingsFor(io, options);
  const parent = options.in
    ? resolve(io.cwd, options.in)
    : options.user
      ? join(around.skilletHome, "skills")
      : (locations(around).at(-1)?.path ?? "");
  const folder = join(parent, name);
  if (existsSync(folder)) {
    throw new SkillError("exists", {
      message: `${displayPath(folder, around)} is already there`,
      fix: "choose another name, or edit what is there",
    });
  }
  const description =
    options.description ??
    `${titleOf(name)}: say here in a sentence what it does. Use when the user asks for it by name.`;
  defineSkill({ name, description, instructions: "checked before anything is written" });
  const file = join(folder, "SKILL.md");
  const draft = join(parent, `.${name}.${process.pid}`);
  try {
    mkdirSync(draft, { recursive: true });
    writeFileSync(join(draft, "SKILL.md"), skillText(name, description, options.toolset === true));
    if (options.toolset) {
      mkdirSync(join(draft, "toolsets"));
      writeFileSync(join(draft, "toolsets", "index.ts"), TOOLSET);
    }
    renameSync(draft, folder);
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    throw new SkillError("unwritable", {
      message: `${displayPath(folder, around)} cannot be made`,
      fix: `check that ${dirname(folder)} can be written to`,
      cause: error,
    });
  }
  const types = options.toolset ? writeToolsetTypes(parent) : undefined;
  await trustOwn(io, options, folder);
  if (options.json) printJson(io.stdout, { name, file, ...(types ? { types: types.folder } : {}) });
  else {
    const out = printer(io.stdout, io.env);
    const here = { ...around, workspace: io.cwd };
    out.line`${out.green("✓")} ${displayPath(file, here)}`;
    if (types) {
      out.line`${out.green("✓")} ${displayPath(join(folder, "toolsets", "index.ts"), here)}`;
      out.line`${out.green("✓")} ${displayPath(types.folder, here)} ${out.dim("(types for your editor; git leaves them out)")}`;
    }
    for (const [profile, message] of broken(folder))
      out.line`${out.yellow("!")} ${message} ${out.dim(`(profile ${profile})`)}`;
    out.line`  edit it, then: ${out.cyan(`skillet check ${displayPath(folder, here)}`)}`;
  }
  return EXIT.fine;
}

/** What the user makes here is the user's own, wherever it stands: its code need not be asked about until it changes elsewhere. */
async function trustOwn(io: Io, options: CommonOptions, folder: string): Promise<void> {
  const found = await discoverFor(io, options);
  const place = realpathSync(folder);
  const skill = [...found.catalog.skills, ...found.catalog.shadowed].find(({ origin }) => origin.folder === place);
  if (skill && found.trust.standingOf(skill) === "untrusted") found.trust.grant([{ skill, copy: copySkill(skill) }]);
}

/** What the chosen words break, by the first profile that says so. */
function broken(folder: string): [Profile, string][] {
  const said = new Map<string, Profile>();
  for (const profile of PROFILES) {
    const { files } = checkPath(folder, { profile });
    for (const { message } of files.flatMap((file) => file.diagnostics))
      if (!said.has(message)) said.set(message, profile);
  }
  return [...said].map(([message, profile]) => [profile, message]);
}

const TOOLSET = [
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

function skillText(name: string, description: string, hasToolset: boolean): string {
  const title = titleOf(name);
  const toolsets = hasToolset ? { toolsets: ["toolsets/index:tools"] } : {};
  return renderDocument(
    { name, description, ...toolsets, metadata: { version: "0.1.0", tags: [name.split("-")[0] ?? name] } },
    [
      `# ${title}`,
      "",
      "State the goal in one sentence, so that the agent knows when it is done.",
      "",
      "## Steps",
      "",
      "1. Say what to look at first.",
      "2. Say what to do, with the exact commands.",
      "3. Say how to verify the result.",
      "",
      "## Good to know",
      "",
      "- What usually goes wrong, and what to do then.",
      "- Long details belong in files beside this one: name them here, and they are read only when needed.",
    ].join("\n"),
  );
}

function titleOf(name: string): string {
  const words = name.replaceAll("-", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function suggestion(name: string): string {
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, LONGEST_NAME);
  return slug === "" || unusableName(slug) ? "for example `release-notes`" : `for example \`${slug}\``;
}
