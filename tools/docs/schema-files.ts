import { SCHEMAS } from "../../src/cli/commands/schema.ts";

/** Returns the schemas for editors: the output of `skillet schema`. */
export function schemaFiles(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(SCHEMAS).map(([kind, { make }]) => [`schemas/${kind}.json`, `${JSON.stringify(make(), null, 2)}\n`]),
  );
}
