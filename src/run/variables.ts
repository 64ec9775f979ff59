import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { userHome } from "../host/home.ts";
import type { Host } from "../host/host.ts";
import { SkillError } from "../shared/error.ts";
import { reason } from "../shared/inside.ts";
import type { Secrets } from "../shared/redact.ts";
import type { Skill } from "../skill/skill.ts";

const LARGEST_VALUE = 64 * 1024;

/** The variables that a skill declares, with the values that the configuration has for it. Throws a SkillError for one that cannot be had. */
export function variablesOf(skill: Skill, host: Host): Secrets {
  const configured = host.settings.skills.get(skill.name)?.variables;
  return new Map(
    skill.manifest.env.map((name) => {
      const value = resolved(configured?.get(name) ?? "", host, (why) => {
        throw new SkillError("missing-variable", {
          message: `Skill '${skill.name}' needs ${name}, and ${why}`,
          fix: "correct the value in config.toml, or what it refers to",
        });
      });
      return [name, value];
    }),
  );
}

/** A value, or what it refers to: `env:NAME`, `file:PATH`. */
function resolved(written: string, host: Host, refuse: (why: string) => never): string {
  const [, kind, where = ""] = /^(env|file):(.+)$/s.exec(written) ?? [];
  const value = kind === "env" ? host.env?.[where] : kind === "file" ? fileText(where, host, refuse) : written;
  if (value === undefined || value === "") return refuse(`its value, ${JSON.stringify(written)}, stands for nothing`);
  if (value.includes("\0")) return refuse("its value holds a NUL character, which no variable can hold");
  if (Buffer.byteLength(value) > LARGEST_VALUE) return refuse("its value is larger than 64 KiB");
  return value;
}

function fileText(path: string, { home, env }: Host, refuse: (why: string) => never): string {
  const file = path.startsWith("~/")
    ? join(userHome(env ?? {}), path.slice(2))
    : resolve(home ?? userHome(env ?? {}), path);
  try {
    return readFileSync(file, "utf8").replace(/\r?\n$/, "");
  } catch (error) {
    return refuse(`${file} cannot be read: ${reason(error)}`);
  }
}
