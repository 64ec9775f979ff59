import { clientViews } from "../../host/client-views.ts";
import { count } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, warnOfConfiguration } from "../found.ts";
import { printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";

/** `list --by client`: for each client, the skills that it finds in its own folders. */
export async function listByClient({ io, options }: Context<object>): Promise<number> {
  const found = await discoverFor(io, options);
  const isConfigured = warnOfConfiguration(io, found);
  const clients = clientViews(found);
  if (options.json) printJson(io.stdout, { clients });
  else {
    const out = printer(io.stdout, io.env);
    for (const { title, skills } of clients.filter((client) => client.skills.length > 0)) {
      out.line`${out.bold(title)} ${out.dim(count(skills.length, "skill"))}`;
      const widest = Math.min(32, Math.max(...skills.map(({ name }) => name.length)));
      for (const { name, source, isCopy } of skills)
        out.line`  ${name.padEnd(widest)}  ${out.dim(isCopy ? `${source} (copy by skillet)` : source)}`;
    }
    const without = clients.filter(({ skills }) => skills.length === 0).map(({ title }) => title);
    if (without.length > 0) printer(io.stderr, io.env).line`no skills in the folders of ${without.join(", ")}`;
  }
  return isConfigured ? EXIT.fine : EXIT.usage;
}
