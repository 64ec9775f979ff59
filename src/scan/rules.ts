import type { PageRule, Rule, TextRule } from "./rule.ts";
import { ABUSE_RULES } from "./rules/abuse.ts";
import { ABUSE_PAGE_RULES } from "./rules/abuse-pages.ts";
import { ASKED_RULES } from "./rules/asked.ts";
import { BEHAVIOR_PAGE_RULES } from "./rules/behavior-pages.ts";
import { ENCODED_COMMAND } from "./rules/blob.ts";
import { COMBINED_RULES } from "./rules/combined.ts";
import { CONCEAL_RULES } from "./rules/conceal.ts";
import { DECEIVE_PAGE_RULES, DECEIVE_RULES } from "./rules/deceive.ts";
import { ENCODED_RULES } from "./rules/encoded.ts";
import { FETCH_PAGE_RULES, FETCH_RULES } from "./rules/fetch.ts";
import { FILE_RULES } from "./rules/file.ts";
import { FLOW_RULES } from "./rules/flow.ts";
import { GATHER_PAGE_RULES, GATHER_RULES } from "./rules/gather.ts";
import { HARM_PAGE_RULES, HARM_RULES } from "./rules/harm.ts";
import { HIDDEN_RULES } from "./rules/hidden.ts";
import { INSTALL_PAGE_RULES, INSTALL_RULES } from "./rules/install.ts";
import { LEAK_RULES } from "./rules/leak.ts";
import { OBSCURE_RULES } from "./rules/obscure.ts";
import { OVERRIDE_RULES } from "./rules/override.ts";
import { PACKAGE_RULES } from "./rules/packages.ts";
import { PERSIST_RULES } from "./rules/persist.ts";
import { SECRET_RULES } from "./rules/secrets.ts";
import { SKILL_WIDE_RULES } from "./rules/skill-wide.ts";
import { TAMPER_RULES } from "./rules/tamper.ts";
import { THEFT_RULES } from "./rules/theft.ts";
import { TOLD_RULES } from "./rules/told.ts";
import { WEAKEN_RULES } from "./rules/weaken.ts";

export const TEXT_RULES: readonly TextRule[] = [
  ...FETCH_RULES,
  ...INSTALL_RULES,
  ...SECRET_RULES,
  ...GATHER_RULES,
  ...ASKED_RULES,
  ...LEAK_RULES,
  ...DECEIVE_RULES,
  ...ENCODED_RULES,
  ...OBSCURE_RULES,
  ...OVERRIDE_RULES,
  ...CONCEAL_RULES,
  ...WEAKEN_RULES,
  ...PERSIST_RULES,
  ...HARM_RULES,
  ...PACKAGE_RULES,
  ...TAMPER_RULES,
  ...ABUSE_RULES,
];

export const PAGE_RULES: readonly PageRule[] = [
  ...FETCH_PAGE_RULES,
  ...FLOW_RULES,
  ...BEHAVIOR_PAGE_RULES,
  ...INSTALL_PAGE_RULES,
  ...THEFT_RULES,
  ...GATHER_PAGE_RULES,
  ...DECEIVE_PAGE_RULES,
  ...HARM_PAGE_RULES,
  ...ABUSE_PAGE_RULES,
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
  ...FLOW_RULES,
  ...BEHAVIOR_PAGE_RULES,
  ...INSTALL_RULES,
  ...INSTALL_PAGE_RULES,
  ...SECRET_RULES,
  ...THEFT_RULES,
  ...GATHER_RULES,
  ...GATHER_PAGE_RULES,
  ...ASKED_RULES,
  ...LEAK_RULES,
  ...DECEIVE_RULES,
  ...DECEIVE_PAGE_RULES,
  ...ENCODED_RULES,
  ENCODED_COMMAND,
  ...OBSCURE_RULES,
  ...OVERRIDE_RULES,
  ...CONCEAL_RULES,
  ...WEAKEN_RULES,
  ...PERSIST_RULES,
  ...HARM_RULES,
  ...HARM_PAGE_RULES,
  ...PACKAGE_RULES,
  ...TAMPER_RULES,
  ...ABUSE_RULES,
  ...ABUSE_PAGE_RULES,
  ...COMBINED_RULES,
  ...SKILL_WIDE_RULES,
  ...TOLD_RULES,
  ...FILE_RULES,
  PARTLY_READ,
];
