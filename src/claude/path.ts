import { isAbsolute, join, resolve } from "node:path";
import { realPlace } from "../shared/inside.ts";

/** Where a path leads that a model gave. */
export function placeOf(given: string, { cwd, home }: { cwd: string; home: string }): string {
  const path = given.trim(); // As Claude does: ` /etc` is no folder called " " in there.
  const whole = /^~(?=\/|$)/.test(path) ? join(home, path.slice(1)) : isAbsolute(path) ? path : resolve(cwd, path);
  return realPlace(resolve(whole));
}
