import type { Broker } from "../capability/broker.ts";
import { type HostOptions, readHost } from "../host/complete-host.ts";
import type { Host } from "../host/host.ts";
import { notify } from "../host/notify.ts";
import type { Isolation, Notice, Outcome, OutputStream } from "../host/sandbox.ts";
import { denials } from "../policy/policy.ts";
import { requireSecrets } from "../policy/secrets.ts";
import { SkillError } from "../shared/error.ts";
import { type Hiding, openHiding, type Secrets } from "../shared/redact.ts";
import { count, grouped, nearest } from "../shared/text.ts";
import { findScript, type SkillScript, scriptsOf } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import { copySkill, type SkillCopy } from "../source/digest.ts";
import { brokerFor, endOf } from "./broker.ts";
import { changed } from "./changed.ts";
import { runId } from "./id.ts";
import { asNotice, hide, shortSecrets, unkept } from "./notice.ts";
import type { Output } from "./output.ts";
import { livePort } from "./port.ts";
import { type CommandLimits, limitsOf } from "./script-limits.ts";
import { isKeptFromWriting, needsWrites, type ScriptView, viewIn } from "./script-view.ts";
import { allSecrets, type OwnSecrets, ownSecrets } from "./secrets.ts";
import { type Run, startRun } from "./start-run.ts";
import { openTaint } from "./taint.ts";
import { createReview, type ReviewChanges } from "./workspace/review-changes.ts";

export interface ScriptRequest {
  skill: Skill;
  /** Its path in the skill's folder, or its name. */
  script: string;
  args?: readonly string[];
  stdin?: string;
  /** It may change the workspace. Contract: the user approved it. Changes of sensitive paths are held all the same. */
  writes?: boolean;
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
  /** The files that it saw; nothing where it was not run. */
  view: ScriptView | undefined;
  limits: CommandLimits;
}

/** What the run around a script lends to it. */
export interface Around {
  broker: Broker | undefined;
  review: ReviewChanges | undefined;
  waited(): number;
}

/** Runs a script of a skill in a sandbox of its own. Awaited it gives the result, iterated what is printed as it comes. */
export function runScript(given: HostOptions, request: ScriptRequest, around?: Around): Run<ScriptEvent, ScriptResult> {
  const { host, problem } = readHost(given);
  const { skill, script } = request;
  const nothing = { ...NOTHING, skill: skill.name, script, limits: limitsOf(host) };
  return startRun<ScriptEvent, ScriptResult>(async (emit, signal) => {
    if (problem) return { ...nothing, refusals: [problem] };
    const own = ownSecrets(skill, host); // First, so that no refusal names one of them.
    const { secrets } = own;
    const hiding = openHiding(allSecrets(secrets, host));
    try {
      const judged = await judge(host, request, own);
      if ("refusals" in judged) return { ...nothing, refusals: judged.refusals.map(hide(hiding)) };
      const job = { ...request, ...judged, secrets, hiding, around };
      return { ...nothing, ...(await execute(host, job, emit, signal)) };
    } catch (error) {
      if (signal.aborted) return { ...nothing, ending: "abort" };
      return { ...nothing, refusals: [hide(hiding)(asNotice(error))] };
    }
  }, request.signal);
}

interface Judged {
  script: SkillScript;
  copy: SkillCopy;
}

/** Whether it may run: which script is meant, then all that speaks against it at once. */
async function judge(host: Host, request: ScriptRequest, own: OwnSecrets): Promise<Judged | { refusals: Notice[] }> {
  const { skill, args = [] } = request;
  const script = chosen(skill, request.script);
  const denied = denials(skill, host, "run");
  if (denied.length > 0) return { refusals: denied };
  if (own.problem !== undefined) throw own.problem;
  checkArguments(args, limitsOf(host));
  await skill.fetch?.("all");
  const copy = copySkill(skill);
  const changes = host.trust?.changesOf(skill, copy) ?? [];
  if (changes.length > 0) return { refusals: [changed(skill, changes)] };
  requireSecrets(skill, host);
  return { script, copy };
}

async function execute(
  host: Host,
  request: Omit<ScriptRequest, "script"> & Judged & { secrets: Secrets; hiding: Hiding; around: Around | undefined },
  emit: (event: ScriptEvent) => void,
  signal: AbortSignal,
): Promise<Partial<ScriptResult>> {
  const { skill, script, secrets, hiding, args = [] } = request;
  const { prepareScript } = await import("./prepare-script.ts"); // Only who runs code loads what keeps it apart.
  const onProgress = (text: string) => emit({ type: "packages-built", text });
  const { broker, waited, review } = request.around ?? (await ownBroker(host, skill, hiding, signal));
  const around = { broker, waited, review };
  const {
    enclosure,
    argv,
    warnings: seen,
  } = await prepareScript(host, { ...request, args, onProgress, signal, ...around });
  emit({ type: "script-started", skill: skill.name, script: script.path });
  const { notices = [], ...outcome } = await enclosure
    .run(argv, {
      ...(request.stdin === undefined ? {} : { stdin: request.stdin }),
      onText: (stream, text) => emit({ type: "script-printed", stream, text }),
    })
    .finally(() => (request.around ? undefined : broker?.close()));
  const isWhole = outcome.ending === "exit";
  const { missingPackage } = await import("./missing-package.ts");
  const missing = isWhole ? missingPackage(outcome, skill, host, enclosure.sandbox) : undefined;
  const isReadOnly = isKeptFromWriting(outcome.stderr, enclosure) ? [needsWrites(enclosure, host, skill)] : [];
  const hints = [...isReadOnly, ...(missing ? [missing] : [])];
  const warnings = [...shortSecrets(secrets), ...unkept(outcome.isolation), ...seen, ...hints, ...notices];
  return {
    ...outcome,
    limits: limitsOf(host),
    view: viewIn(enclosure),
    script: script.path,
    warnings: warnings.map(hide(hiding)),
    isError: !isWhole || outcome.exitCode !== 0 || enclosure.close().length > 0,
  };
}

/** A script that no run started is one by itself. */
async function ownBroker(host: Host, skill: Skill, hiding: Hiding, signal: AbortSignal): Promise<Around> {
  const port = livePort(host, (event) => notify(host, event));
  const { seconds } = limitsOf(host);
  const taint = openTaint();
  let end: (() => number) | undefined;
  // Its time begins with its command: what is fetched and built before is none of it.
  const until = () => {
    end ??= endOf(seconds, port);
    return end();
  };
  const run = { id: runId(), skill, host, port, hiding, until, signal, taint };
  return { broker: await brokerFor(run), waited: () => port.waited(), review: createReview({ ...run, run: run.id }) };
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
  view: undefined,
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
