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
  /** How many characters of a tool's output a model gets. */
  toolOutput: number;
}

export const RUN_DEFAULTS: RunLimits = {
  iterations: 10,
  mostIterations: 50,
  seconds: 15 * 60,
  nesting: 3,
  toolOutput: 12_000,
};
