import { SCHEMAS } from "../../src/cli/commands/schema.ts";

/** For editors: what `skillet schema` prints. */
export function schemaFiles(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(SCHEMAS).map(([kind, { make }]) => [`schemas/${kind}.json`, `${JSON.stringify(make(), null, 2)}\n`]),
  );
}
