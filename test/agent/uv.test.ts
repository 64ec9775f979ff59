import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { runScript } from "../../src/agent/run/run-script.ts";
import { temporaryFolder } from "../support/folder.ts";
import { pythonIndex } from "../support/package-servers.ts";
import { findRealUv } from "../support/real-uv.ts";
import { useScene } from "../support/use.ts";

const GO = `# /// script
# dependencies = ["greeting>=1"]
# ///
import greeting
print(greeting.hello("inline"))
`;

describe("uv itself, in a sandbox", { timeout: 180_000 }, () => {
  it("[S-27][S-43] uses the packages fetched for the skill, offline, from `skillet script` and from the shell of a run", async ({
    skip,
  }) => {
    const uv = findRealUv();
    if (uv === undefined) return skip("this machine has no uv");
    const packages = temporaryFolder();
    chmodSync(packages, 0o755);
    const index = await pythonIndex(
      { name: "greeting", version: "1.0", files: { "greeting.py": "def hello(name): return 'hello ' + name\n" } },
      {
        name: "shout",
        version: "3.0",
        files: { "shout.py": "def main(): print('HELLO TOOL')\n" },
        programs: ["shout = shout:main"],
      },
    );
    onTestFinished(index.close);
    const commands = [
      "cd /tmp; uv run /skill/scripts/go.py",
      "cd /tmp; uv run --with shout python -c 'import shout; shout.main()'",
      "cd /tmp; uvx shout",
    ];
    const { found, use } = await useScene({
      skills: { x: { files: { "scripts/go.py": GO } } },
      config: '[skills.x]\npython = ["shout"]\n',
      env: { SKILLET_PACKAGES: packages, PIP_INDEX_URL: index.url },
      turns: [
        () => commands.map((command) => ({ tool: "bash", input: { command } })),
        ({ results }) => {
          expect(results.map(({ content }) => /stdout">\n(.*)\n/.exec(content)?.[1] ?? content)).toEqual([
            "hello inline",
            "HELLO TOOL",
            "HELLO TOOL",
          ]);
          return "done";
        },
      ],
    });
    const bin = join(found.root, "home/.local/bin");
    mkdirSync(bin, { recursive: true });
    copyFileSync(uv, join(bin, "uv"));
    // The package contains uv alone; uvx does the same as this.
    writeFileSync(join(bin, "uvx"), '#!/bin/sh\nexec uv tool run "$@"\n');
    for (const name of ["uv", "uvx"]) chmodSync(join(bin, name), 0o755);
    const script = await runScript(found, { skill: found.skill("x"), script: "go.py" });
    expect(script).toMatchObject({ stdout: "hello inline\n", exitCode: 0, refusals: [] });
    const { length } = index.asked;
    expect((await use({ skill: "x", message: "Greet." })).result).toMatchObject({ content: "done", isError: false });
    expect(index.asked, "nothing is requested again").toHaveLength(length);
  });
});
