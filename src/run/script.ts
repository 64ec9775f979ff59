import type { Host } from "../host/host.ts";
import type { Isolation, Limits, Outcome, OutputStream } from "../host/sandbox.ts";
import { placeOf } from "../host/trust.ts";
import { type Denial, denials } from "../policy/policy.ts";
import { quoted } from "../policy/trust.ts";
import { SkillError } from "../shared/error.ts";
import { redact, type Secrets } from "../shared/redact.ts";
import { count, grouped, nearest } from "../shared/text.ts";
import { findScript, type SkillScript, scriptsOf } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import { copySkill } from "../source/digest.ts";
import { collectOutput, type Output } from "./output.ts";
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
  refusals: readonly Refusal[];
  /** What it did that somebody should look at. */
  warnings: readonly Refusal[];
  exitCode: number | undefined;
  signal: string | undefined;
  ending: Outcome["ending"] | "refused";
  ms: number;
  isolation: Isolation | undefined;
  limits: Limits & { arguments: number; argumentBytes: number };
}

export type Refusal = Pick<Denial, "code" | "message" | "fix">;

/** Runs a script of a skill in a sandbox of its own. Awaited it gives the result, iterated what is printed as it comes. */
export function runScript(host: Host, request: ScriptRequest): Run<ScriptEvent, ScriptResult> {
  return startRun<ScriptEvent, ScriptResult>(async (emit, signal) => {
    const { skill } = request;
    const { scripts, sandbox } = host.settings;
    const limits = {
      seconds: scripts.seconds,
      output: scripts.output,
      memory: sandbox.memory,
      processes: sandbox.processes,
      disk: sandbox.disk,
      arguments: scripts.arguments,
      argumentBytes: scripts.argumentBytes,
    };
    let secrets: Secrets = new Map();
    const empty = { skill: skill.name, script: request.script, limits, ...NOTHING };
    const refused = (refusals: readonly Refusal[]): ScriptResult => ({
      ...empty,
      refusals: refusals.map(({ code, message, fix }) => ({
        code,
        message: redact(message, secrets),
        fix: redact(fix, secrets),
      })),
    });
    try {
      const denied = denials(skill, host, "run");
      if (denied.length > 0) return refused(denied);
      secrets = variablesOf(skill, host);
      const script = chosen(skill, request.script);
      checkArguments(request.args ?? [], limits);
      const copy = copySkill(skill);
      const changes = host.trust?.changesOf(skill, copy) ?? [];
      if (changes.length > 0) return refused([changed(skill, changes)]);
      const { prepareScript } = await import("./prepare-script.ts"); // Only who runs code loads what keeps it apart.
      const prepared = await prepareScript(host, {
        secrets,
        skill,
        script,
        copy,
        args: request.args ?? [],
        onProgress: (text) => emit({ type: "packages-built", text }),
        signal,
      });
      const output = collectOutput(limits.output, secrets, (stream, text) =>
        emit({ type: "script-printed", stream, text }),
      );
      emit({ type: "script-started", skill: skill.name, script: script.path });
      let planted: string[] = [];
      const stdin = request.stdin === undefined ? {} : { stdin: request.stdin };
      const running = prepared.sandbox.run(
        { ...prepared.command, ...stdin, limits },
        { onOutput: output.take, signal },
      );
      const outcome = await running.finally(() => {
        planted = prepared.workspace.close();
      });
      const isWhole = outcome.ending === "exit";
      return {
        ...empty,
        ...outcome,
        ...output.end({ isCut: !isWhole }),
        script: script.path,
        warnings: planted.length === 0 ? [] : [left(skill, planted)],
        isError: !isWhole || outcome.exitCode !== 0 || planted.length > 0,
      };
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      return refused([{ code: error.code, message: error.message, fix: error.fix ?? "" }]);
    }
  }, request.signal);
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
  const meant =
    nearest(wanted, names) ??
    nearest(
      wanted,
      scripts.map(({ name }) => name),
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

function left(skill: Skill, planted: readonly string[]): Refusal {
  return {
    code: "workspace-protected",
    message: `A script of skill '${skill.name}' made what other programs obey: ${planted.join(", ")}`,
    fix: "look at it, then remove it or give it its name back",
  };
}

function changed(skill: Skill, changes: readonly { path: string; what: string }[]): Refusal {
  const said = changes.slice(0, 10).map(({ path, what }) => `${path} ${what}`);
  if (changes.length > 10) said.push(`and ${changes.length - 10} more`);
  return {
    code: "changed",
    message: `The code of skill '${skill.name}' is not what was trusted: ${said.join(", ")}`,
    fix: `look at it, then run: skillet trust ${quoted(placeOf(skill))}`,
  };
}
