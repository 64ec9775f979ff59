import { posix, win32 } from "node:path";

/** What programs that the agent starts may reach, as Claude Code's settings have it. */
export interface HomeNetwork {
  /** Hosts, also `*.example.com`. None when left out. */
  allowedDomains?: readonly string[];
  deniedDomains?: readonly string[];
  allowLocalBinding?: boolean;
  allowUnixSockets?: readonly string[];
}

export interface HomeSettingsOptions {
  /** What its .claude/settings.json says beside what it says of itself. */
  settings?: Readonly<Record<string, unknown>>;
  /** Keys of its `sandbox`: `{ enabled: false }`, `{ excludedCommands: […] }`. */
  sandbox?: Readonly<Record<string, unknown>>;
  network?: HomeNetwork;
}

/**
 * What .claude/settings.json says: programs run in Claude Code's sandbox and reach no host that is not named, and neither they nor its own
 * tools change the skills, nor these settings. What the caller says goes before, except that what is protected stays so.
 */
export function homeSettings(options: HomeSettingsOptions, skillsDir: string): Record<string, unknown> {
  const { settings = {}, network = {} } = options;
  const sandbox = { ...part(settings["sandbox"]), ...options.sandbox };
  const filesystem = part(sandbox["filesystem"]);
  const permissions = part(settings["permissions"]);
  const kept = protectedPaths(skillsDir);
  return {
    ...settings,
    sandbox: {
      enabled: true,
      failIfUnavailable: true,
      allowUnsandboxedCommands: false,
      ...sandbox,
      network: { allowedDomains: [], strictAllowlist: true, ...part(sandbox["network"]), ...network },
      filesystem: { ...filesystem, denyWrite: [...list(filesystem["denyWrite"]), ...kept] },
    },
    // `Edit` is about every tool that changes files; a `Write` rule with a path is never asked.
    permissions: { ...permissions, deny: [...list(permissions["deny"]), ...RULES_AT_HOME, ...kept.map(editRule)] },
  };
}

// By the home too: a path may hold characters that mean something else in a rule.
const RULES_AT_HOME = ["Edit(~/.claude/skills/**)", "Edit(~/.claude/settings*.json)"];

function protectedPaths(skillsDir: string): string[] {
  const { dirname, join } = skillsDir.includes("\\") ? win32 : posix;
  return [skillsDir, join(dirname(skillsDir), "settings.json")];
}

/** Two slashes are the root of the file system there, one is the folder of the settings; `C:\x` is `/c/x`. */
function editRule(path: string): string {
  const slashed = path.replace(/^([A-Za-z]):/, (_, drive) => `/${drive.toLowerCase()}`).replaceAll("\\", "/");
  return `Edit(/${slashed}${slashed.endsWith(".json") ? "" : "/**"})`;
}

function part(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
