import type { Code } from "../codes/findings.ts";

/** What the open standard asks of a name, beside its length. */
export const STANDARD_NAME = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;
export const LONGEST_NAME = 64;

/** Why `name` cannot be a skill's name anywhere here, or nothing. Length and letters are generous: see `name-format`. */
export function unusableName(name: string): { code: Code; why: string } | undefined {
  if (name === "") return { code: "name-unusable", why: "is empty" };
  if ([...name].length > LONGEST_NAME)
    return { code: "name-unusable", why: `is longer than ${LONGEST_NAME} characters` };
  if (RESERVED.has(name.toLowerCase())) return { code: "name-reserved", why: "is reserved" };
  if (PLAIN.test(name)) return undefined;
  if (!new RegExp(USABLE, "u").test(name))
    return {
      code: "name-unusable",
      why: "may hold only letters, digits, hyphens, and start with one of the first two",
    };
  if (new RegExp(INVISIBLE, "u").test(name)) return { code: "name-unusable", why: "holds an invisible character" };
  if (name.normalize("NFKC") !== name || mixesScripts(name)) {
    return { code: "name-lookalike", why: "holds letters that look like others" };
  }
  return undefined;
}

export function isWindowsDevice(name: string): boolean {
  return /^(?:con|prn|aux|nul|com\d|lpt\d)$/i.test(name);
}

const PLAIN = /^[A-Za-z0-9][A-Za-z0-9 ._-]*$/;
// As text: compiling Unicode classes takes time of every start, and almost every name is plain.
const USABLE = "^[\\p{L}\\p{N}][\\p{L}\\p{N}\\p{M} ._-]*$";

const INVISIBLE = "\\p{Default_Ignorable_Code_Point}";

// `defaults` is a section of the configuration, `skills.lock` a file next to the folders of skills; the others are tools that a model already has.
const RESERVED: ReadonlySet<string> = new Set([
  "defaults",
  "skills.lock",
  "list_skills",
  "search_skills",
  "load_skill",
  "unload_skill",
  "use_skill",
  "activate_skills_for",
  "read_skill_resource",
  "run_skill_script",
  "call_skill_tool",
  "validate_skill",
  "lint_skill",
  "open_sections",
]);

const LATIN = "\\p{Script=Latin}";
const LOOKS_LATIN = "[\\p{Script=Cyrillic}\\p{Script=Greek}\\p{Script=Armenian}\\p{Script=Cherokee}]";
const ONLY_LOOKALIKES = /^[-_. \dасеорхуіјѕһԁԛԝкмтвнαονρτυικχ]+$/;

function mixesScripts(name: string): boolean {
  if (!new RegExp(LOOKS_LATIN, "u").test(name)) return false;
  return new RegExp(LATIN, "u").test(name) || ONLY_LOOKALIKES.test(name.toLowerCase());
}
