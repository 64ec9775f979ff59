import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

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

  it("[T-17] names counterparts that exist", () => {
    const sources = globSync("src/**/*.ts", { cwd: root }).map((path) => readFileSync(join(root, path), "utf8"));
    const known = new Set(sources.join("\n").match(/[A-Za-z_][\w]*/g));
    const words = rows.flatMap(({ counterpart }) =>
      Array.from(counterpart.matchAll(/`([^`]+)`/g), ([, code = ""]) => code.match(/[A-Za-z_]\w{2,}/g) ?? []).flat(),
    );
    expect(words.length).toBeGreaterThan(150);
    expect([...new Set(words)].filter((word) => !known.has(word))).toEqual([]);
  });
});
