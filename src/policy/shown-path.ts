import type { Host } from "../host/host.ts";

/** A path as people write it: their home folder is `~`. */
export function shownPath(path: string, { env }: Pick<Host, "env">): string {
  const home = (env?.["HOME"] ?? "").replace(/\/+$/, "");
  return home !== "" && path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path;
}

/** Where the user writes things down, as people write it. */
export function configFile(host: Pick<Host, "home" | "env">): string {
  return `${host.home === undefined ? "~/.skillet" : shownPath(host.home, host)}/config.toml`;
}
