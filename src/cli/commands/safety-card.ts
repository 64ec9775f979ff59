import type { Discovered } from "../../host/discover.ts";
import { systemProgram } from "../../host/programs.ts";
import type { Outcome, Sandbox } from "../../host/sandbox.ts";
import type { Settings } from "../../host/settings.ts";
import { probeWorkspace } from "../../run/workspace/probe-workspace.ts";
import { openSandbox } from "../../sandbox/open.ts";
import { isRoot } from "../../sandbox/places.ts";
import { probeKilledHost } from "../../sandbox/probe-killed-host.ts";
import { isLookedAround, type ProbeResult, probeSandbox } from "../../sandbox/probes.ts";
import { versionOf } from "../../sandbox/system.ts";
import { SkillError } from "../../shared/error.ts";
import { byText, count } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { type Io, type Printer, printer, printJson, untilInterrupted } from "../io.ts";
import type { CommonOptions } from "../program.ts";
import { waitingFor } from "../progress.ts";

interface Card {
  level: Sandbox["level"];
  by: string;
  version?: string;
  bounds: Outcome["isolation"]["bounds"];
  user: string;
  probes: readonly ProbeResult[];
}

/** Tries everything that the sandbox promises on this machine, and says what holds. */
export async function safetyCard(
  io: Io,
  options: Pick<CommonOptions, "json">,
  { settings, around }: Pick<Discovered, "settings" | "around">,
): Promise<number> {
  const home = around.skilletHome;
  try {
    const tried = async () => {
      const sandbox = await openSandbox({ settings: settings.sandbox, home });
      return cardOf(sandbox, home, settings);
    };
    const card = await waitingFor(io, "trying what the sandbox promises", () => untilInterrupted(io, tried));
    const held = card.probes.filter(({ holds }) => holds).length;
    if (options.json) printJson(io.stdout, { ...card, held, of: card.probes.length });
    else printCard(printer(io.stdout, io.env), card, held);
    const isFine = isLookedAround(card.probes) && card.probes.every(({ holds }) => holds !== false);
    return isFine ? EXIT.fine : EXIT.findings;
  } catch (error) {
    if (!(error instanceof SkillError) || error.code === "interrupted") throw error;
    const { code, message, fix = "" } = error;
    if (options.json) printJson(io.stdout, { error: { code, message, fix } });
    else {
      const out = printer(io.stdout, io.env);
      out.line`${out.red("✗")} ${out.bold("No code of a skill is run here")}`;
      out.line`  ${message}`;
      out.line`  ${fix}`;
    }
    return EXIT.findings;
  }
}

async function cardOf(sandbox: Sandbox, home: string, settings: Settings): Promise<Card> {
  const { level, by } = sandbox;
  const client = settings.sandbox.program;
  const probed = await probeSandbox(sandbox, { home });
  if (level === "strong") probed.push(...(await probeKilledHost({ settings: settings.sandbox, home })));
  probed.push(...(await probeWorkspace(sandbox, settings)));
  const probes = probed.sort((a, b) => byText(a.id, b.id));
  const version = versionOf((sandbox.system === "own" && client) || systemProgram(by === "bubblewrap" ? "bwrap" : by));
  return {
    level,
    by,
    ...(version === undefined ? {} : { version }),
    bounds: level === "none" ? "none" : await boundsOf(sandbox),
    user: userOf(),
    probes,
  };
}

async function boundsOf(sandbox: Sandbox): Promise<Card["bounds"]> {
  const limits = { seconds: 10, output: 1024, memory: 128 * 1024 * 1024, processes: 32, disk: 1024 * 1024 };
  const command = { argv: ["/bin/true"] as const, env: {}, folder: "/", mounts: [], network: [], limits };
  return (await sandbox.run(command, { onOutput: () => true })).isolation.bounds;
}

function userOf(): string {
  if (!isRoot()) return `user ${process.getuid?.() ?? "?"}, who runs skillet`;
  return "a user that no account has, another one for each run";
}

const BOUNDS: Record<Card["bounds"], string> = {
  tree: "memory and processes are bounded for a run as a whole",
  process: "memory is watched for a run as a whole: no cgroup can be had here",
  none: "nothing bounds memory and processes",
};

const TITLES: Readonly<Record<string, string>> = {
  "Q-01": "Variables and processes",
  "Q-02": "Two runs at once",
  "Q-13": "The host's files and its kernel",
  "Q-14": "Network",
  "Q-15": "Its end",
  "Q-17": "What it may use",
  "Q-27": "A workspace that it may write to",
};

function printCard(out: Printer, card: Card, held: number): void {
  const { level, by, version = "", probes } = card;
  if (level === "none") {
    out.line`${out.red("✗")} ${out.bold("Nothing is kept apart")}`;
    out.line`  [sandbox] level = "none" in config.toml: code of skills runs as ${card.user},`;
    out.line`  with every file, process and network that there is. Remove it to be safe.`;
    return;
  }
  out.line`${out.bold("Sandbox")}  ${level}, by ${by} ${version}`;
  out.line`  code runs as ${card.user}`;
  out.line`  ${BOUNDS[card.bounds]}`;
  let last = "";
  for (const { id, name, holds, detail } of probes) {
    if (id !== last) out.line`\n${out.bold(TITLES[id] ?? id)}`;
    last = id;
    const mark = holds === undefined ? out.dim("·") : holds ? out.green("✓") : out.red("✗");
    out.line`${mark} ${holds === undefined ? out.dim(`${name}: not tried`) : name}`;
    if (holds !== true && detail !== "") out.line`    ${out.dim(detail)}`;
  }
  const untried = probes.filter(({ holds }) => holds === undefined).length;
  const rest = untried === 0 ? "" : `, ${untried} not tried`;
  out.line`\n${held} of ${count(probes.length, "promise")} hold${rest}`;
}
