import { BUILT_IN_TOOLS } from "../host/built-in-tools.ts";
import type { Host } from "../host/host.ts";
import type { Notice } from "../host/sandbox.ts";
import { fixOf, hasTool, isDisabled } from "../policy/tools.ts";
import { inLine } from "../shared/prompt.ts";
import { nearest } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { dottedToolName, expandToolNames } from "../skill/tool-alias.ts";
import { isForeignTool, ourToolName } from "../skill/tool-names.ts";
import { wantsNetwork } from "./plan-code.ts";

/** Returns what a skill lists under `allowed_tools` and no run of it can have here: the same before a run, in it and when it is checked. */
export function missingTools(skill: Skill, host: Host): Notice[] {
  const { allowed } = skill.manifest.tools;
  const isMissing = (entry: string) =>
    ourToolName(entry) !== "*" && !isForeignTool(entry) && !hasTool(entry, host, skill);
  return allowed.filter(isMissing).flatMap((entry): Notice | Notice[] => {
    const isClosed =
      ourToolName(entry) === "web_fetch" && host.hasBuiltInTools !== false && !isDisabled("web_fetch", host);
    if (isClosed) return wantsNetwork(skill);
    const meant = nearest(
      ourToolName(entry),
      BUILT_IN_TOOLS.map(({ name }) => name),
    );
    const isOurs = BUILT_IN_TOOLS.some(({ name }) => name === ourToolName(entry));
    return {
      code: "tool-unmatched",
      message: `Skill '${skill.name}' lists ${inLine(entry, 64)}, and nothing here has it`,
      fix: !isOurs && meant ? `did you mean ${meant}?` : fixOf(ourToolName(entry), host, skill),
    };
  });
}

/** What a skill lists under `allowed_tools` and nothing here is: it would be left out without a word. */
export function unmatched(skill: Skill, names: readonly string[], host: Host): Notice[] {
  const { name, manifest } = skill;
  const { tools } = manifest;
  const isOurs = (entry: string) => BUILT_IN_TOOLS.some((tool) => tool.name === ourToolName(entry));
  const isMeant = (entry: string) => expandToolNames([entry], names).some((one) => names.includes(ourToolName(one)));
  const missing = tools.allowed.filter(
    (entry) =>
      ourToolName(entry) !== "*" &&
      !isMeant(entry) &&
      !isOurs(entry) &&
      !isForeignTool(entry) &&
      hasTool(entry, host, skill),
  );
  const dynamic = missing.map((entry): Notice => {
    const bare = dottedToolName(entry);
    const several = names.filter((one) => one.endsWith(`.${bare}`));
    const meant = nearest(bare, names);
    const what = inLine(entry, 64);
    return several.length > 1
      ? {
          code: "tool-ambiguous",
          message: `Skill '${name}' lists ${what}, and ${several.join(" and ")} both are that: it has neither`,
          fix: `name the one that is meant, as ${several[0]}`,
        }
      : {
          code: "tool-unmatched",
          message: `Skill '${name}' lists ${what}, and nothing here has it`,
          fix: meant ? `did you mean ${meant}?` : "add a server that has it under [tools.mcp.NAME] in config.toml",
        };
  });
  return [...missingTools(skill, host), ...dynamic];
}
