import type { Host } from "../host/host.ts";
import { resolved } from "../host/reference.ts";
import { SkillError } from "../shared/error.ts";
import type { Secrets } from "../shared/redact.ts";
import { declaredVariables } from "../skill/needs.ts";
import type { Skill } from "../skill/skill.ts";

/** The variables that a skill declares, with the values that the configuration has for it. Throws a SkillError for one that cannot be had. */
export function variablesOf(skill: Skill, host: Host): Secrets {
  const configured = host.settings.skills.get(skill.name)?.variables;
  return new Map(
    declaredVariables(skill).map((name) => {
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
