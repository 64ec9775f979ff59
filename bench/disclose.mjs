import { cuedSkills } from "../test/catalog/cued-skills.ts";
import { CLIENT_RULES } from "./disclose/rules.mjs";
import { library } from "./match/library.mjs";

const SIZES = [60, 300, 3000];
const QUERIES = 60;
const UNRELATED = ["thanks!", "good morning", "what time is it in Tokyo?", "2+2", "tell me a joke"];

/** Measures the tokens that a list of skills adds to a prompt, and how useful it is, compared with the rules of other clients. */
export async function disclose() {
  const { disclose: tell, loadCatalog, createInlineSource, defineSkill } = await library();
  const sizes = [];
  for (const size of SIZES) {
    const skills = cuedSkills(size);
    const catalog = await loadCatalog([createInlineSource(skills.map((skill) => defineSkill(definition(skill))))]);
    const asked = skills.filter((_, index) => index % Math.ceil(size / QUERIES) === 0);
    const ours = async (query) => {
      const { prefix, suffix } = await tell(catalog, query, { search: "search_skills" });
      return { prefix, suffix };
    };
    const contenders = [
      { name: "skillet", tell: ours },
      ...CLIENT_RULES.map(({ name, list }) => {
        const prefix = list(skills);
        return { name, tell: () => ({ prefix, suffix: "" }) };
      }),
    ];
    const rows = [];
    for (const one of contenders) rows.push(await measure(one, skills, asked));
    sizes.push({ size, queries: asked.length, rows });
  }
  return { sizes };
}

function definition({ name, description, whenToUse }) {
  const frontmatter = whenToUse === undefined ? {} : { when_to_use: whenToUse };
  return { name, description, instructions: `Work on ${name}.`, frontmatter };
}

async function measure({ name, tell }, skills, asked) {
  const told = await Promise.all(asked.map(async (skill) => ({ skill, ...(await tell(skill.request)) })));
  const { prefix } = told[0];
  const tokens = told.reduce((sum, one) => sum + one.prefix.length + one.suffix.length, 0) / told.length / 4;
  const idle = (await Promise.all(UNRELATED.map(tell))).reduce(
    (sum, one) => sum + one.prefix.length + one.suffix.length,
    0,
  );
  const lines = linesOf(prefix);
  return {
    name,
    tokens,
    idle: idle / UNRELATED.length / 4,
    perSkill: tokens / skills.length,
    same: prefix.length / 4,
    named: skills.filter((skill) => isNamed(prefix, skill.name)).length,
    cues: skills.filter((skill) => hasCue(lines.get(skill.name), skill)).length,
    right: told.filter((one) => rightLines(one).some((line) => hasCue(line, one.skill))).length / told.length,
  };
}

/** Returns the lines of the skill that a request needs. All copies with the same description count as right. */
function rightLines({ skill, prefix, suffix }) {
  const base = skill.name.replace(/-\d+$/, "");
  return [...linesOf(prefix), ...linesOf(suffix)].flatMap(([name, line]) =>
    name.replace(/-\d+$/, "") === base ? [line] : [],
  );
}

function linesOf(text) {
  return new Map(Array.from(text.matchAll(/^- ([\w-]+): (.*)$/gm), ([, name, line]) => [name, line]));
}

function isNamed(text, name) {
  return new RegExp(`(?:^- |[\\] ])${name}(?=[:,\\n]|$)`, "m").test(text);
}

function hasCue(line, { marker, topic }) {
  const at = line?.search(marker) ?? -1;
  return at !== -1 && line.slice(at).includes(topic);
}
