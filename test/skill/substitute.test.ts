import { describe, expect, it } from "vitest";
import { substituteArguments } from "../../src/catalog/skill-content.ts";

describe("substitution in instructions", () => {
  it.each([
    ["Deploy $ARGUMENTS now", "api to prod", "Deploy api to prod now"],
    ["Deploy $1 to $2", 'api "west coast"', "Deploy api to west coast"],
    ["Deploy $0 to $1", "api prod", "Deploy api to prod"],
    [
      "First $ARGUMENTS[0], second $ARGUMENTS[1], third $ARGUMENTS[2]",
      "a 'b c'",
      "First a, second b c, third $ARGUMENTS[2]",
    ],
    ["$1 and $2", "one", "one and $2"],
    ["No placeholder.", "api", "No placeholder.\n\nARGUMENTS: api"],
    ["No placeholder.", "", "No placeholder."],
    ["Costs $5 or $10.50", "a b c d e f", "Costs e or $10.50"],
    ["$ARGUMENTS_X and $ARGUMENT", "a", "$ARGUMENTS_X and $ARGUMENT\n\nARGUMENTS: a"],
    ["$1", "a\\ b", "a b"],
    ["Deploy $1. It costs $0.50.", "prod main", "Deploy prod. It costs $0.50."],
    ["Deploy $1 with `awk '{print $0}'`", "prod", "Deploy prod with `awk '{print $0}'`"],
    ["$1|$2", '"un closed', "un closed|$2"],
  ])("[X-02] %j given %j is %j", (body, given, text) => {
    expect(substituteArguments(body, { arguments: given })).toBe(text);
  });

  it("[X-02] keeps a literal $5 without an argument, and removes $ARGUMENTS", () => {
    expect(substituteArguments("It costs $5, $1 each: $ARGUMENTS.", {})).toBe("It costs $5, $1 each: .");
  });

  it("[X-02] takes named arguments in order", () => {
    const names = ["issue", "branch"];
    expect(substituteArguments("Fix $issue on $branch, not $other", { arguments: "12 main", names })).toBe(
      "Fix 12 on main, not $other",
    );
    expect(substituteArguments("Fix $issue on $branch", { arguments: "12", names })).toBe("Fix 12 on $branch");
    expect(substituteArguments("$issue-fix, $pr-number", { arguments: "12 7", names: ["issue", "pr-number"] })).toBe(
      "12-fix, 7",
    );
  });

  it("[X-02] inserts the folder, by both names", () => {
    expect(substituteArguments("${SKILL_DIR}/a ${CLAUDE_SKILL_DIR}/b ${HOME}", { folder: "/s" })).toBe(
      "/s/a /s/b ${HOME}",
    );
    expect(substituteArguments("${SKILL_DIR}/a", {})).toBe("${SKILL_DIR}/a");
  });

  it("[X-02] does not expand inserted text again", () => {
    expect(substituteArguments("$ARGUMENTS|$1", { arguments: "$1 $ARGUMENTS ${SKILL_DIR} $&", folder: "/s" })).toBe(
      "$1 $ARGUMENTS ${SKILL_DIR} $&|$1",
    );
  });
});
