import { join } from "node:path";

/** A file of one of the clients that `node tools/install-clients.mjs` installs. */
export function client(path: string): string {
  return join(import.meta.dirname, "../node_modules", path);
}
