import { settingsSchema } from "../../host/settings-schema.ts";
import type { Data } from "../../skill/data.ts";
import { frontmatterSchema } from "../../skill/frontmatter-schema.ts";
import { EXIT } from "../exit.ts";
import { printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import type { SCHEMA_KINDS } from "../rows/write.ts";

/** Every schema that is printed, one row each. */
export const SCHEMAS: Readonly<Record<(typeof SCHEMA_KINDS)[number], { says: string; make(): Data }>> = {
  frontmatter: { says: "the frontmatter of a SKILL.md, or a skill in a .yaml file", make: frontmatterSchema },
  config: { says: "your ~/.skillet/config.toml", make: () => settingsSchema("user") },
  "workspace-config": { says: "a workspace's .skillet/config.toml", make: () => settingsSchema("workspace") },
};

export async function schema({ io, options, args: [kind] }: Context<object>): Promise<number> {
  const wanted = SCHEMAS[kind as keyof typeof SCHEMAS];
  const schemas = Object.entries(SCHEMAS).map(([name, { says }]) => ({ kind: name, says }));
  if (wanted) printJson(io.stdout, wanted.make());
  else if (options.json) printJson(io.stdout, { schemas });
  else {
    const out = printer(io.stdout, io.env);
    const widest = Math.max(...schemas.map(({ kind: name }) => name.length));
    for (const { kind: name, says } of schemas) out.line`${out.bold(name.padEnd(widest))}  ${says}`;
  }
  return EXIT.fine;
}
