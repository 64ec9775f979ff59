/** Capabilities: the vault, the audit log and the providers of a host. */

export type {
  Audit,
  AuditEntry,
  AuditLine,
  AuditVerdict,
  Capabilities,
  CapabilityProvider,
  Credential,
  Vault,
  VaultEntry,
} from "../host/capability-contract.ts";
export { type AuditSnapshot, chainAuditEntry, createAuditLog, verifyAudit } from "./audit-log.ts";
export { type CapabilityOptions, createCapabilities } from "./configured-capabilities.ts";
export { createVault } from "./credential-vault.ts";
