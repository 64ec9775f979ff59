/** How much a model is told where nobody says otherwise. */
export const DEFAULTS = { maxSkills: 3, budget: 20_000, listingBudget: 2000 } as const;

/** How skills are shown to a model: by the query, or as one list. */
export const DISCLOSURE_MODES = ["adaptive", "static"] as const;
export type DisclosureMode = (typeof DISCLOSURE_MODES)[number];
