import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { reason } from "../shared/inside.ts";
import { userHome } from "./home.ts";
import type { Host } from "./host.ts";

const LARGEST_VALUE = 64 * 1024;

/** Whether a value of the configuration only says where another is. */
export function isReference(written: unknown): boolean {
  return /^(?:env|file):./s.test(String(written));
}

/** A value of the configuration, or what it refers to: `env:NAME`, `file:PATH`. */
export function resolved(written: string, host: Pick<Host, "home" | "env">, refuse: (why: string) => never): string {
  const [, kind, where = ""] = /^(env|file):(.+)$/s.exec(written) ?? [];
  const value = kind === "env" ? host.env?.[where] : kind === "file" ? fileText(where, host, refuse) : written;
  if (value === undefined || value === "") return refuse(`its value, ${JSON.stringify(written)}, stands for nothing`);
  if (value.includes("\0")) return refuse("its value holds a NUL character, which no variable can hold");
  if (Buffer.byteLength(value) > LARGEST_VALUE) return refuse("its value is larger than 64 KiB");
  return value;
}

function fileText(path: string, { home, env }: Pick<Host, "home" | "env">, refuse: (why: string) => never): string {
  const file = path.startsWith("~/")
    ? join(userHome(env ?? {}), path.slice(2))
    : resolve(home ?? userHome(env ?? {}), path);
  try {
    return readFileSync(file, "utf8").replace(/\r?\n$/, "");
  } catch (error) {
    return refuse(`${file} cannot be read: ${reason(error)}`);
  }
}
