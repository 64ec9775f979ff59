import { BUILT_IN_TOOLS } from "../host/built-in-tools.ts";
import type { Notice } from "../host/sandbox.ts";
import { inLine } from "../shared/prompt.ts";
import { nearest } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { dottedToolName, expandToolNames } from "../skill/tool-alias.ts";
import { isForeignTool, ourToolName } from "../skill/tool-names.ts";

/** What a skill lists under `allowed_tools` and nothing here is: it would be left out without a word. */
export function unmatched({ name, manifest: { tools } }: Skill, names: readonly string[]): Notice[] {
  const isOurs = (entry: string) => BUILT_IN_TOOLS.some((tool) => tool.name === ourToolName(entry));
  const isMeant = (entry: string) => expandToolNames([entry], names).some((one) => names.includes(ourToolName(one)));
  const missing = tools.allowed.filter(
    (entry) => ourToolName(entry) !== "*" && !isMeant(entry) && !isOurs(entry) && !isForeignTool(entry),
  );
  return missing.map((entry) => {
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
}
