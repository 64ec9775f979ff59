/** Prompts of sections and skills. */

export { PromptValidationError } from "../../errors/problem.ts";
export {
  type MarkdownOptions,
  markdown,
  type ParamValue,
  type PromptParams,
  type Section,
  type Visibility,
  type VisibilitySelector,
} from "./prompt-section.ts";
export {
  createPromptSession,
  type EvaluatePromptOptions,
  evaluatePrompt,
  type PromptCallOptions,
  type PromptResult,
  type PromptSession,
  type PromptSessionOptions,
  VisibilityExpansionRequired,
} from "./prompt-session.ts";
export type { RenderedSection } from "./prompt-template.ts";
export {
  type BindOptions,
  type Prompt,
  type PromptTemplate,
  type PromptTemplateOptions,
  promptTemplate,
  type RenderedPrompt,
  type RenderOptions,
  type SectionOverride,
} from "./prompt-template.ts";
export {
  type RefReason,
  type SkillOptions,
  type SkillRef,
  SkillRefError,
  type SkillRefOptions,
  type SkillSection,
  type SkillSource,
  type SkillsSection,
  type SkillsSectionOptions,
  type SkillsSectionParams,
  skill,
  skillRef,
  skillsSection,
} from "./skill-sections.ts";
