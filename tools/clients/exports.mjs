import { rmSync } from "node:fs";
import { capture, textsIn } from "./capture.mjs";
import { openHome, skillet } from "./home.mjs";
import { plain } from "./measure.mjs";

const CUE = "Use when the harbor logbook has to be reconciled.";
const FILLER = "Reads the logbook of a harbor and compares each arrival with the berth plan. ";

/** Skills with features that clients treat differently, and a unique word that finds each in a request. */
export const SPECIAL = {
  "cue-apart": { more: `when_to_use: ${CUE.replace("harbor", "cue-apart")}`, description: "Zqcue reconciles logbooks" },
  "long-one": { more: "", description: `Zqlong. ${FILLER.repeat(22)}${CUE}` },
  "quiet-one": { more: "disable-model-invocation: true", description: "Zqquiet is for users alone" },
  Upper_Case: { more: "", description: "Zqupper has capitals in its name" },
};

/** Clients that hide a skill with `disable-model-invocation: true`. */
const HIDES_QUIET = new Set(["claude", "codex", "copilot"]);

/** Exports the special skills to a client, and returns the lines of its first request that mention them. */
export async function measureExports(client) {
  const files = Object.entries(SPECIAL).map(([name, { description, more }]) => [
    `.skillet/skills/${name}/SKILL.md`,
    `---\nname: ${name}\ndescription: ${description}\n${more}\n---\n\nRun $SKILL_DIR/x.sh.\n`,
  ]);
  const home = openHome(`${client.name}-exports`, Object.fromEntries(files));
  skillet(home, "export", ...Object.keys(SPECIAL), "--to", client.name);
  const { first, problems } = await capture(client, home, "ok");
  const lines = textsIn(first)
    .split("\n")
    .filter((line) => line.includes("Zq") || Object.keys(SPECIAL).some((name) => line.includes(name)))
    .filter((line) => !line.includes(home.path));
  const text = plain(lines.join("\n"));
  const expected = [
    [
      text.includes("reconciles logbooks") && text.includes("cue-apart logbook has to be reconciled"),
      "does not show when_to_use",
    ],
    [text.includes("Zqlong") && text.includes(CUE), "does not show the cue of a long description"],
    [text.includes("Zqquiet") !== HIDES_QUIET.has(client.name), "does not treat disable-model-invocation as expected"],
    [text.includes("Zqupper"), "does not list a name with capitals"],
  ];
  if (problems.length === 0) rmSync(home.path, { recursive: true, force: true });
  return { lines, problems: [...problems, ...expected.flatMap(([holds, what]) => (holds ? [] : `it ${what}`))] };
}
