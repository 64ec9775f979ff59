import { randomUUID } from "node:crypto";
import { readdirSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import type { SkillsInstalled } from "../host/events.ts";
import type { Notice } from "../host/sandbox.ts";
import { contentOfFolder } from "../install/content.ts";
import { createHermeticHome, type HermeticHome } from "../install/home.ts";
import { installSkills, isInstallable } from "../install/install-skills.ts";
import type { Prompt } from "../prompt/prompt.ts";
import type { SkillSection } from "../prompt/skill.ts";
import { frozen } from "../shared/frozen.ts";
import { type Data, isData } from "../skill/data.ts";
import type { Skill } from "../skill/skill.ts";
import { SECRET } from "./environment.ts";
import type { IsolationOptions } from "./options.ts";

export const NOT_ISOLATED: Notice = {
  code: "skills-not-installed",
  message: "Skills installation requires hermetic isolation",
  fix: "evaluate it with `isolation: true`, or say that it is meant so: `isolation: { installSkills: false }`",
};

/** What becomes of the skills of a prompt. */
export interface Plan {
  isolation: IsolationOptions | undefined;
  /** Whether those that can be installed are. */
  isInstalled: boolean;
  warnings: readonly Notice[];
}

/** Throws a PromptValidationError or SkillRefError. */
export function planFor(prompt: Prompt, isolation: boolean | IsolationOptions = false): Plan {
  const given = isolation === true ? {} : isolation === false ? undefined : isolation;
  const isInstalled = given !== undefined && given.installSkills !== false;
  const isMissed = !given && prompt.skills().some(isInstallable);
  return { isolation: given, isInstalled, warnings: isMissed ? [NOT_ISOLATED] : [] };
}

/** Where an agent lives while a prompt is evaluated. */
export interface Place {
  home: HermeticHome | undefined;
  /** The skills that it finds there, by name. */
  installed: ReadonlyMap<string, Skill>;
  event: SkillsInstalled | undefined;
  /** What was changed of the skills, which nobody may. */
  changed(): Notice | undefined;
  /** Contract: what could not be removed is said, and never thrown. */
  close(): Promise<Notice | undefined>;
}

export interface PlaceOptions {
  sessionId: string;
  /** Whether programs can be started: then a sandbox that cannot be had ends it. */
  startsPrograms: boolean;
}

/** Makes the home and installs what can be. Throws a SkillError, and then nothing is left. */
export function openPlace(prompt: Prompt, { isolation, isInstalled }: Plan, options: PlaceOptions): Place {
  if (!isolation) return NOWHERE;
  const { installSkills: _, ...more } = isolation;
  const home = createHermeticHome({ ...more, ...guarded(more, options.startsPrograms) });
  try {
    const sources = isInstalled ? prompt.skills().filter(isInstallable) : [];
    const these = { skills: () => sources, params: prompt.params };
    if (sources.length > 0) installSkills(these, { skillsDir: home.skillsDir, isReadOnly: true });
    const skills = sources.map((source) =>
      source.kind === "ref" ? source.toSkill() : (source as SkillSection<object>).toSkill(prompt.params),
    );
    const before = digestsIn(home.skillsDir);
    return {
      home,
      installed: new Map(skills.map((skill) => [skill.name, skill])),
      event: sources.length === 0 ? undefined : installedEvent(prompt, sources, home.skillsDir, options.sessionId),
      changed: () => (digestsIn(home.skillsDir) === before ? undefined : CHANGED),
      close: () => removed(home),
    };
  } catch (error) {
    home.remove();
    throw error;
  }
}

const NOWHERE: Place = {
  home: undefined,
  installed: new Map(),
  event: undefined,
  changed: () => undefined,
  close: async () => undefined,
};

const CHANGED: Notice = {
  code: "skills-changed",
  message: "The installed skills were changed while the prompt was evaluated",
  fix: "do not trust what came of it; let commands run in the sandbox, or leave `Bash` out of `tools`",
};

/** Who could read what it is signed in with could sign in. And where nothing is started, nothing has to be kept apart. */
function guarded(given: IsolationOptions, startsPrograms: boolean): Pick<IsolationOptions, "settings" | "sandbox"> {
  const { settings = {}, authFiles = [] } = given;
  const sandbox = { ...part(settings["sandbox"]), ...given.sandbox };
  const permissions = part(settings["permissions"]);
  const credentials = part(sandbox["credentials"]);
  const files = authFiles.map((file) => `~/${typeof file === "string" ? file : file.path}`);
  return {
    settings: {
      // Those of a skill's head: commands that would run without a sandbox, and without anybody's word.
      disableAllHooks: true,
      disableSkillShellExecution: !startsPrograms,
      ...settings,
      permissions: { ...permissions, deny: [...list(permissions["deny"]), ...files.map((path) => `Read(${path})`)] },
    },
    sandbox: {
      ...(startsPrograms ? {} : { failIfUnavailable: false }),
      ...sandbox,
      credentials: {
        ...credentials,
        files: [...list(credentials["files"]), ...files.map((path) => ({ path, mode: "deny" }))],
        envVars: [...list(credentials["envVars"]), ...SECRET.map((name) => ({ name, mode: "deny" }))],
      },
    },
  };
}

function part(value: unknown): Data {
  return isData(value) ? value : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function digestsIn(skillsDir: string): string {
  try {
    const names = readdirSync(skillsDir, { withFileTypes: true }).filter(({ name }) => !name.startsWith("."));
    return names
      .map(
        (entry) => `${entry.name} ${entry.isDirectory() ? contentOfFolder(`${skillsDir}/${entry.name}`).digest : ""}`,
      )
      .sort()
      .join("\n");
  } catch {
    return "unreadable";
  }
}

/** Its process may still write for a moment when it is ended. */
async function removed(home: HermeticHome): Promise<Notice | undefined> {
  for (let again = 0; ; again++) {
    try {
      home.remove();
      return undefined;
    } catch (error) {
      if (again < MOST_TRIES) await wait(100);
      else
        return { code: "home-left", message: `${home.path} cannot be removed`, fix: String(Object(error).fix ?? "") };
    }
  }
}

const MOST_TRIES = 30;

function installedEvent(
  prompt: Prompt,
  sources: readonly { kind: "skill" | "ref"; name: string }[],
  skillsDir: string,
  sessionId: string,
): SkillsInstalled {
  const namesOf = (kind: "skill" | "ref") => sources.filter((one) => one.kind === kind).map(({ name }) => name);
  const [inlineSkills, referencedSkills] = [namesOf("skill"), namesOf("ref")];
  return frozen<SkillsInstalled>({
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
