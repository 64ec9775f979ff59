import { PromptValidationError, SkillError } from "../shared/error.ts";
import { findHidden, spell } from "../shared/hidden.ts";
import { type Data, stringsIn } from "./data.ts";
import { trimBody } from "./frame.ts";
import { type Report, readManifest } from "./manifest.ts";
import { unusableName } from "./name.ts";
import type { Skill } from "./skill.ts";
import { judgeTriggers } from "./triggers.ts";

export interface SkillDefinition {
  name: string;
  description: string;
  instructions: string;
  /** A heading for people; not empty when given. */
  title?: string;
  /** Any other key of the frontmatter, in its written form: `{ allowed_tools: ["bash"] }`. */
  frontmatter?: Record<string, unknown>;
}

/** A skill written in code. Throws a PromptValidationError at once when it cannot be one. */
export function defineSkill(definition: SkillDefinition): Skill {
  const { name, instructions, title, frontmatter } = definition;
  const description = typeof definition.description === "string" ? definition.description.trim() : "";
  const wrong = (what: string, fix: string) =>
    new PromptValidationError("definition-invalid", { message: `Skill "${name}": ${what}`, fix });
  const unknown = Object.keys(definition).find((key) => !DEFINITION_KEYS.has(key));
  if (unknown !== undefined)
    throw wrong(`"${unknown}" is no part of a definition`, `put it under frontmatter: { ${unknown}: … }`);
  if (typeof name !== "string" || !DEFINED_NAME.test(name) || unusableName(name)) {
    throw wrong("the name cannot be used", "use up to 64 lower-case letters, digits and hyphens, the first no hyphen");
  }
  if (description === "" || description.length > 1024) {
    throw wrong("the description must have 1 to 1024 characters", "say in a sentence what it does and when to use it");
  }
  if (/<[^>]*>/.test(description)) throw wrong("the description holds XML tags", "write it as plain text");
  if (title !== undefined && (typeof title !== "string" || title.trim() === ""))
    throw wrong("the title is empty", "leave it out or write one");
  if (typeof instructions !== "string" || instructions.trim() === "") {
    throw wrong("the instructions are empty", "write what the agent is to do");
  }
  const data: Data = { ...frontmatter, ...(title === undefined ? {} : { title }), name, description };
  for (const text of stringsIn(data)) {
    const [hidden] = findHidden(text);
    if (hidden) throw wrong(`holds the hidden character ${spell(hidden.codePoint)}`, "remove it");
  }
  const report: Report = (code, _key, message, meant) => {
    if (WRONG_IN_CODE.has(code)) throw wrong(message, meant ? `did you mean "${meant}"?` : "correct it");
  };
  const manifest = readManifest(data, report);
  judgeTriggers(data, manifest.triggers, manifest.paths, report);
  const body = trimBody(instructions);
  return {
    name,
    description,
    manifest,
    origin: { scope: "inline", source: "inline", form: "code" },
    findings: [],
    body: () => body,
    files: () => ({ files: [], findings: [] }),
    examples: () => manifest.triggers.examples,
    read(path) {
      throw new SkillError("resource-unlisted", {
        message: `Skill "${name}" has no file "${path}"`,
        fix: "it is defined in code and has no files",
      });
    },
  };
}

const DEFINITION_KEYS: ReadonlySet<string> = new Set(["name", "description", "instructions", "title", "frontmatter"]);
const DEFINED_NAME = /^[a-z0-9][a-z0-9-]{0,63}$/;
const WRONG_IN_CODE: ReadonlySet<string> = new Set([
  "field-type",
  "field-value",
  "key-misspelled",
  "capability-format",
  "variable-name",
  "package-name",
  "toolset-ref",
  "schema-reference",
  "trigger-pattern",
  "trigger-broad",
  "trigger-unusable",
  "trigger-limit",
]);
