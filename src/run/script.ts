import type { Host } from "../host/host.ts";
import type { Isolation, Notice, Outcome, OutputStream } from "../host/sandbox.ts";
import { NO_SETTINGS } from "../host/settings.ts";
import { denials } from "../policy/policy.ts";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";
import { openHiding, redact, type Secrets, SHORTEST_SECRET } from "../shared/redact.ts";
import { count, grouped, nearest } from "../shared/text.ts";
import { findScript, type SkillScript, scriptsOf } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import { copySkill, type SkillCopy } from "../source/digest.ts";
import { changed } from "./changed.ts";
import type { Output } from "./output.ts";
import { type CommandLimits, limitsOf } from "./script-limits.ts";
import { type Run, startRun } from "./start-run.ts";
import { variablesOf } from "./variables.ts";

export interface ScriptRequest {
  skill: Skill;
  /** Its path in the skill's folder, or its name. */
  script: string;
  args?: readonly string[];
  stdin?: string;
  signal?: AbortSignal;
}

/** Events are for looking on; the result has it all. */
export type ScriptEvent =
  | { type: "packages-built"; text: string }
  | { type: "script-started"; skill: string; script: string }
  | { type: "script-printed"; stream: OutputStream; text: string };

/** What a script came to. A refusal and a failure are such a result too, never an exception. */
export interface ScriptResult extends Output {
  skill: string;
  script: string;
  isError: boolean;
  /** Why it was not run. */
  refusals: readonly Notice[];
  /** What somebody should look at although it ran. */
  warnings: readonly Notice[];
  exitCode: number | undefined;
  signal: string | undefined;
  ending: Outcome["ending"] | "refused";
  ms: number;
  isolation: Isolation | undefined;
  limits: CommandLimits;
}

/** Runs a script of a skill in a sandbox of its own. Awaited it gives the result, iterated what is printed as it comes. */
export function runScript(given: Partial<Host>, request: ScriptRequest): Run<ScriptEvent, ScriptResult> {
  const host: Host = { settings: NO_SETTINGS, ...given };
  const { skill, script } = request;
  const nothing = { ...NOTHING, skill: skill.name, script, limits: limitsOf(host) };
  return startRun<ScriptEvent, ScriptResult>(async (emit, signal) => {
    const secrets = new Map<string, string>();
    try {
      const judged = judge(host, request, secrets);
      if ("refusals" in judged) return { ...nothing, refusals: judged.refusals };
      return { ...nothing, ...(await execute(host, { ...request, ...judged, secrets }, emit, signal)) };
    } catch (error) {
      if (signal.aborted) return { ...nothing, ending: "abort" };
      return { ...nothing, refusals: [hidden(refusalFor(error), secrets)] };
    }
  }, request.signal);
}

interface Judged {
  script: SkillScript;
  copy: SkillCopy;
}

/** Whether it may run: which script is meant, then all that speaks against it at once. Puts the skill's values into `secrets`. */
function judge(host: Host, request: ScriptRequest, secrets: Map<string, string>): Judged | { refusals: Notice[] } {
  const { skill, args = [] } = request;
  const why = fill(secrets, skill, host); // First, so that no refusal names one of them.
  const script = chosen(skill, request.script);
  const denied = denials(skill, host, "run");
  if (denied.length > 0) return { refusals: denied.map((denial) => hidden(denial, secrets)) };
  if (why) throw why;
  checkArguments(args, limitsOf(host));
  const copy = copySkill(skill);
  const changes = host.trust?.changesOf(skill, copy) ?? [];
  return changes.length > 0 ? { refusals: [changed(skill, changes)] } : { script, copy };
}

/** Contract: what kept them from being had, when something did. */
function fill(secrets: Map<string, string>, skill: Skill, host: Host): unknown {
  try {
    for (const [name, value] of variablesOf(skill, host)) secrets.set(name, value);
    return undefined;
  } catch (error) {
    return error;
  }
}

async function execute(
  host: Host,
  request: Omit<ScriptRequest, "script"> & Judged & { secrets: Secrets },
  emit: (event: ScriptEvent) => void,
  signal: AbortSignal,
): Promise<Partial<ScriptResult>> {
  const { skill, script, secrets, args = [] } = request;
  const { prepareScript } = await import("./prepare-script.ts"); // Only who runs code loads what keeps it apart.
  const onProgress = (text: string) => emit({ type: "packages-built", text });
  const hiding = openHiding(secrets);
  const { enclosure, argv, more } = await prepareScript(host, { ...request, hiding, args, onProgress, signal });
  emit({ type: "script-started", skill: skill.name, script: script.path });
  const { notices = [], ...outcome } = await enclosure.run(argv, {
    ...more,
    ...(request.stdin === undefined ? {} : { stdin: request.stdin }),
    onText: (stream, text) => emit({ type: "script-printed", stream, text }),
  });
  const isWhole = outcome.ending === "exit";
  const warnings = [...shortSecrets(secrets), ...unkept(outcome), ...notices];
  return {
    ...outcome,
    limits: limitsOf(host),
    script: script.path,
    warnings: warnings.map((notice) => hidden(notice, secrets)),
    isError: !isWhole || outcome.exitCode !== 0 || enclosure.close().length > 0,
  };
}

function hidden({ code, message, fix }: Notice, secrets: Secrets): Notice {
  return { code, message: redact(message, secrets), fix: redact(fix, secrets) };
}

/** What could not be had is a refusal; so is what the machine refuses. Anything else is a bug, and thrown. */
function refusalFor(error: unknown): Notice {
  if (error instanceof SkillError) return { code: error.code, message: error.message, fix: error.fix ?? "" };
  if (codeOf(error) === "") throw error;
  return {
    code: "machine",
    message: `The script could not be run: ${reason(error)} (${codeOf(error)})`,
    fix: "check the folders that it needs, and that there is room",
  };
}

function shortSecrets(secrets: Secrets): Notice[] {
  const short = [...secrets].filter(([, value]) => Buffer.byteLength(value) < SHORTEST_SECRET).map(([name]) => name);
  if (short.length === 0) return [];
  return [
    {
      code: "secret-short",
      message: `${short.join(", ")} is too short to be told from other text: it is not hidden in the output`,
      fix: `use a value of ${SHORTEST_SECRET} characters or more`,
    },
  ];
}

function unkept({ isolation }: Pick<Outcome, "isolation">): Notice[] {
  if (isolation.level !== "none") return [];
  return [
    {
      code: "not-isolated",
      message: "Nothing kept this code apart: it could do all that you can",
      fix: 'remove level = "none" under [sandbox] in config.toml',
    },
  ];
}

const NOTHING = {
  isError: true,
  refusals: [],
  warnings: [],
  exitCode: undefined,
  signal: undefined,
  ending: "refused",
  stdout: "",
  stderr: "",
  isTruncated: false,
  ms: 0,
  isolation: undefined,
} as const;

function chosen(skill: Skill, wanted: string): SkillScript {
  const scripts = scriptsOf(skill);
  const script = findScript(scripts, wanted);
  if (script) return script;
  const names = scripts.map(({ path }) => path);
  const meant = nearest(
    wanted,
    scripts.flatMap(({ path, name }) => [path, path.slice(path.lastIndexOf("/") + 1), name]),
  );
  throw new SkillError("script-unknown", {
    message: `Skill '${skill.name}' has no script "${wanted}"${meant ? `; did you mean "${meant}"?` : ""}`,
    fix: names.length === 0 ? "put it into the skill's `scripts` folder" : `it has: ${names.slice(0, 20).join(", ")}`,
  });
}

/** The bounds are for all arguments together, so that nothing but arguments gets in with them. */
function checkArguments(args: readonly string[], limits: { arguments: number; argumentBytes: number }): void {
  if (args.length > limits.arguments) {
    throw tooMuch(`${count(args.length, "argument")}, more than ${grouped(limits.arguments)}`);
  }
  const bytes = args.reduce((sum, arg) => sum + Buffer.byteLength(arg), 0);
  if (bytes > limits.argumentBytes) {
    throw tooMuch(`arguments of ${grouped(bytes)} bytes together, more than ${grouped(limits.argumentBytes)}`);
  }
  if (args.some((arg) => arg.includes("\0"))) throw tooMuch("an argument with a NUL character, which none can hold");
}

function tooMuch(what: string): SkillError {
  return new SkillError("script-arguments", {
    message: `The script was given ${what}`,
    fix: "give it less, or what is long on its standard input; the operator's limits are [scripts] in config.toml",
  });
}
