import { join } from "node:path";
import { readRegularText } from "../util/file-access.ts";
import { getSkilletHome } from "../util/system.ts";
import type { CommandIo, LinkOf } from "./output.ts";

/**
 * Returns the links to the pages of codes, if the user configured `docs.url`. A workspace cannot set it. Each command calls
 * this first, so a configuration without the word costs one read.
 */
export async function findDocsLinks(env: CommandIo["env"]): Promise<LinkOf | undefined> {
  const path = join(getSkilletHome(env), "config.toml");
  try {
    if (!readRegularText(path, { limit: 1024 * 1024 }).includes("docs")) return undefined;
  } catch {
    return undefined; // The command reports a configuration that cannot be read.
  }
  const { readConfig } = await import("../config/config-file.ts");
  const { ERROR_CODES } = await import("../errors/error-codes.ts");
  const { entries } = await readConfig(path, "user");
  const base = entries.find(({ row }) => row.path === "docs.url")?.value;
  if (typeof base !== "string") return undefined;
  const site = base.replace(/\/+$/, "");
  return (code) => (Object.hasOwn(ERROR_CODES, code) ? `${site}/errors/${code}` : undefined);
}
