import type { Catalog } from "../catalog/catalog.ts";
import { formatImprovement, improveTriggers } from "../eval/improve-triggers.ts";
import type { TriggerEvaluationSubject } from "../eval/trigger-evaluation.ts";
import type { Skill } from "../skill/skill.ts";
import { readTriggerQueries } from "../skill/source/file-skill.ts";
import { getExpectedFolder } from "../skill/source/skill-files.ts";
import { readRegularText } from "../util/file-access.ts";
import { formatCount } from "../util/text.ts";
import { EXIT } from "./command-definition.ts";
import { type CommandIo, createPrinter, printDiff } from "./output.ts";
import { runWithWaitIndicator } from "./progress.ts";

interface ImproveContext {
  catalog: Catalog;
  skills: readonly Skill[];
  names: readonly string[];
  heldOut: readonly TriggerEvaluationSubject[];
  maxSkills: number | undefined;
}

/** Prints a diff for each skill that keywords of its training queries make easier to find. Changes no file. */
export async function proposeImprovements(
  io: CommandIo,
  { catalog, skills, names, heldOut, maxSkills }: ImproveContext,
): Promise<number> {
  const training = new Map(
    names.map((name) => {
      const { origin } = catalog.get(name);
      const read =
        origin.folder === undefined ? undefined : readTriggerQueries(origin.folder, getExpectedFolder(origin));
      return [name, (read?.queries ?? []).filter(({ isHeldOut }) => !isHeldOut)] as const;
    }),
  );
  const found = await runWithWaitIndicator(io, "trying keywords", () =>
    improveTriggers({ skills, heldOut, training, maxSkills }),
  );
  const out = createPrinter(io.stdout, io.env);
  if (found.length === 0) out.line`no keyword helps without harm: try other training queries, or another description`;
  for (const { skill, keywords, before, after, of } of found) {
    out.line`${out.bold(skill.name)}: ${after} of ${formatCount(of, "held-out query", "held-out queries")} would find it first, ${before} now`;
    const { file } = skill.origin;
    if (file === undefined) out.line`    add the keywords ${keywords.join(", ")}`;
    else printDiff(out, formatImprovement(readRegularText(file), keywords));
  }
  if (found.length > 0) {
    const error = createPrinter(io.stderr, io.env);
    error.line`${error.dim("the held-out queries chose these keywords: add new queries before you measure again")}`;
  }
  return EXIT.fine;
}
