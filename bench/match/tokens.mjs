import { randomFrom } from "../generate.mjs";
import { library } from "./library.mjs";
import { pickVerb, sentence, WORDS } from "./vocabulary.mjs";

const NUMBER = 200;
const BRIEF = 45;
const BUDGET = 1500;

/** Counts the tokens of the texts for a model, at four characters per token. */
export async function tokens() {
  const { disclose, loadCatalog, createInlineSource, defineSkill } = await library();
  const random = randomFrom(1);
  const skills = Array.from({ length: NUMBER }, (_, number) => defineSkill(definition(random, number)));
  const catalog = await loadCatalog([createInlineSource(skills)]);
  const asked = "What skills do you have?";
  const registry = await disclose(catalog, asked);
  const tight = await disclose(catalog, asked, { budget: BUDGET });
  const breadcrumb = await disclose(catalog, "Hello there");
  const own = skills.reduce((sum, { name, manifest }) => sum + name.length + manifest.briefDescription.length, 0) / 4;
  return {
    number: NUMBER,
    budget: BUDGET,
    tiers: [breadcrumb, registry, tight].map(({ tier }) => tier),
    breadcrumb: breadcrumb.tokens,
    aSkill: registry.tokens / NUMBER,
    above: (registry.tokens - own) / NUMBER,
    tight: tight.tokens,
    named: skills.filter(({ name }) => new RegExp(`(^|[ \\n])${name}([:,\\n]|$)`).test(tight.text)).length,
  };
}

function definition(random, number) {
  const verb = pickVerb(random);
  const brief = sentence(random, 20)
    .slice(0, BRIEF - 1)
    .trim();
  return {
    name: `${verb}-${WORDS[number]}`,
    description: `${brief}. ${sentence(random, 20)}`,
    instructions: "Do it.",
    frontmatter: { brief_description: `${brief}.`, triggers: { keywords: [`${verb} ${WORDS[number]}`] } },
  };
}
