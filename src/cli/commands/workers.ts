import type { WorkerSummary } from "../../adapters/postgres/run-queue.ts";
import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import { requireCommandEngine } from "../command-host.ts";
import { createPrinter, printJson } from "../output.ts";
import { formatAge } from "../run-format.ts";

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
