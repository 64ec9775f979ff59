import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { Command } from "commander";
import { describe, expect, it } from "vitest";
import type { SkillToolset, ToolsetOptions } from "../src/adapters/ai-sdk/index.ts";
import * as ai from "../src/adapters/ai-sdk/index.ts";
import type { ClaudeOptions, IsolationOptions } from "../src/adapters/claude/index.ts";
import * as claude from "../src/adapters/claude/index.ts";
import * as mcp from "../src/adapters/mcp-server/index.ts";
import type { ToolOutput } from "../src/agent/index.ts";
import * as agent from "../src/agent/index.ts";
import type {
  EvaluatePromptOptions,
  PromptParams,
  PromptTemplate,
  PromptTemplateOptions,
  Section,
  SkillOptions,
  SkillRef,
  SkillRefOptions,
  SkillSection,
  SkillsSection,
  SkillsSectionOptions,
  SkillsSectionParams,
  Visibility,
  VisibilityExpansionRequired,
} from "../src/agent/prompts/index.ts";
import * as prompts from "../src/agent/prompts/index.ts";
import { openSession } from "../src/agent/session/session.ts";
import * as capabilities from "../src/capabilities/index.ts";
import { prepareCommandMounts } from "../src/capabilities/sb-command.ts";
import * as catalogEntry from "../src/catalog/index.ts";
import { buildWholeProgram, listCommandPaths } from "../src/cli/program.ts";
import { CONFIG_KEYS } from "../src/config/config-keys.ts";
import { BUILT_IN_TOOLS } from "../src/config/host.ts";
import type { SkillInput, SkillSettings, SkillsInstalledEvent } from "../src/config/index.ts";
import * as config from "../src/config/index.ts";
import type {
  Caller,
  Catalog,
  DirectoryOptions,
  Host,
  Manifest,
  RunResult,
  Session,
  Settings,
  SettingsInput,
  Skill,
  SkillDefinition,
  SkillEvent,
  SkillOrigin,
  ToolDefinition,
  UseRequest,
} from "../src/index.ts";
import * as index from "../src/index.ts";
import type { InstallPromptSkillsOptions } from "../src/remote/clients/index.ts";
import * as install from "../src/remote/clients/index.ts";
import type { ParsedSkillMd } from "../src/skill/index.ts";
import * as skill from "../src/skill/index.ts";
import { MANIFEST_FIELDS } from "../src/skill/manifest.ts";
import * as store from "../src/store/index.ts";
import { discoverIn } from "./support/discover.ts";
import { skillText, temporaryFolder } from "./support/folder.ts";

const root = join(import.meta.dirname, "..");
const page = readFileSync(join(root, "docs/specs.md"), "utf8").split("## What holds")[0] ?? "";

/** The classes, functions, fields, tools and commands of each document, as it writes them. */
const NAMES: Readonly<Record<string, string>> = {
  "workspace skills":
    "SkillDefinition SkillContext SkillResult SkillResult.success SkillResult.error SkillRegistry discover get has list_names get_definitions SkillExecutor execute ToolExecutor AshConfig ListSkillsTool UseSkillTool preferred_model required_tools input_schema max_iterations session_id user_id chat_id input_data is_error iterations",
  "isolated sub-agents":
    "SkillConfig SkillDefaultsConfig get_env_vars list_available validate_skill_file skill_path authors rationale env packages capabilities allowed_tools model sensitive chat_types allow_chat_ids enabled capability_provider use_skill web_search web_fetch ash-sb config.toml uvx",
  "disclosure from folders":
    "SkillDirectory parse_skill_md discover_skills skills_instructions create_skills_toolset list_skills load_skill read_skill_resource validate_skill lint_skill load_skill_instructions instructions_mtime FunctionToolset AgentDeps SKILLS_DIR CUSTOM_SKILLS_DIR FilesystemSkillProvider SkillActivator activate_skill_for_topic skill_transforms skillmaker skillmaker_tools github_skill",
  "triggers and toolsets":
    "triggers.keywords toolsets scripts default_enabled brief_description max_skills ToolRegistry Tool.define @agent/tools",
  "sections of a prompt":
    "Skill SkillParams SkillRef SkillSource SkillsSection SkillsSectionParams MarkdownSection Section SectionVisibility VisibilitySelector PromptTemplate Prompt Session InProcessEventBus Tool ToolContext ToolResult IsolationConfig ClaudeAgentSDKAdapter ClaudeAgentSDKClientConfig SupportsDataclass SkillsInstalled SkillExpanded PromptValidationError SkillRefError SkillInstallationError VisibilityExpansionRequired WinkError FrozenDataclass default_params accepts_overrides has_tools to_skill_md resolved_path skill_md_path is_enabled validate base_path skill_refs all_skills inline_skills referenced_skills native_skills prompt_skills install_skills skills_dir params_lookup enabled_skills open_sections prompt_ns prompt_key created_at event_id",
};

const rows = page.split("\n").flatMap((line) => {
  const [, name, counterpart] = /^\| (.*?) \| (.*) \|$/.exec(line) ?? [];
  return name === undefined || counterpart === undefined || /^-+$/.test(name) ? [] : [{ name, counterpart }];
});

describe("docs/specs.md", () => {
  it.each(Object.entries(NAMES))("[T-17] names every class, function, field and tool of %s", (_, names) => {
    const left = rows.map(({ name }) => name).join("\n");
    const isNamed = (name: string) => new RegExp(`(?<![\\w])${name.replaceAll(".", "\\.")}(?![\\w])`).test(left);
    expect(names.split(" ").filter((name) => !isNamed(name))).toEqual([]);
  });

  it("[T-17] names counterparts that exist: exports, members, commands, keys and tools", async () => {
    const known = await knownNames();
    const codes = rows.flatMap(({ counterpart }) =>
      Array.from(counterpart.matchAll(/`([^`]+)`/g), ([, code = ""]) => code),
    );
    const unknownIn = (code: string): string[] => {
      if (known.has(code)) return [];
      if (code.startsWith("skillet ")) return isCommand(code) ? [] : [code];
      return (code.match(/[A-Za-z_]\w{2,}/g) ?? []).filter((word) => !known.has(word) && !STAND_INS.has(word));
    };
    expect(codes.length).toBeGreaterThan(130);
    expect(unknownIn("skillet nope"), "an unknown command").toEqual(["skillet nope"]);
    expect(unknownIn("skillet list --nope"), "an unknown option").toEqual(["skillet list --nope"]);
    expect(unknownIn("useSkills(catalog)"), "an unknown function").toEqual(["useSkills"]);
    expect([...new Set(codes)].flatMap((code) => unknownIn(code).map((word) => `${word} in ${code}`))).toEqual([]);
  });
});

/** The names of these members, which the compiler finds in the type. */
const of =
  <T>() =>
  (...names: (T extends unknown ? keyof T & string : never)[]): string[] =>
    names;

/** Exported types, and the members that the page names. */
const TYPES: Readonly<Record<string, readonly string[]>> = {
  Skill: of<Skill>()("name", "description", "manifest", "origin", "body", "files"),
  Origin: of<SkillOrigin>()("file"),
  Manifest: of<Manifest>()("briefDescription", "defaultEnabled"),
  SkillDefinition: of<SkillDefinition>()("instructions", "model", "requiredTools", "inputSchema", "maxIterations"),
  ParsedSkillMd: of<ParsedSkillMd>()("frontmatter", "body", "findings"),
  RunResult: of<RunResult>()("content", "isError", "iterations"),
  UseRequest: of<UseRequest>()("skill", "input"),
  Host: of<Host>()("caller", "settings", "tools", "onEvent"),
  Caller: of<Caller>()("sessionId", "userId", "chatId"),
  Settings: of<Settings>()("skills"),
  SkillSettings: of<SkillSettings>()("variables"),
  SkillInput: of<SkillInput>()("env", "model", "enabled", "allowChatIds"),
  SettingsInput: of<SettingsInput>()("skills"),
  Catalog: of<Catalog>()("get", "has", "names", "definitions", "available"),
  Session: of<Session>()("tools", "activate", "load", "unload"),
  DirectoryOptions: of<DirectoryOptions>()("path", "recursive"),
  ToolsetOptions: of<ToolsetOptions>()("profile", "live"),
  SkillToolset: of<SkillToolset>()("tools", "instructions"),
  SkillOptions: of<SkillOptions<string>>()("title", "template", "key", "defaultParams", "acceptsOverrides"),
  SkillSection: of<SkillSection>()("hasTools", "toSkillMd"),
  SkillRefOptions: of<SkillRefOptions>()("path", "basePath", "enabled"),
  SkillRef: of<SkillRef>()("resolvedPath", "skillMdPath", "isEnabled", "validate"),
  SkillsSectionOptions: of<SkillsSectionOptions<[]>>()("title", "key", "skills", "skillRefs", "enabled"),
  SkillsSection: of<SkillsSection>()("allSkills", "inlineSkills", "referencedSkills", "nativeSkills", "promptSkills"),
  SkillsSectionParams: of<SkillsSectionParams>()("enabledSkills"),
  InstallSkillsOptions: of<InstallPromptSkillsOptions>()("skillsDir", "params"),
  PromptTemplate: of<PromptTemplate<never>>()("bind"),
  PromptTemplateOptions: of<PromptTemplateOptions<[]>>()("ns", "key", "sections"),
  EvaluateOptions: of<EvaluatePromptOptions>()("session"),
  ClaudeOptions: of<ClaudeOptions>()("session", "isolation"),
  IsolationOptions: of<IsolationOptions>()("installSkills"),
  VisibilityExpansionRequired: of<VisibilityExpansionRequired>()("sectionKeys"),
  SkillsInstalled: of<SkillsInstalledEvent>()("promptNs", "promptKey", "createdAt", "eventId", "inlineSkills"),
  ToolDefinition: of<ToolDefinition<never>>()("description", "parameters", "execute"),
  ToolOutput: of<ToolOutput>()("message", "value"),
  Params: of<PromptParams>()(),
  Section: of<Section>()(),
};

/** Types of events, spellings of visibility: values that only a type lists. */
const EVENTS: readonly SkillEvent["type"][] = ["skills-installed", "skill-expanded"];
const VISIBILITIES: readonly Visibility[] = ["FULL", "SUMMARY"];

/** Placeholders in a call: an argument, the value before a dot, a name to fill in. */
const STAND_INS = new Set(
  "catalog host session server folders section prompt options topic query params text research defaults success error NAME PATH env file render true false static name config toml skillet".split(
    " ",
  ),
);

async function knownNames(): Promise<Set<string>> {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const { catalog } = await discoverIn({ "skills/x/SKILL.md": skillText("x"), "skills/x/guide.md": "A guide." });
  const session = openSession(catalog);
  const other = { skill_name: "x", resource_name: "guide.md" };
  const read = await session.call("read_skill_resource", other);
  const inSandbox = prepareCommandMounts(temporaryFolder(), { mapsPaths: true }).filter(({ from }) =>
    readFileSync(from, "utf8").includes('"capability list"'),
  );
  return new Set([
    ...[index, agent, prompts, config, skill, store, capabilities, catalogEntry, ai, claude, install, mcp].flatMap(
      (entry) => Object.keys(entry),
    ),
    ...Object.keys(index.Tool),
    ...Object.keys(agent.skillResult),
    ...Object.entries(TYPES).flat(2),
    ...Object.keys(exports).map((path) => path.replace(".", "skillet")),
    ...CONFIG_KEYS.flatMap(({ path }) => [path, ...path.split(".")]),
    ...BUILT_IN_TOOLS.map(({ name }) => name),
    ...session.tools.map(({ name }) => name),
    ...MANIFEST_FIELDS.flatMap(({ keys }) => keys),
    ...readdirSync(join(root, "skills")),
    ...index.TIERS,
    ...EVENTS,
    ...(read.text.includes("A guide.") ? Object.keys(other) : []),
    mcp.formatWireName("skill.tool"),
    ...inSandbox.flatMap(({ to }) => [basename(to), `${basename(to)} capability`]),
    ...VISIBILITIES,
  ]);
}

const SILENT = { write: () => {} };
const PROGRAM = await buildWholeProgram({ stdout: SILENT, stderr: SILENT, env: {}, cwd: "." });
const COMMAND_PATHS = await listCommandPaths();

/** True for an existing command with valid options. */
function isCommand(code: string): boolean {
  const [, path = "", options = ""] = /^skillet ([a-z]+(?: [a-z]+)*)((?: .*)?)$/.exec(code) ?? [];
  if (!COMMAND_PATHS.includes(path) || path === "") return false;
  const command = path
    .split(" ")
    .reduce<Command | undefined>((above, name) => above?.commands.find((below) => below.name() === name), PROGRAM);
  const flags = options.match(/--[a-z-]+/g) ?? [];
  return flags.every((flag) => command?.options.some(({ long }) => long === flag));
}
