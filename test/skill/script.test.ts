import { describe, expect, it } from "vitest";
import {
  detectInterpreter,
  findScript,
  listSkillScripts,
  parseInlineDependencies,
} from "../../src/skill/skill-code.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";

const bytes = (text: string) => Buffer.from(text, "latin1");

describe("the scripts of a skill", () => {
  it("[T-14][T-16] are those that it declares, and the executable files of its scripts folder", async () => {
    const more =
      "scripts:\n  - ./tools/report.py\n  - { path: scripts/a.sh, name: alpha, description: Does a }\n  - gone.sh\n";
    const { skill } = await discoverIn({
      "skills/x/SKILL.md": skillText("x", { more }),
      "skills/x/tools/report.py": "",
      "skills/x/tools/other.py": "",
      "skills/x/scripts/a.sh": "",
      "skills/x/scripts/deep/b.mjs": "",
      "skills/x/scripts/_library.py": "",
      "skills/x/scripts/types.d.ts": "",
      "skills/x/scripts/notes.md": "",
      "skills/x/scripts/data.json": "",
    });
    expect(await listSkillScripts(skill("x"))).toEqual([
      { path: "tools/report.py", name: "report" },
      { path: "scripts/a.sh", name: "alpha", description: "Does a" },
      { path: "scripts/deep/b.mjs", name: "b" },
    ]);
  });

  it("are found by path, by name, without the folder, or by file name, if it is unique", () => {
    const scripts = [
      { path: "scripts/a.sh", name: "alpha" },
      { path: "scripts/one/b.sh", name: "b" },
      { path: "scripts/two/b.sh", name: "b" },
    ];
    const found = (wanted: string) => findScript(scripts, wanted)?.path;
    expect(["scripts/a.sh", "./scripts/a.sh", "alpha", "a.sh", "one/b.sh"].map(found)).toEqual([
      ...Array(4).fill("scripts/a.sh"),
      "scripts/one/b.sh",
    ]);
    expect(["b", "b.sh", "c", "", "../scripts/a.sh", "/scripts/a.sh", "__proto__"].map(found)).toEqual(
      Array(7).fill(undefined),
    );
  });

  it.each([
    ["x.sh", "", "sh"],
    ["x.py", "print(1)", "python3"],
    ["x.js", "", "node"],
    ["x.ts", "", "node"],
    ["x.rb", "", "ruby"],
    ["x.pl", "", "perl"],
    ["x.PY", "", "python3"],
    ["x.sh", "#!/bin/bash\n", "bash"],
    ["x.sh", "#!/usr/bin/env python3\n", "python3"],
    ["x", "#! /usr/bin/env -S node --no-warnings\n", "node --no-warnings"],
    ["x", "#!/bin/sh -e\r\necho\r\n", "sh -e"],
    ["x", "\xef\xbb\xbf#!/usr/bin/perl -w\n", "perl -w"],
    ["x", "#!/usr/bin/env A=b ruby\n", "ruby"],
    ["x.py", "#!\n", "python3"],
    ["x", "\x7fELF\x02", ""],
    ["x", "echo", undefined],
    ["x.md", "echo", undefined],
  ])("%s that starts with %j is run by %s", (path, text, wanted) => {
    const interpreter = detectInterpreter(path, bytes(text));
    expect(interpreter && [interpreter.program, ...interpreter.args].filter(Boolean).join(" ")).toBe(wanted);
  });

  it.each([
    ["# /// script\n# dependencies = [\"requests>=2\", 'rich']\n# ///\n", ["requests>=2", "rich"]],
    [
      '# /// script\n# requires-python = ">=3.11"\n# dependencies = [\n#   "a",\n#   "b[c]>=1",\n# ]\n# ///\nimport a',
      ["a", "b[c]>=1"],
    ],
    ["# /// script\n# dependencies = []\n# ///\n", undefined],
    ['# /// script\n# dependencies = ["a"]\n', undefined],
    ['print("# /// script")', undefined],
    ["", undefined],
  ])("[S-27] declare their dependencies in comments: %j", (text, wanted) => {
    expect(parseInlineDependencies(text)).toEqual(wanted);
  });
});
