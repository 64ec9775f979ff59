import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { describeDatabase, openDatabase } from "../../adapters/postgres/database.ts";
import { DEFAULT_QUEUE, type WorkerSummary } from "../../adapters/postgres/run-queue.ts";
import type { WorkerEvent } from "../../adapters/postgres/worker.ts";
import { type Denial, findDenials } from "../../agent/policy/skill-policies.ts";
import { resumeRun } from "../../agent/run/resume-run.ts";
import { tryCompleteHost } from "../../config/host.ts";
import { loadSettings } from "../../config/settings.ts";
import type { Problem } from "../../errors/problem.ts";
import { computeSkillDigest } from "../../skill/source/skill-copy.ts";
import { packageVersion } from "../../util/system.ts";
import { formatCount } from "../../util/text.ts";
import {
  attachCapabilities,
  type CommandContext,
  type CommandDefinition,
  type CommandHost,
  createEngineMissingError,
  discoverForCommand,
  EXIT,
  formatExamples,
  openCommandEngine,
  readEngineUrl,
  requireCommandEngine,
  requireConfiguration,
  resolveCommandEnvironment,
  selectEngineStores,
} from "../command-context.ts";
import { type CommandIo, createInterruptSignal, createPrinter, printFix, printJson, printJsonLine } from "../output.ts";
import { runTraced } from "../progress.ts";
import { formatAge, formatRunId } from "../run-format.ts";
import { parseCountOption } from "./runs.ts";

/** `skillet worker`. */
export const workerCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Do queued runs until this process is stopped")
      .option("--slots <number>", "Work on this many runs at once. Defaults to slots of [engine], 8.")
      .option("--queue <name...>", "Take runs of these queues. Defaults to runs.")
      .option("--name <name>", "A name that no other worker has. Defaults to the host and the process.")
      .addHelpText("after", formatExamples("skillet worker", "skillet worker --slots 20 --queue runs reports --json")),
  run: runWorker,
};

interface WorkerCommandOptions {
  slots?: string;
  queue?: string[];
  name?: string;
}

/** Does queued runs. At SIGTERM or Ctrl-C it takes no more, and gives those at work the drain time of [engine]. */
async function runWorker({ io, options }: CommandContext<WorkerCommandOptions>): Promise<number> {
  const discovered = await discoverForCommand(io, options, { follow: true, remote: "background" });
  requireConfiguration(io, discovered);
  const engine = await openCommandEngine(discovered.around, discovered.settings);
  if (!engine) throw createEngineMissingError();
  const found = await attachCapabilities({ ...discovered, ...selectEngineStores(engine) });
  const { slots: usualSlots, tenantSlots, leaseSeconds, outageSeconds, drainSeconds, attempts } = found.settings.engine;
  const slots = options.slots === undefined ? usualSlots : Math.max(1, parseCountOption("--slots", options.slots));
  const { name = `${hostname()}-${process.pid}-${randomBytes(2).toString("hex")}` } = options;
  const signal = createInterruptSignal(io);
  const { startWorker } = await import("../../adapters/postgres/worker.ts");
  try {
    // A run belongs to the trace of the program that queued it, and not to that of its worker.
    const { TRACEPARENT: _, ...env } = io.env;
    return await runTraced({ ...io, env }, async (traces) => {
      const host = { ...found, ...(traces ? { onEvent: traces.record } : {}) };
      const skills = createSkillView(found);
      const worker = await startWorker(engine, {
        ...{ name, slots, tenantSlots, queues: options.queue ?? [DEFAULT_QUEUE], version: packageVersion() },
        ...{ leaseSeconds, outageSeconds, drainSeconds, attempts },
        check: (leg) => skills.check(leg),
        run(id, { workspace, tenant, person }, aborted) {
          const { workspace: _, ...rest } = host;
          const place = workspace === undefined ? rest : host;
          const approvals = engine.openApprovals({ tenant, person });
          return resumeRun(skills.current(), { ...place, approvals }, id, { signal: aborted });
        },
        listSkills: () => skills.list(),
        onEvent: (event) => printWorkerEvent(io, event, options.json ?? false),
      });
      await new Promise<void>((resolve) => {
        if (signal.aborted) resolve();
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      await worker.stop();
      return EXIT.fine;
    });
  } finally {
    await engine.close();
  }
}

/** The skills of this machine, which are read again while the worker runs. */
function createSkillView(found: CommandHost) {
  let { catalog } = found;
  const { host } = tryCompleteHost(found);
  // Whether a caller may use a skill is decided for each run.
  const isOfMachine = ({ kind }: Denial) => kind !== "access";
  const digestOf = async (name: string): Promise<string | undefined> => {
    const skill = catalog.find(name);
    try {
      return skill && (await computeSkillDigest(skill));
    } catch {
      return undefined; // A file of it cannot be read: it is not the same copy.
    }
  };
  return {
    current: () => catalog,
    async check({ skill, digest }: { skill: string; digest: string }): Promise<Problem | undefined> {
      if ((await digestOf(skill)) !== digest) catalog = await catalog.reload();
      const here = await digestOf(skill);
      if (here === digest) return undefined;
      const what = here === undefined ? `has no skill '${skill}'` : `has another copy of '${skill}'`;
      return {
        code: "skill-not-on-worker",
        message: `${hostname()} ${what}: the run needs ${digest.slice(0, 19)}`,
        fix: "install the copy that the run began with on a worker, or cancel the run",
      };
    },
    async list(): Promise<Record<string, string>> {
      catalog = await catalog.reload();
      const digests: Record<string, string> = {};
      // What this machine would refuse is not listed: when that changes, runs that are stuck continue.
      const usable = catalog.skills.filter((skill) => !findDenials(skill, host, "use").some(isOfMachine));
      for (const { name } of usable.slice(0, MAX_LISTED)) {
        const digest = await digestOf(name);
        if (digest !== undefined) digests[name] = digest;
      }
      return digests;
    },
  };
}

/** A worker shows at most this many skills to others. It does runs of all. */
const MAX_LISTED = 500;

function printWorkerEvent(io: CommandIo, event: WorkerEvent, asJson: boolean): void {
  if (asJson) {
    printJsonLine(io.stdout, event);
    return;
  }
  const out = createPrinter(io.stdout, io.env);
  const time = out.dim(event.at.slice(11, 19));
  switch (event.type) {
    case "worker-started":
      out.line`${out.green("✓")} worker ${out.bold(event.worker)}: ${formatCount(event.slots, "slot")}, queue ${event.queues.join(", ")}`;
      break;
    case "run-taken":
      out.line`${time} ${formatRunId(event.run)} ${event.skill}: taken`;
      break;
    case "run-left":
      out.line`${time} ${formatRunId(event.run)} ${event.skill}: ${OUTCOME_LABELS[event.outcome]}${event.problem ? `: ${event.problem.message}` : ""}`;
      break;
    case "worker-lost":
      out.line`${time} ${out.yellow("!")} worker ${event.worker} is gone: ${formatCount(event.runs.length, "run")} queued again`;
      break;
    case "runs-found":
      out.line`${time} ${out.yellow("!")} ${formatCount(event.count, "run")} without a worker queued again`;
      break;
    case "worker-draining":
      out.line`${time} stopping; ${formatCount(event.running, "run")} at work`;
      break;
    case "worker-stopped":
      out.line`${time} stopped`;
  }
}

const OUTCOME_LABELS = {
  done: "done",
  waiting: "waits for approval",
  again: "queued again",
  returned: "given back",
  stuck: "stuck",
} as const;

/** `skillet workers`. */
export const workersCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("List the workers, and the skills in which they differ")
      .addHelpText("after", formatExamples("skillet workers")),
  run: listWorkers,
};

/** Lists the workers that live. */
async function listWorkers({ io, options }: CommandContext<object>): Promise<number> {
  const engine = await requireCommandEngine(io, options);
  try {
    const workers = await engine.queue.listWorkers();
    const different = findDifferentSkills(workers);
    if (options.json) {
      const shown = workers.map(({ skills, ...worker }) => ({ ...worker, skills: Object.keys(skills).length }));
      printJson(io.stdout, { workers: shown, different });
      return EXIT.fine;
    }
    const out = createPrinter(io.stdout, io.env);
    for (const { name, host, version, slots, running, queues, isDraining, startedAt } of workers) {
      const state = isDraining ? out.yellow("stopping") : out.green("running");
      out.line`${out.bold(name)}  ${state}  ${String(running)}/${String(slots)} slots  ${queues.join(", ")}  ${out.dim(`${host}, ${version}, since ${formatAge(startedAt)}`)}`;
    }
    for (const name of different) out.line`${out.yellow("!")} the workers have different copies of ${name}`;
    if (workers.length === 0) createPrinter(io.stderr, io.env).line`no worker is running: skillet worker starts one`;
    return EXIT.fine;
  } finally {
    await engine.close();
  }
}

/** Returns the names of skills that are not the same on all workers. A skill that only some have differs too. */
function findDifferentSkills(workers: readonly WorkerSummary[]): string[] {
  const names = new Set(workers.flatMap(({ skills }) => Object.keys(skills)));
  return [...names].filter((name) => new Set(workers.map(({ skills }) => skills[name])).size > 1).sort();
}

/** `skillet engine` and its subcommands. */
export const engineCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Set up the Postgres database that several machines share")
      .addHelpText(
        "after",
        formatExamples(
          "skillet config set engine.url env:DATABASE_URL",
          "skillet engine init",
          "skillet engine init --print-sql --role skillet_worker",
          "skillet engine check",
        ),
      ),
  run: checkDatabase,
  commands: {
    init: {
      define: (command) =>
        command
          .description("Create or update the tables")
          .option("--print-sql", "Print the SQL for a database administrator instead of running it")
          .option("--role <name>", "Also grant this role what workers and commands need, and nothing more")
          .addHelpText(
            "after",
            formatExamples(
              "skillet engine init",
              "skillet engine init --print-sql --role skillet_worker > skillet.sql",
            ),
          ),
      run: initDatabase,
    },
    check: {
      define: (command) =>
        command
          .description("Check the connection, the tables and the rights of the role")
          .addHelpText("after", formatExamples("skillet engine check")),
      run: checkDatabase,
    },
    prune: {
      define: (command) =>
        command
          .description("Remove old runs, and the records of their dispatch")
          .option("--older-than <days>", "Remove runs older than this. Defaults to keep_days of [runs], 30.")
          .option("--dry-run", "Show the number of runs without removing them")
          .addHelpText(
            "after",
            formatExamples("skillet engine prune --dry-run", "skillet engine prune --older-than 7"),
          ),
      run: pruneDatabase,
    },
  },
};

interface InitOptions {
  printSql?: boolean;
  role?: string;
}

/** Creates or updates the tables, or prints the SQL for it. */
async function initDatabase({ io, options }: CommandContext<InitOptions>): Promise<number> {
  const { createSchema, formatSchemaSql, formatRoleSql, SCHEMA_VERSION } = await import(
    "../../adapters/postgres/engine.ts"
  );
  const { role } = options;
  if (options.printSql) {
    const { formatDispatchSql } = await import("../../adapters/postgres/dispatcher.ts");
    const parts = [formatSchemaSql(), await formatDispatchSql(), ...(role === undefined ? [] : [formatRoleSql(role)])];
    io.stdout.write(parts.join("\n"));
    return EXIT.fine;
  }
  const url = await requireEngineUrl(io, options);
  const database = await openDatabase({ url });
  try {
    const before = await createSchema(database);
    const { createDispatchTables } = await import("../../adapters/postgres/dispatcher.ts");
    await createDispatchTables(database, url);
    if (role !== undefined) await database.query(formatRoleSql(role));
    if (options.json) printJson(io.stdout, { database: describeDatabase(url), before, version: SCHEMA_VERSION });
    else {
      const out = createPrinter(io.stdout, io.env);
      const what =
        before === SCHEMA_VERSION
          ? "the tables are up to date"
          : before === 0
            ? "created the tables"
            : "updated the tables";
      out.line`${out.green("✓")} ${what} in ${describeDatabase(url)} (version ${String(SCHEMA_VERSION)})`;
      if (role !== undefined) out.line`${out.green("✓")} granted ${role} what workers need`;
    }
    return EXIT.fine;
  } finally {
    await database.close();
  }
}

/** Checks the database, and prints one line for each finding. */
async function checkDatabase({ io, options }: CommandContext<object>): Promise<number> {
  const url = await requireEngineUrl(io, options);
  const { checkEngine } = await import("../../adapters/postgres/engine.ts");
  const database = await openDatabase({ url, connections: 1 });
  try {
    const findings = await checkEngine(database);
    if (options.json) printJson(io.stdout, { database: describeDatabase(url), findings });
    else {
      const out = createPrinter(io.stdout, io.env);
      const marks = { ok: out.green("✓"), warning: out.yellow("!"), error: out.red("✗") };
      out.line`${out.bold(describeDatabase(url))}`;
      for (const { level, message, ...fix } of findings) {
        out.line`${marks[level]} ${message}`;
        printFix(out, fix);
      }
    }
    return findings.some(({ level }) => level === "error") ? EXIT.findings : EXIT.fine;
  } finally {
    await database.close();
  }
}

interface PruneOptions {
  olderThan?: string;
  dryRun?: boolean;
}

/** The records of legs are needed only while a run may still be dispatched. */
const LEG_RETENTION_MS = 24 * 60 * 60 * 1000;

/** Removes old runs, and what the dispatcher recorded about legs that ended. */
async function pruneDatabase({ io, options }: CommandContext<PruneOptions>): Promise<number> {
  const { settings } = await loadSettings(resolveCommandEnvironment(io, options));
  const { olderThan, dryRun: isTrial = false } = options;
  const days = olderThan === undefined ? settings.runs.days : parseCountOption("--older-than", olderThan);
  const engine = await requireCommandEngine(io, options);
  try {
    const { pruneRuns } = await import("../../adapters/postgres/postgres-runs.ts");
    const removed = await pruneRuns(engine.database, { days, most: settings.runs.most }, { isTrial });
    const legs = isTrial ? 0 : await engine.dispatcher.prune(new Date(Date.now() - LEG_RETENTION_MS));
    if (options.json) printJson(io.stdout, { isDryRun: isTrial, runs: removed, legs });
    else {
      const out = createPrinter(io.stdout, io.env);
      const what = isTrial ? "would remove" : "removed";
      out.line`${out.green("✓")} ${what} ${formatCount(removed, "run")}${isTrial ? "" : `, and the records of ${formatCount(legs, "leg")}`}`;
    }
    return EXIT.fine;
  } finally {
    await engine.close();
  }
}

/** Returns the URL of the engine's database. Throws a SkillError if none is configured. */
export async function requireEngineUrl(io: CommandIo, options: CommandContext<object>["options"]): Promise<string> {
  const environment = resolveCommandEnvironment(io, options);
  const url = readEngineUrl(environment, (await loadSettings(environment)).settings);
  if (url !== undefined) return url;
  throw createEngineMissingError();
}
