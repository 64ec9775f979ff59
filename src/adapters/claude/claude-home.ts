import { randomUUID } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Prompt } from "../../agent/prompts/prompt-template.ts";
import type { SkillSection } from "../../agent/prompts/skill-sections.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { SkillsInstalledEvent } from "../../host/events.ts";
import {
  createHermeticHome,
  type HermeticHome,
  installPromptSkills,
  isInstallableSource,
} from "../../remote/clients/hermetic-home.ts";
import type { Skill } from "../../skill/skill.ts";
import { listSkillScripts } from "../../skill/skill-code.ts";
import { hashFolder } from "../../store/folder-copy.ts";
import { mapAsync } from "../../util/async.ts";
import { freezeObject, isJsonObject, type JsonObject } from "../../util/objects.ts";
import { findSystemProgram } from "../../util/system.ts";
import { READING_TOOLS } from "./claude-permissions.ts";
import type { IsolationOptions } from "./claude-sdk.ts";

const NOT_ISOLATED_PROBLEM: Problem = {
  code: "skills-not-installed",
  message: "Skills installation requires hermetic isolation",
  fix: "evaluate it with `isolation: true`, or disable installation: `isolation: { installSkills: false }`",
};

/** The plan for the skills of a prompt. */
export interface ClaudeHomePlan {
  isolation: IsolationOptions | undefined;
  /** True if the installable skills are installed. */
  isInstalled: boolean;
  warnings: readonly Problem[];
}

/** Plans the home. Throws a PromptValidationError or SkillRefError. */
export function planClaudeHome(prompt: Prompt, isolation: boolean | IsolationOptions = false): ClaudeHomePlan {
  const options = isolation === true ? {} : isolation === false ? undefined : isolation;
  const isInstalled = options !== undefined && options.installSkills !== false;
  const isMissed = !options && prompt.skills().some(isInstallableSource);
  return { isolation: options, isInstalled, warnings: isMissed ? [NOT_ISOLATED_PROBLEM] : [] };
}

/** The home of an agent while a prompt is evaluated. */
export interface ClaudeHome {
  home: HermeticHome | undefined;
  /** The installed skills, by name. */
  installed: ReadonlyMap<string, Skill>;
  event: SkillsInstalledEvent | undefined;
  /** Returns a problem if the installed skills were changed, which is not allowed. */
  findChange(): Problem | undefined;
  /** Removes the home. Contract: a failure is returned, never thrown. */
  close(): Promise<Problem | undefined>;
}

interface ClaudeHomeOptions {
  sessionId: string;
  /** True if programs can be started: a missing sandbox is then an error. */
  startsPrograms: boolean;
}

/** Creates the home and installs the skills. Throws a SkillError, and then removes everything. */
export function openClaudeHome(
  prompt: Prompt,
  { isolation, isInstalled }: ClaudeHomePlan,
  options: ClaudeHomeOptions,
): ClaudeHome {
  if (!isolation) return NO_HOME;
  const { installSkills: _, ...more } = isolation;
  const home = createHermeticHome({ ...more, ...protectCredentials(more, options.startsPrograms) });
  try {
    const sources = isInstalled ? prompt.skills().filter(isInstallableSource) : [];
    const these = { skills: () => sources, params: prompt.params };
    if (sources.length > 0) installPromptSkills(these, { skillsDir: home.skillsDir, isReadOnly: true });
    const skills = sources.map((source) =>
      source.kind === "ref" ? source.toSkill() : (source as SkillSection<object>).toSkill(prompt.params),
    );
    const before = digestSkills(home.skillsDir);
    return {
      home,
      installed: new Map(skills.map((skill) => [skill.name, skill])),
      event:
        sources.length === 0 ? undefined : createInstalledEvent(prompt, sources, home.skillsDir, options.sessionId),
      findChange: () => (digestSkills(home.skillsDir) === before ? undefined : SKILLS_CHANGED),
      close: () => removeHomeWithRetries(home),
    };
  } catch (error) {
    home.remove();
    throw error;
  }
}

const NO_HOME: ClaudeHome = {
  home: undefined,
  installed: new Map(),
  event: undefined,
  findChange: () => undefined,
  close: async () => undefined,
};

const SKILLS_CHANGED: Problem = {
  code: "skills-changed",
  message: "The installed skills were changed while the prompt was evaluated",
  fix: "do not trust the result; run commands in the sandbox, or remove `Bash` from `tools`",
};

/** Protects the credentials from programs, which could use them to sign in. Without programs no sandbox is needed. */
function protectCredentials(
  options: IsolationOptions,
  startsPrograms: boolean,
): Pick<IsolationOptions, "settings" | "sandbox"> {
  const { settings = {}, authFiles = [] } = options;
  const sandbox = { ...toData(settings["sandbox"]), ...options.sandbox };
  const permissions = toData(settings["permissions"]);
  const credentials = toData(sandbox["credentials"]);
  const files = authFiles.map((file) => `~/${typeof file === "string" ? file : file.path}`);
  return {
    settings: {
      // Hooks in a skill's frontmatter are commands that would run without a sandbox and without approval.
      disableAllHooks: true,
      disableSkillShellExecution: !startsPrograms,
      ...settings,
      permissions: { ...permissions, deny: [...toList(permissions["deny"]), ...files.map((path) => `Read(${path})`)] },
    },
    sandbox: {
      ...(startsPrograms ? {} : { failIfUnavailable: false }),
      ...sandbox,
      credentials: {
        ...credentials,
        files: [...toList(credentials["files"]), ...files.map((path) => ({ path, mode: "deny" }))],
        envVars: [...toList(credentials["envVars"]), ...SECRET_VARIABLES.map((name) => ({ name, mode: "deny" }))],
      },
    },
  };
}

function toData(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

function toList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function digestSkills(skillsDir: string): string {
  try {
    const names = readdirSync(skillsDir, { withFileTypes: true }).filter(({ name }) => !name.startsWith("."));
    return names
      .map((entry) => `${entry.name} ${entry.isDirectory() ? hashFolder(`${skillsDir}/${entry.name}`).digest : ""}`)
      .sort()
      .join("\n");
  } catch {
    return "unreadable";
  }
}

/** Retries: the process may still write for a moment after it ended. */
async function removeHomeWithRetries(home: HermeticHome): Promise<Problem | undefined> {
  for (let again = 0; ; again++) {
    try {
      home.remove();
      return undefined;
    } catch (error) {
      if (again < MAX_TRIES) await wait(100);
      else
        return {
          code: "home-not-removed",
          message: `Cannot remove ${home.path}`,
          fix: error instanceof SkillError ? error.fix : "",
        };
    }
  }
}

const MAX_TRIES = 30;

function createInstalledEvent(
  prompt: Prompt,
  sources: readonly { kind: "skill" | "ref"; name: string }[],
  skillsDir: string,
  sessionId: string,
): SkillsInstalledEvent {
  const namesOf = (kind: "skill" | "ref") => sources.filter((one) => one.kind === kind).map(({ name }) => name);
  const [inlineSkills, referencedSkills] = [namesOf("skill"), namesOf("ref")];
  return freezeObject<SkillsInstalledEvent>({
    type: "skills-installed",
    inlineSkills,
    referencedSkills,
    skills: [...inlineSkills, ...referencedSkills],
    skillsDir,
    promptNs: prompt.ns,
    promptKey: prompt.key,
    sessionId,
    createdAt: new Date().toISOString(),
    eventId: randomUUID(),
  });
}

type Variables = Readonly<Record<string, string | undefined>>;

/** Environment variables whose values are redacted and hidden from programs that the agent starts. */
export const SECRET_VARIABLES: readonly string[] = [
  "ANTHROPIC_API_KEY",
  "ANTHROPIC_AUTH_TOKEN",
  "CLAUDE_CODE_OAUTH_TOKEN",
];

/** Environment variables passed to an isolated process: for programs, network access and credentials. */
const KEPT_VARIABLES = [
  ...["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "SystemRoot", "ComSpec", "PATHEXT"],
  ...["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"],
  ...["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR"],
  ...["ANTHROPIC_BASE_URL", ...SECRET_VARIABLES],
];

const FIXED_CLAUDE_VARIABLES = {
  // A run ends with its answer: it does not wait for background commands, and is not answered twice.
  CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1",
};

/** The process reads only its home, and sends no telemetry. */
const ISOLATION_VARIABLES = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  CLAUDE_CODE_DISABLE_BUNDLED_SKILLS: "1",
  CLAUDE_CODE_DISABLE_CLAUDE_MDS: "1",
  CLAUDE_CODE_DISABLE_AUTO_MEMORY: "1",
  DISABLE_AUTOUPDATER: "1",
};

/** Creates the environment of a process in this home, or in the user's. */
export function createClaudeEnvironment(
  home: HermeticHome | undefined,
  outer: Variables,
  variables: Variables = {},
): Variables {
  if (!home) return { ...outer, ...FIXED_CLAUDE_VARIABLES, ...variables };
  const kept = Object.fromEntries(
    KEPT_VARIABLES.flatMap((name) => (outer[name] === undefined ? [] : [[name, outer[name]]])),
  );
  const own = { ...home.env, CLAUDE_CODE_TMPDIR: join(home.path, "tmp"), TMPDIR: join(home.path, "tmp") };
  // A caller may pass its complete environment, including HOME, as the SDK expects. The isolated home still wins.
  return { ...kept, ...FIXED_CLAUDE_VARIABLES, ...ISOLATION_VARIABLES, ...variables, ...own };
}

/** The tool of Claude that starts programs. */
const BASH_TOOL = "Bash";

/** Programs that Claude Code's sandbox needs on Linux, with their packages. */
const SANDBOX_PROGRAMS: Readonly<Record<string, string>> = { bwrap: "bubblewrap", socat: "socat" };

/** Returns the problem of a machine on which Claude Code has no sandbox; undefined if it has one. */
export function findSandboxProblem(
  platform: NodeJS.Platform = process.platform,
  find: (program: string) => string | undefined = findSystemProgram,
): Problem | undefined {
  const missing =
    platform === "linux" ? Object.keys(SANDBOX_PROGRAMS).filter((program) => find(program) === undefined) : [];
  if (missing.length === 0) return undefined;
  return {
    code: "claude-sandbox-missing",
    message: `Claude Code has no sandbox for commands here: ${missing.join(" and ")} ${missing.length === 1 ? "is" : "are"} not installed`,
    fix: `install the package: apt-get install ${missing.map((program) => SANDBOX_PROGRAMS[program]).join(" ")}`,
  };
}

interface ScriptPlan {
  /** Claude's own tools, if the program sets none. */
  tools: readonly string[];
  problem?: Problem;
}

/** Decides whether commands are offered, so that scripts of referenced skills can run: only in a sandbox. */
export async function planScripts(
  prompt: Prompt,
  isInstalled: boolean,
  problem = findSandboxProblem(),
): Promise<ScriptPlan> {
  const refs = prompt.skills().flatMap((one) => (one.kind === "ref" ? one.toSkill() : []));
  const hasScripts = isInstalled && (await mapAsync(refs, listSkillScripts)).flat().length > 0;
  if (!hasScripts) return { tools: READING_TOOLS };
  return problem ? { tools: READING_TOOLS, problem } : { tools: [...READING_TOOLS, BASH_TOOL] };
}

/** Returns the rules that allow Claude to run the scripts of these skills, and no other command. */
export async function listScriptGrants(
  installed: ReadonlyMap<string, Skill>,
  skillsDir: string | undefined,
): Promise<string[]> {
  if (skillsDir === undefined) return [];
  const grants = await mapAsync(installed, async ([name, skill]) =>
    (await listSkillScripts(skill)).flatMap(({ path }) =>
      [skillsDir, "~/.claude/skills"].flatMap((folder) => {
        const script = `${folder}/${name}/${path}`;
        return ["", "bash ", "sh ", "python3 ", "node "].map((program) => `${BASH_TOOL}(${program}${script}:*)`);
      }),
    ),
  );
  return grants.flat();
}
