import { Argument } from "commander";
import { createSettingsSchema } from "../../config/settings-schema.ts";
import { createEvalSchema } from "../../eval/eval-cases.ts";
import { createFrontmatterSchema } from "../../skill/frontmatter-schema.ts";
import type { JsonObject } from "../../util/objects.ts";
import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import { createPrinter, printJson } from "../output.ts";

/** The kinds of schemas. Repeated here because every command loads this file. */
export const SCHEMA_KINDS = ["frontmatter", "config", "workspace-config", "evals"] as const;

/** `skillet schema`. */
export const schemaCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Print a JSON Schema for your editor, or list the schemas")
      .addArgument(new Argument("[kind]", "The schema").choices(SCHEMA_KINDS))
      .addHelpText(
        "after",
        `
An editor finds it by a comment at the top of the file:
  # yaml-language-server: $schema=frontmatter.json      in a skill
  #:schema ./config.json                                in config.toml`,
      )
      .addHelpText(
        "after",
        formatExamples(
          "skillet schema",
          "skillet schema frontmatter > frontmatter.json",
          "skillet schema config > ~/.skillet/config.json",
        ),
      ),
  run: printSchema,
};

/** All schemas. */
export const SCHEMAS: Readonly<Record<(typeof SCHEMA_KINDS)[number], { says: string; make(): JsonObject }>> = {
  frontmatter: { says: "the frontmatter of a SKILL.md, or a skill in a .yaml file", make: createFrontmatterSchema },
  config: { says: "your ~/.skillet/config.toml", make: () => createSettingsSchema("user") },
  "workspace-config": { says: "a workspace's .skillet/config.toml", make: () => createSettingsSchema("workspace") },
  evals: { says: "the cases of `skillet eval --level task`: evals/tasks.yaml of a skill", make: createEvalSchema },
};

async function printSchema({ io, options, args: [kind] }: CommandContext<object>): Promise<number> {
  const wanted = SCHEMAS[kind as keyof typeof SCHEMAS];
  const schemas = Object.entries(SCHEMAS).map(([name, { says }]) => ({ kind: name, says }));
  if (wanted) printJson(io.stdout, wanted.make());
  else if (options.json) printJson(io.stdout, { schemas });
  else {
    const out = createPrinter(io.stdout, io.env);
    const widest = Math.max(...schemas.map(({ kind: name }) => name.length));
    for (const { kind: name, says } of schemas) out.line`${out.bold(name.padEnd(widest))}  ${says}`;
  }
  return EXIT.fine;
}
