import type { PageRule, Rule, TextRule } from "./rule.ts";
import { ENCODED_COMMAND } from "./rules/blob.ts";
import { ENCODED_RULES } from "./rules/encoded.ts";
import { FETCH_PAGE_RULES, FETCH_RULES } from "./rules/fetch.ts";
import { FILE_RULES } from "./rules/file.ts";
import { HARM_PAGE_RULES, HARM_RULES } from "./rules/harm.ts";
import { HIDDEN_RULES } from "./rules/hidden.ts";
import { LEAK_RULES } from "./rules/leak.ts";
import { OVERRIDE_RULES } from "./rules/override.ts";
import { PERSIST_RULES } from "./rules/persist.ts";
import { SECRET_PAGE_RULES, SECRET_RULES } from "./rules/secrets.ts";
import { TOLD_PAGE_RULES, TOLD_RULES } from "./rules/told.ts";

export const TEXT_RULES: readonly TextRule[] = [
  ...FETCH_RULES,
  ...SECRET_RULES,
  ...LEAK_RULES,
  ...ENCODED_RULES,
  ...OVERRIDE_RULES,
  ...PERSIST_RULES,
  ...HARM_RULES,
];

export const PAGE_RULES: readonly PageRule[] = [
  ...FETCH_PAGE_RULES,
  ...SECRET_PAGE_RULES,
  ...HARM_PAGE_RULES,
  ...TOLD_PAGE_RULES,
];

export const PARTLY_READ: Rule = {
  id: "partly-read",
  weight: "low",
  title: "has a file that was looked at only in part",
  why: "What stands further down was not looked at.",
  fix: "look at the rest yourself; a skill seldom needs files that large",
};

/** Every rule, in the order of the families. */
export const RULES: readonly Rule[] = [
  ...HIDDEN_RULES,
  ...FETCH_RULES,
  ...FETCH_PAGE_RULES,
  ...SECRET_RULES,
  ...SECRET_PAGE_RULES,
  ...LEAK_RULES,
  ...ENCODED_RULES,
  ENCODED_COMMAND,
  ...OVERRIDE_RULES,
  ...PERSIST_RULES,
  ...HARM_RULES,
  ...HARM_PAGE_RULES,
  ...TOLD_RULES,
  ...TOLD_PAGE_RULES,
  ...FILE_RULES,
  PARTLY_READ,
];
