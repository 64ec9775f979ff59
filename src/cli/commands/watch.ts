import { watchCatalog } from "../../host/watch.ts";
import { unavailability } from "../../policy/policy.ts";
import { count, oneLine } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, printDiagnostic, warnOfConfiguration } from "../found.ts";
import { printer, printJsonLine } from "../io.ts";
import type { Context } from "../program.ts";
import { describe, printSkills } from "./list.ts";

/** `list --watch`: the list, then a line for each change until it is interrupted. */
export async function watchList({ io, options }: Context<object>): Promise<number> {
  const found = await discoverFor(io, options);
  const isConfigured = warnOfConfiguration(io, found);
  const { around, catalog } = found;
  const out = printer(io.stdout, io.env);
  const shown = catalog.available((skill) => unavailability(skill, found));
  if (options.json) printJsonLine(io.stdout, { type: "listed", skills: shown.map(describe) });
  else printSkills(io, shown, found.trust);
  const print = (mark: ReturnType<typeof out.green>, skills: readonly Skill[]) => {
    for (const skill of skills)
      out.line`${mark} ${skill.name}  ${oneLine(skill.description, 160)}  ${out.dim(skill.origin.source)}`;
  };
  const watcher = await watchCatalog(catalog, (change) => {
    const { diagnostics } = change;
    const [added, changed, removed] = [change.added, change.changed, change.removed].map((skills) =>
      skills.filter((skill) => !unavailability(skill, found)),
    ) as [Skill[], Skill[], Skill[]];
    if (options.json) {
      printJsonLine(io.stdout, {
        type: "changed",
        added: added.map(describe),
        changed: changed.map(describe),
        removed: removed.map(({ name }) => name),
        diagnostics,
      });
      return;
    }
    print(out.green("+"), added);
    print(out.yellow("~"), changed);
    print(out.red("-"), removed);
    for (const diagnostic of diagnostics) printDiagnostic(out, diagnostic, around);
  });
  printer(io.stderr, io.env).line`watching ${count(catalog.sources.length, "folder")}; Ctrl-C ends`;
  await io.interrupted?.();
  await watcher.close();
  return isConfigured ? EXIT.fine : EXIT.usage;
}
