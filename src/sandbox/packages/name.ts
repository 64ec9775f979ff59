import { SkillError } from "../../shared/error.ts";
import { byText, oneLine } from "../../shared/text.ts";
import { isPackageName } from "../../skill/needs.ts";

const MOST_PACKAGES = 32;

/** The names of a skill's `packages` as a set: each once, in order. Throws at one that apt would not take as a plain name. */
export function packageSet(names: readonly string[]): string[] {
  const bad = names.find((name) => !isPackageName(name));
  if (bad !== undefined) {
    throw new SkillError("package-name", {
      message: `'${oneLine(bad, 80)}' is not the name of a system package`,
      fix: "`packages` takes exact names, as `jq` or `g++`: two to 64 lower-case letters, digits, `+`, `.` and `-`; no version, pattern, path or option",
    });
  }
  const set = [...new Set(names)].sort(byText);
  if (set.length > MOST_PACKAGES) {
    throw new SkillError("package-count", {
      message: `${set.length} system packages are more than the ${MOST_PACKAGES} that a skill may ask for`,
      fix: "name only what the skill's scripts call: what a package needs itself comes with it",
    });
  }
  return set;
}
