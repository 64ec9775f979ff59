import type { Catalog } from "../../catalog/catalog.ts";
import { type CatalogChange, watchCatalog } from "../../host/watch.ts";
import { unavailability } from "../../policy/policy.ts";
import { count, oneLine } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import type { Watcher } from "../../source/watch.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, openConfigurationWarnings, printDiagnostic, warnOfConfiguration } from "../found.ts";
import { printer, printJsonLine } from "../io.ts";
import type { Context } from "../program.ts";
import { describe, printSkills } from "./list.ts";

/** `list --watch`: the list, then a line for each change of the skills or the configuration until it is interrupted. */
export async function watchList({ io, options }: Context<object>): Promise<number> {
  const found = await discoverFor(io, options, { follow: true, remote: "background" });
  const isConfigured = warnOfConfiguration(io, found);
  const { around } = found;
  const out = printer(io.stdout, io.env);
  const availableIn = (from: Catalog) => from.available((skill) => unavailability(skill, found));
  // Before the list: what changes while the watchers start is a change too.
  const warn = openConfigurationWarnings(io, found);
  let known = { configuration: found.currentConfiguration(), sources: found.settings.sources };
  let { catalog } = found;
  let shown = availableIn(catalog);
  if (options.json) printJsonLine(io.stdout, { type: "listed", skills: shown.map(describe) });
  else printSkills(io, shown, found.trust);
  const print = (mark: ReturnType<typeof out.green>, skills: readonly Skill[]) => {
    for (const skill of skills)
      out.line`${mark} ${skill.name}  ${oneLine(skill.description, 160)}  ${out.dim(skill.origin.source)}`;
  };
  const tell = (now: Catalog, { changed: touched, diagnostics }: Pick<CatalogChange, "changed" | "diagnostics">) => {
    const before = new Map(shown.map((skill) => [skill.name, skill]));
    catalog = now;
    shown = [...availableIn(now)];
    const names = new Set(shown.map(({ name }) => name));
    const added = shown.filter(({ name }) => !before.has(name));
    const changed = touched.filter(({ name }) => names.has(name) && before.has(name));
    const removed = [...before.values()].filter(({ name }) => !names.has(name));
    if (added.length + changed.length + removed.length + diagnostics.length === 0) return;
    if (options.json) {
      const [news, others] = [added, changed].map((skills) => skills.map(describe));
      const gone = removed.map(({ name }) => name);
      return printJsonLine(io.stdout, { type: "changed", added: news, changed: others, removed: gone, diagnostics });
    }
    print(out.green("+"), added);
    print(out.yellow("~"), changed);
    print(out.red("-"), removed);
    for (const diagnostic of diagnostics) printDiagnostic(out, diagnostic, around);
  };
  const watchAll = () => watchCatalog(catalog, (change) => tell(change.catalog, change));
  let watching: Promise<Watcher> = watchAll();
  await watching;
  const look = () => {
    const now = { configuration: found.currentConfiguration(), sources: found.settings.sources };
    if (now.configuration === known.configuration) return;
    warn();
    if (now.sources === known.sources) tell(catalog, NOTHING);
    else watching = watching.then((watcher) => restart(watcher));
    known = now;
  };
  const restart = async (watcher: Watcher) => {
    await watcher.close();
    tell(await catalog.reload(), NOTHING);
    const next = await watchAll();
    tell(await catalog.reload(), NOTHING); // What was written before the new folders were watched.
    return next;
  };
  const timer = setInterval(look, LOOK_MS);
  printer(io.stderr, io.env).line`watching ${count(catalog.sources.length, "folder")}; Ctrl-C ends`;
  await io.interrupted?.();
  clearInterval(timer);
  await (await watching).close();
  return isConfigured ? EXIT.fine : EXIT.usage;
}

const LOOK_MS = 500;
const NOTHING = { changed: [], diagnostics: [] };
