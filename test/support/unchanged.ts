import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { waitFor } from "./wait-for.ts";

/**
 * Waits until neither a path nor anything below it has changed for so long. A watcher of files trusts their times only from then on: a
 * file that has just changed may be incomplete, or change again without another time.
 */
export async function waitUntilUnchanged(ms: number, path: string): Promise<void> {
  const below = statSync(path).isDirectory() ? readdirSync(path, { recursive: true, encoding: "utf8" }) : [];
  const times = ["", ...below].map((name) => statSync(join(path, name)).ctimeMs);
  const newest = times.reduce((latest, time) => Math.max(latest, time));
  await waitFor(() => Date.now() - newest > ms);
}
