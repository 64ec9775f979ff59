import { mkdirSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { withPlace } from "./place.mjs";
import { parts } from "./sandbox/library.mjs";
import { inTurn } from "./sandbox/rounds.mjs";

const SKILLS = 200;
const ROUNDS = 50;
const TEXT = "Do it well, and then look at it again.\n".repeat(128);

/** Measures rendering a prompt of many skills: in code and on disk, summarized and all in full. */
export async function render({ say }) {
  const [load] = loadavg();
  return withPlace(async (place) => {
    const library = await parts("agent/prompts/index.js", "skill/tool.js");
    say(`rendering ${SKILLS} skills: ${ROUNDS} rounds`);
    const prompts = { "in code": inCode(library), "on disk": onDisk(library, place) };
    const subjects = Object.entries(prompts).flatMap(([where, prompt]) => {
      const expanded = prompt.render().summarized.map(({ key }) => key);
      if (expanded.length !== SKILLS) throw new Error(`the prompt shows ${expanded.length} of ${SKILLS} skills`);
      return [
        { name: `${where}, summarized`, sample: timed(() => prompt.render()) },
        { name: `${where}, in full`, sample: timed(() => prompt.render({ expanded })) },
      ];
    });
    return { load, skills: SKILLS, rounds: ROUNDS, rows: await inTurn(subjects, ROUNDS) };
  });
}

function timed(work) {
  return () => {
    const start = performance.now();
    work();
    return performance.now() - start;
  };
}

function inCode({ skill, skillsSection, promptTemplate, Tool }) {
  const skills = numbers().map((number) =>
    skill({
      name: `skill-${number}`,
      description: "Does what it is made for. Use when the user asks for it.",
      title: `Skill ${number}`,
      template: `For $who:\n${TEXT}`,
      tools: number % 2 === 0 ? [toolOf(Tool, number)] : [],
    }),
  );
  return promptTemplate({ ns: "bench", key: "code", sections: [skillsSection({ skills })] }).bind({ who: "Ada" });
}

function toolOf(Tool, number) {
  const parameters = { type: "object", properties: {} };
  return Tool.define(`tool_${number}`, { description: "Does it.", parameters, execute: () => "done" });
}

function onDisk({ skillRef, skillsSection, promptTemplate }, place) {
  const skillRefs = numbers().map((number) => {
    const folder = join(place, `skill-${number}`);
    mkdirSync(folder);
    const head = `---\nname: skill-${number}\ndescription: Does what it is made for. Use when the user asks for it.\n---\n`;
    writeFileSync(join(folder, "SKILL.md"), `${head}\n${TEXT}`);
    return skillRef(folder);
  });
  return promptTemplate({ ns: "bench", key: "disk", sections: [skillsSection({ skillRefs })] }).bind();
}

function numbers() {
  return Array.from({ length: SKILLS }, (_, index) => index);
}
