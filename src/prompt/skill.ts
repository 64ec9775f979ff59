import { frozen } from "../shared/frozen.ts";
import { defineSkill } from "../skill/define.ts";
import { toSkillMd } from "../skill/render.ts";
import type { Skill } from "../skill/skill.ts";
import { bodyOf } from "./render.ts";
import {
  makeSection,
  named,
  type ParamsOf,
  type Parts,
  type Section,
  type SectionOptions,
  type Unset,
  type Written,
  withParts,
} from "./section.ts";
import { literal, type NamesIn, type Params } from "./template.ts";

export interface SkillOptions<P> extends Omit<SectionOptions<P>, "key"> {
  /** Up to 64 lower-case letters, digits and hyphens. */
  name: string;
  /** 1 to 1024 characters of plain text. */
  description: string;
  /** The name when left out. */
  key?: string;
}

/** A skill that is written in code: a section that is summarised until a model opens it, or installed where it has no tools. */
export interface SkillSection<in P = unknown> extends Section<P> {
  readonly kind: "skill";
  readonly name: string;
  readonly description: string;
  /** It as a skill like any other, with these parameters. */
  toSkill(params?: P): Skill;
  /** Its SKILL.md, with these parameters. */
  toSkillMd(params?: P): string;
  remade(parts: Parts): SkillSection<P>;
}

/** Defines a skill in code. Throws a PromptValidationError at once when it cannot be one. */
export function skill<
  P = unknown,
  D = unknown,
  const T extends string = string,
  const U extends string = string,
  const C extends readonly Section<never>[] = readonly Section<P>[],
>(
  given: Written<SkillOptions<P>, D, T, U, C>,
): SkillSection<NoInfer<Unset<P & ParamsOf<C>, D, NamesIn<T> | NamesIn<U>>>> {
  const options = given as unknown as SkillOptions<P>;
  const { name, description, ...rest } = options;
  // Judged where all skills of code are: the name, the description, and what must not be in either.
  const judged = defineSkill({ name, description, title: options.title, instructions: options.template });
  const section = makeSection<P>(
    "skill",
    { ...rest, key: options.key ?? name },
    {
      visibility: "SUMMARY",
      where: named("Skill", name),
      summary: literal(() => `[Skill: ${name}] ${judged.description.replace(/\s+/g, " ")}`),
      skill: name,
    },
  );
  const toSkill = (params: Params = {}) => defineSkill({ name, description, instructions: bodyOf(made, params) });
  const made: SkillSection<never> = frozen({
    ...section,
    kind: "skill",
    name,
    description: judged.description,
    toSkill,
    toSkillMd: (params) => toSkillMd(toSkill(params)),
    remade: (parts) => skill<P>(withParts(options, section, parts)),
  });
  return made as SkillSection<never> as never;
}
