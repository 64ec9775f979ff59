import { expect, it } from "vitest";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";

it("[T-13] a tool that blocks its thread in native code does not keep the program alive", async () => {
  const toolset = `import { DatabaseSync } from "node:sqlite";
    import { Tool } from "@agent/tools";
    const endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
    export const Tools = [Tool.define("count", {
      description: "Counts.",
      parameters: { type: "object" },
      execute: () => String(new DatabaseSync(":memory:").prepare(endless).get()),
    })];`;
  const home = temporaryFolder({
    ".skillet/config.toml": "[limits]\ntool_timeout_seconds = 1\n",
    ".skillet/skills/x/SKILL.md": skillText("x", { more: 'toolsets: ["tools:Tools"]\n' }),
    ".skillet/skills/x/tools.ts": toolset,
  });
  const ran = await runSkilletProcess(["call", "x.count"], { cwd: temporaryFolder(), env: { HOME: home } });
  expect(ran).toMatchObject({ code: 4, signal: null, stdout: "" });
  expect(ran.stderr).toContain("[tool-timeout]");
});
