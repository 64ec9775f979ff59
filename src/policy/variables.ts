import { declaredVariables, variableProblem } from "../skill/needs.ts";
import type { Policy } from "./policy.ts";
import { configFile } from "./shown-path.ts";
import { keyOf, tableOf } from "./table.ts";

/** Every variable that a skill declares has a value in the configuration, and none of them decides how programs start. */
export const hasVariables: Policy = (skill, host) => {
  const { env } = skill.manifest;
  const wrong = env.find((name) => variableProblem(name) !== undefined);
  if (wrong !== undefined) {
    return {
      code: "variable-refused",
      kind: "setup",
      message: `Skill '${skill.name}' declares ${JSON.stringify(wrong)}, which ${variableProblem(wrong)}`,
      fix: "take it out of `env` in the skill, or give it another name there",
    };
  }
  const values = host.settings.skills.get(skill.name)?.variables;
  const missing = declaredVariables(skill).filter(
    (name) => (values?.get(name) ?? PLACEHOLDER) === PLACEHOLDER || values?.get(name) === "",
  );
  if (missing.length === 0) return undefined;
  const hasTable = host.settings.skills.has(skill.name); // A second one of its name would be an error.
  return {
    code: "missing-variable",
    kind: "setup",
    message: `Skill '${skill.name}' needs ${missing.join(", ")}`,
    fix: [
      ...missing.map((name) => `run: skillet config set ${keyOf(skill, name)}`),
      `or add to ${configFile(host)}${hasTable ? `, below ${tableOf(skill)}` : ""}:`,
      ...(hasTable ? [] : [`  ${tableOf(skill)}`]),
      ...missing.map((name) => `  ${name} = "${PLACEHOLDER}"`),
    ].join("\n"),
  };
};

/** What stands for a value where one is asked for: copied as it is, it is none. */
const PLACEHOLDER = "…";
