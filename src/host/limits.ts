/** What a run may use. A skill, a workspace and a caller can only ask for less. */
export interface RunLimits {
  /** How often a skill that says nothing of it asks its model. */
  iterations: number;
  /** And one that does, at most. */
  mostIterations: number;
  /** How long a run takes at most, with all that it calls. */
  seconds: number;
  /** How deep skills may call skills; 1: not at all. */
  nesting: number;
  /** Tokens of a run with all that it calls, in and out; no bound when left out. */
  tokens?: number;
  /** How long one call of a tool takes at most; those that start programs have a limit of their own besides. */
  toolSeconds: number;
  /** How many characters of a tool's output a model gets. */
  toolOutput: number;
}

export const RUN_DEFAULTS: RunLimits = {
  iterations: 10,
  mostIterations: 50,
  seconds: 15 * 60,
  nesting: 3,
  toolSeconds: 300,
  toolOutput: 12_000,
};
