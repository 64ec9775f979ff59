export type { FindingWeight, ScanFinding, ScanSubject } from "../scan/rule.ts";
export { createScanSubject, scanFiles, scanSkill } from "../scan/scan.ts";
export type { LockDifference } from "../store/lock-diff.ts";
export {
  digestTree,
  formatLock,
  type LockedFile,
  type LockedSkill,
  parseLock,
  readFileTree,
} from "../store/lock-file.ts";
export { createSignerStore, type Signer, type SignerStore } from "../store/signers.ts";
export { type AddSkillsOptions, addSkills, type SourceChoice } from "./add.ts";
export { type Adoption, type AdoptSkillsOptions, adoptSkills } from "./adopt.ts";
export type {
  AdditionPlan,
  AdditionResult,
  PendingSkill,
  PlannedAddition,
  ReviewOptions,
} from "./apply-additions.ts";
export type { SourceAddress } from "./remote-source.ts";
export { checkSignature, type SignatureState, signSkill } from "./signature.ts";
export { type VerifyResult, verifySkills } from "./skills-dir.ts";
export { formatSourceAddress, parseSourceAddress } from "./source-address.ts";
