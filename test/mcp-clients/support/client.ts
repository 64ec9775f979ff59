import { join } from "node:path";

/** A file of one of the large clients that `npm run test:long` installs. */
export function client(path: string): string {
  return join(import.meta.dirname, "../suites/node_modules", path);
}
