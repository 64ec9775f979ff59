import type { Policy } from "./policy.ts";
import { tableOf } from "./table.ts";

/** Every capability that a skill declares is there for whoever calls it. */
export const seesCapabilities: Policy = (skill, { capabilities, caller }) => {
  const missing = skill.manifest.capabilities.filter((id) => !capabilities?.isVisible(id, caller));
  if (missing.length === 0) return undefined;
  const spaces = [...new Set(missing.map((id) => id.split(".")[0] ?? id))];
  const tables = spaces.map(
    (space) => `[capabilities.providers.${/^[\w-]+$/.test(space) ? space : JSON.stringify(space)}]`,
  );
  const own = tableOf(skill).replace(/\]$/, ".capability_provider]");
  return {
    code: "capability-unavailable",
    kind: "setup",
    message: `Skill '${skill.name}' needs the ${missing.length === 1 ? "capability" : "capabilities"} ${missing.join(", ")}, which nobody serves here`,
    fix: `name the program that serves ${missing.length === 1 ? "it" : "them"}: command under ${[...tables, own].join(" or ")} in config.toml`,
  };
};
