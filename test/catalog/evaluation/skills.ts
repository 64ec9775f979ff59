import { DEVELOPMENT_SKILLS } from "./skills-development.ts";
import { DOCUMENT_SKILLS } from "./skills-documents.ts";
import { WORK_SKILLS } from "./skills-work.ts";

/** A skill as people publish them, without triggers, and requests that it is for. */
export interface EvaluationSkill {
  name: string;
  description: string;
  body: string;
  /** A short request and a long one. */
  requests: readonly [short: string, long: string];
}

export const EVALUATION_SKILLS: readonly EvaluationSkill[] = [
  ...DOCUMENT_SKILLS,
  ...DEVELOPMENT_SKILLS,
  ...WORK_SKILLS,
];
