import { defineSkill } from "../../src/skill/define-skill.ts";
import type { Skill } from "../../src/skill/skill.ts";
import { createRandom } from "./random.ts";

const VERBS: readonly (readonly [string, string])[] = [
  ["Creates", "Generates"],
  ["Checks", "Verifies"],
  ["Converts", "Transforms"],
  ["Summarizes", "Condenses"],
  ["Translates", "Localizes"],
  ["Searches", "Looks up"],
  ["Updates", "Refreshes"],
  ["Reviews", "Inspects"],
  ["Plans", "Schedules"],
  ["Compares", "Contrasts"],
];
const THINGS =
  "invoices contracts recipes itineraries playlists resumes budgets timesheets flashcards newsletters blueprints spreadsheets screenshots podcasts transcripts leases tickets surveys dashboards changelogs migrations benchmarks backups certificates firewalls thumbnails subtitles crosswords workouts meals gardens genealogies weather earthquakes flights trains hotels museums auctions patents theorems molecules genomes planets satellites dialects poems scripts logos fonts palettes icons animations diagrams wireframes prototypes schemas queries indexes caches queues webhooks cookies licenses manifests releases incidents alerts metrics traces".split(
    " ",
  );
const FIELDS =
  "dentists farmers schools hospitals museums startups lawyers architects bakeries gyms pilots sailors teachers nurses plumbers florists journalists musicians athletes chemists biologists astronomers librarians accountants recruiters landlords tenants parents students researchers volunteers charities restaurants hotels airlines railways insurers banks brokers traders".split(
    " ",
  );
const DETAILS =
  "PDF Markdown CSV Excel Slack email calendar Notion Postgres Kubernetes Terraform Figma Blender LaTeX Jupyter Stripe Shopify Salesforce Jira GitHub Airtable Zapier WordPress Android".split(
    " ",
  );

export interface CompetingSkills {
  skills: readonly Skill[];
  /** Each pair of a skill and its near-duplicate, as "a b", sorted. */
  planted: ReadonlySet<string>;
}

/** Skills about different things, with near-duplicates in other words of some of them. */
export function createCompetingSkills(count: number, planted: number, seed = 1): CompetingSkills {
  const random = createRandom(seed);
  const below = (limit: number) => Math.floor(random() * limit);
  const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T;
  const taken = new Set<string>();
  const skills: Skill[] = [];
  const pairs = new Set<string>();
  const add = (name: string, description: string) => {
    skills.push(defineSkill({ name, description, instructions: "Do it." }));
    return name;
  };
  while (skills.length < count) {
    const [thing, field] = [pick(THINGS), pick(FIELDS)];
    const [verb, other] = pick(VERBS);
    const detail = pick(DETAILS);
    // Also from 5,000 on, no two skills are about the same.
    const about = `${verb} ${thing} ${field} ${detail}`;
    if (taken.has(about) || (count <= 2000 && taken.has(`${thing} ${field}`))) continue;
    taken.add(about).add(`${thing} ${field}`);
    const number = skills.length;
    const first = add(
      `${thing}-${number}`,
      `${verb} ${thing} for ${field}, with ${detail} as the result. Use when someone asks about ${thing} or wants help with the ${thing} of ${field}.`,
    );
    if (pairs.size >= planted) continue;
    const second = add(
      `${thing}-helper-${number}`,
      `${other} the ${thing} that ${field} need and exports them to ${detail}. Use this to help ${field} with their ${thing}.`,
    );
    pairs.add([first, second].sort().join(" "));
  }
  return { skills, planted: pairs };
}
