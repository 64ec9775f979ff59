/** How much a model is told where nobody says otherwise. */
export const DEFAULTS = { maxSkills: 3, budget: 20_000, listingBudget: 2000 } as const;
