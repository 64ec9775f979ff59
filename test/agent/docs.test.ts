import { execFile } from "node:child_process";
import { readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { codeBlocks } from "../support/markdown-code.ts";
import { API_KEY, MODEL, startModelServer } from "../support/model-server.ts";

const root = join(import.meta.dirname, "../..");
const blocks = (of: string) =>
  codeBlocks("docs/prompts.md").flatMap(({ language, marks, code }) =>
    language === of && !marks.includes("alone") ? code : [],
  );

it("[N-26, N-27] the page about prompts: its code runs, and a model sees what the page prints", async () => {
  const { url, requests } = await startModelServer("openai", [
    () => [{ tool: "open_sections", input: { keys: ["skills.linting"] } }],
    () => [{ tool: "lint_code", input: { paths: ["a.py"] } }],
    ({ results }) => `It says: ${/Found .*/.exec(results[1]?.content ?? "")?.[0]}.`,
    () => [{ tool: "open_sections", input: { keys: ["skills.code-style"] } }],
    () => "Reviewed.",
  ]);
  const folder = temporaryFolder({
    "skills/code-style/SKILL.md": skillText("code-style", { description: "How code is written here." }),
  });
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const sourceOf = (entry: string) =>
    pathToFileURL(join(root, exports[entry].types.replace("dist/types", "src").replace(".d.ts", ".ts"))).href;
  const program = blocks("ts").join("\n");
  writeFiles(folder, {
    "review.ts": program.replace(/"skillet(\/\w+)?"/g, (_, path = "") => `"${sourceOf(`.${path}`)}"`),
  });
  const env = { PATH: process.env["PATH"], MODEL_BASE_URL: url, MODEL_NAME: MODEL, MODEL_API_KEY: API_KEY };
  const { stdout } = await promisify(execFile)(process.execPath, ["--no-warnings", join(folder, "review.ts")], { env });
  expect(stdout).toBe(
    [
      "It says: Found 1 issues.",
      "true",
      "opened skills.code-style",
      "[ 'skills.code-style' ]",
      "true 1 true",
      "[ 'lint_code', 'open_sections' ]\n",
    ].join("\n"),
  );
  expect(requests[0]?.prompt).toBe(blocks("text")[0]?.trimEnd());
});
