import type { ScanRule, SourceRule, TextRule } from "./rule.ts";
import { SIGNAL_RULES } from "./rules/combined-signals.ts";
import { CONCEALMENT_RULES, INVISIBLE_TEXT_RULES } from "./rules/concealment.ts";
import {
  CREDENTIAL_ACCESS_RULES,
  CREDENTIAL_COLLECTION_RULES,
  CREDENTIAL_COLLECTION_SOURCE_RULES,
} from "./rules/credential-access.ts";
import { CROSS_FILE_RULES } from "./rules/cross-file.ts";
import { DANGEROUS_COMMAND_RULES, DANGEROUS_COMMAND_SOURCE_RULES } from "./rules/dangerous-commands.ts";
import { DECEPTION_RULES, DECEPTION_SOURCE_RULES, DISGUISED_FILE_RULES } from "./rules/deception.ts";
import { TAMPERING_RULES, WEAKENED_CHECK_RULES } from "./rules/defense-evasion.ts";
import { DOWNLOAD_RULES, DOWNLOAD_SOURCE_RULES, DYNAMIC_EXECUTION_RULES } from "./rules/dynamic-execution.ts";
import { EXFILTRATION_RULES, EXFILTRATION_SOURCE_RULES } from "./rules/exfiltration.ts";
import { HARMFUL_CODE_RULES, USER_ABUSE_SOURCE_RULES } from "./rules/harmful-code.ts";
import { MANIFEST_MISMATCH_RULES } from "./rules/manifest-mismatch.ts";
import { ENCODED_COMMAND_RULE, ENCODING_RULES, OBFUSCATION_RULES } from "./rules/obfuscation.ts";
import { PERSISTENCE_RULES } from "./rules/persistence.ts";
import { DATA_REQUEST_RULES, INSTRUCTION_OVERRIDE_RULES } from "./rules/prompt-injection.ts";
import { INSTALL_RULES, INSTALL_SOURCE_RULES, PACKAGE_RULES } from "./rules/supply-chain.ts";
import { USER_ABUSE_RULES } from "./rules/user-abuse.ts";

export const TEXT_RULES: readonly TextRule[] = [
  ...DOWNLOAD_RULES,
  ...INSTALL_RULES,
  ...CREDENTIAL_ACCESS_RULES,
  ...CREDENTIAL_COLLECTION_RULES,
  ...DATA_REQUEST_RULES,
  ...EXFILTRATION_RULES,
  ...DECEPTION_RULES,
  ...ENCODING_RULES,
  ...OBFUSCATION_RULES,
  ...INSTRUCTION_OVERRIDE_RULES,
  ...CONCEALMENT_RULES,
  ...WEAKENED_CHECK_RULES,
  ...PERSISTENCE_RULES,
  ...DANGEROUS_COMMAND_RULES,
  ...PACKAGE_RULES,
  ...TAMPERING_RULES,
  ...USER_ABUSE_RULES,
];

export const SOURCE_RULES: readonly SourceRule[] = [
  ...DOWNLOAD_SOURCE_RULES,
  ...DYNAMIC_EXECUTION_RULES,
  ...HARMFUL_CODE_RULES,
  ...INSTALL_SOURCE_RULES,
  ...EXFILTRATION_SOURCE_RULES,
  ...CREDENTIAL_COLLECTION_SOURCE_RULES,
  ...DECEPTION_SOURCE_RULES,
  ...DANGEROUS_COMMAND_SOURCE_RULES,
  ...USER_ABUSE_SOURCE_RULES,
];

export const PARTLY_READ_RULE: ScanRule = {
  id: "partly-read",
  weight: "low",
  title: "has a file that was scanned only in part",
  why: "The rest of the file was not scanned.",
  fix: "read the rest yourself; a skill rarely needs files that large",
};

/** All rules, in the order of their families. */
export const SCAN_RULES: readonly ScanRule[] = [
  ...INVISIBLE_TEXT_RULES,
  ...DOWNLOAD_RULES,
  ...DOWNLOAD_SOURCE_RULES,
  ...DYNAMIC_EXECUTION_RULES,
  ...HARMFUL_CODE_RULES,
  ...INSTALL_RULES,
  ...INSTALL_SOURCE_RULES,
  ...CREDENTIAL_ACCESS_RULES,
  ...EXFILTRATION_SOURCE_RULES,
  ...CREDENTIAL_COLLECTION_RULES,
  ...CREDENTIAL_COLLECTION_SOURCE_RULES,
  ...DATA_REQUEST_RULES,
  ...EXFILTRATION_RULES,
  ...DECEPTION_RULES,
  ...DECEPTION_SOURCE_RULES,
  ...ENCODING_RULES,
  ENCODED_COMMAND_RULE,
  ...OBFUSCATION_RULES,
  ...INSTRUCTION_OVERRIDE_RULES,
  ...CONCEALMENT_RULES,
  ...WEAKENED_CHECK_RULES,
  ...PERSISTENCE_RULES,
  ...DANGEROUS_COMMAND_RULES,
  ...DANGEROUS_COMMAND_SOURCE_RULES,
  ...PACKAGE_RULES,
  ...TAMPERING_RULES,
  ...USER_ABUSE_RULES,
  ...USER_ABUSE_SOURCE_RULES,
  ...SIGNAL_RULES,
  ...CROSS_FILE_RULES,
  ...MANIFEST_MISMATCH_RULES,
  ...DISGUISED_FILE_RULES,
  PARTLY_READ_RULE,
];
