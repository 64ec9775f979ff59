import { type Catalog, loadCatalog } from "../../src/catalog/catalog.ts";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { createInlineSource, type Skill } from "../../src/skill/skill.ts";

export interface Sketch {
  description?: string;
  body?: string;
  keywords?: string[];
  verbs?: string[];
  patterns?: string[];
  examples?: string[];
  negative?: string[];
  /** Any other key of the frontmatter. */
  more?: Record<string, unknown>;
}

/** A skill in code, with only the fields that a test needs. */
export function defineTestSkill(name: string, { description, body, more, ...triggers }: Sketch = {}): Skill {
  return defineSkill({
    name,
    description: description ?? `Skill ${name}.`,
    instructions: body ?? `Do ${name}.`,
    frontmatter: { ...(Object.keys(triggers).length > 0 ? { triggers } : {}), ...more },
  });
}

export function createCatalogOf(skills: Record<string, Sketch> | readonly Skill[]): Promise<Catalog> {
  const list = Array.isArray(skills)
    ? skills
    : Object.entries(skills).map(([name, parts]) => defineTestSkill(name, parts));
  return loadCatalog([createInlineSource(list)]);
}
