/** Frontmatter keys of a client in addition to those of the open standard. */
export interface ClientKeys {
  /** Keys that it reads in a skill. */
  skill: readonly string[];
  /** Keys of its agents, commands, prompts and rules. They are common in skills too, because files are copied between kinds. */
  other?: readonly string[];
}

/** The keys that clients document, one row per client. A key in this table is never reported as a misspelling. */
export const CLIENT_KEYS = {
  claude: {
    // Not `model`: loading a skill does not change the model of the conversation.
    skill: [
      "when_to_use",
      "argument-hint",
      "arguments",
      "disable-model-invocation",
      "user-invocable",
      "disallowed-tools",
      "effort",
      "context",
      "agent",
      "background",
      "hooks",
      "paths",
      "shell",
    ],
    other: [
      ...["tools", "disallowedTools", "permissionMode", "maxTurns", "skills", "mcpServers", "memory", "isolation"],
      ...[
        "color",
        "initialPrompt",
        "model",
        "output-style",
        "keep-coding-instructions",
        "hide-from-slash-command-tool",
      ],
    ],
  },
  codex: { skill: [], other: ["interface", "policy", "dependencies"] },
  gemini: { skill: [], other: ["kind", "tools", "model", "temperature", "max_turns", "timeout_mins", "prompt"] },
  opencode: {
    skill: [],
    other: [
      ...["mode", "model", "prompt", "tools", "permission", "temperature", "top_p", "steps", "maxSteps", "disable"],
      ...["hidden", "color", "agent", "subtask", "template"],
    ],
  },
  // Reads the same keys as VS Code, and shares its folders.
  copilot: { skill: ["argument-hint", "user-invocable", "disable-model-invocation"] },
  vscode: {
    skill: ["argument-hint", "user-invocable", "disable-model-invocation"],
    other: ["mode", "model", "tools", "agent", "agents", "handoffs", "target", "infer", "mcp-servers", "applyTo"],
  },
  cursor: {
    skill: ["disable-model-invocation", "paths"],
    other: ["globs", "alwaysApply", "readonly", "is_background"],
  },
  agents: { skill: [] },
  openclaw: {
    skill: [
      ...["homepage", "user-invocable", "disable-model-invocation"],
      ...["command-dispatch", "command-tool", "command-arg-mode"],
    ],
    other: ["emoji", "os", "always", "requires", "install", "primaryEnv", "skillKey"],
  },
  hermes: { skill: ["version", "author", "platforms", "prerequisites", "required_environment_variables"] },
  roo: { skill: ["mode", "modeSlugs"], other: ["whenToUse", "customInstructions", "groups", "slug"] },
  windsurf: { skill: [], other: ["trigger", "glob", "globs"] },
  kiro: { skill: [], other: ["inclusion", "fileMatchPattern"] },
  continue: { skill: [], other: ["globs", "regex", "alwaysApply", "invokable", "rules", "models", "prompts"] },
  droid: { skill: [], other: ["tools", "model", "reasoningEffort"] },
} as const satisfies Readonly<Record<string, ClientKeys>>;

/** A key of a skill that has no effect in a client that does not read it. */
export interface UnsupportedKey {
  /** The consequence for the client's users. */
  effect: string;
  /** Returns true if this value changes the default behavior. Without this function, any value does. */
  isSet?(value: unknown): boolean;
}

/** One row for each key that some client of `skillet export` reads, except `when_to_use`: exports write that into the description. */
export const UNSUPPORTED_KEYS: Readonly<Record<string, UnsupportedKey>> = {
  "argument-hint": { effect: "users see no hint for its arguments" },
  arguments: { effect: "named arguments stay placeholders" },
  "disable-model-invocation": {
    effect: "a model may choose it there by itself",
    isSet: (value) => value === true || value === "true",
  },
  "user-invocable": {
    effect: "users can call it by its name",
    isSet: (value) => value === false || value === "false",
  },
  "disallowed-tools": { effect: "these tools stay available" },
  effort: { effect: "the model's effort does not change" },
  context: { effect: "it runs in the conversation itself" },
  agent: { effect: "that agent does not run it" },
  background: { effect: "it does not run in the background" },
  hooks: { effect: "its hooks do not run" },
  paths: { effect: "it is offered for all files" },
  shell: { effect: "commands run in the client's own shell" },
};

type ClientKeyUse = "skill" | "other";

/** Returns where clients read this key: in a skill, only in their other files, or undefined for nowhere. */
export function findClientUse(key: string): ClientKeyUse | undefined {
  return USE_BY_KEY.get(key);
}

const CLIENT_KEY_ROWS = Object.values<ClientKeys>(CLIENT_KEYS);
const USE_BY_KEY: ReadonlyMap<string, ClientKeyUse> = new Map([
  ...CLIENT_KEY_ROWS.flatMap(({ other = [] }) => other.map((key) => [key, "other"] as const)),
  ...CLIENT_KEY_ROWS.flatMap(({ skill }) => skill.map((key) => [key, "skill"] as const)),
]);
