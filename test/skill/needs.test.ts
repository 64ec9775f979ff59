import { describe, expect, it } from "vitest";
import { findVariableProblem, isSystemPackageName } from "../../src/skill/skill.ts";
import { checkPath } from "../../src/skill/source/check-skills.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

describe("a requirement of a skill", () => {
  it.each(["jq", "g++", "libssl3", "python3.11", "a0", "x".repeat(64), "lib+.x"])("can be the package %s", (name) => {
    expect(isSystemPackageName(name)).toBe(true);
  });

  it.each([
    "apt-",
    "libssl.*",
    "jq=1.6",
    "./x.deb",
    "-oX",
    "Jq",
    "j",
    "x".repeat(65),
    "",
    "a b",
    "é",
    "jq/stable",
    "jq:i386",
  ])("[Q-18] cannot be the package %j", (name) => {
    expect(isSystemPackageName(name)).toBe(false);
  });

  it.each(["API_KEY", "a", "_x1"])("can be the variable %s", (name) =>
    expect(findVariableProblem(name)).toBeUndefined(),
  );

  it.each(["PATH", "LD_PRELOAD", "NODE_OPTIONS", "BASH_ENV", "A=B", "1A", "", "a-b", "http_proxy", "GIT_SSH_COMMAND"])(
    "cannot be the variable %j",
    (name) => expect(findVariableProblem(name)).toEqual(expect.any(String)),
  );

  it("is checked, with the line, as is a declared script that is missing", () => {
    const folder = temporaryFolder({
      "x/SKILL.md": skillText("x", {
        more: "env: [LD_PRELOAD, FINE, 1A]\npackages: [jq=1.6]\nscripts: [scripts/here.sh, ./scripts/gone.sh]\n",
      }),
      "x/scripts/here.sh": "",
    });
    const said = checkPath(`${folder}/x`, { profile: "load" }).files.flatMap(({ diagnostics }) => diagnostics);
    expect(said.map(({ code, line, message }) => [code, line, message])).toEqual([
      ["script-missing", undefined, 'the script "./scripts/gone.sh" is not in the skill\'s folder'],
      [
        "variable-name",
        4,
        '"env" lists "LD_PRELOAD", which changes how programs start; "1A", which is not a valid variable name',
      ],
      ["package-name", 5, '"packages" lists "jq=1.6", which cannot be the name of a system package'],
    ]);
  });
});
