import { estimateTokens } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { DEFAULTS } from "./defaults.ts";
import type { DiscloseOptions, Disclosure } from "./disclose.ts";
import { sectionWithin } from "./listing.ts";

/** Discloses one list for every query: no skill is matched, and no instructions are added. */
export function staticDisclosure(skills: readonly Skill[], options: DiscloseOptions): Disclosure {
  const { budget = DEFAULTS.budget, listingBudget = DEFAULTS.listingBudget, usage, search, folderOf: pathOf } = options;
  const room = Math.min(listingBudget, budget) * 4;
  const { text, ...listed } = sectionWithin(skills, { room, usage, search, ...(pathOf ? { pathOf } : {}) });
  return {
    tier: skills.length > 0 ? "registry" : "none",
    why: skills.length > 0 ? "the disclosure mode is static" : "no skill is visible",
    text,
    prefix: text,
    suffix: "",
    tokens: estimateTokens(text),
    matches: [],
    shown: [],
    shortlist: [],
    noted: [],
    ...(skills.length > 0 ? { listed } : {}),
    against: [],
    cut: { descriptions: listed.shortened + listed.named + listed.left, names: listed.left, instructions: [] },
    isCut: false,
  };
}
