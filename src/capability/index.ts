export type {
  AuthAnswer,
  AuthBegun,
  AuthCallback,
  AuthRequest,
  CapabilityDescription,
  CapabilityProvider,
  Credential,
  OperationDescription,
  ProviderAnswer,
  ProviderAuth,
  ProviderCall,
  ProviderContext,
  ProviderDescription,
  ProviderHealth,
  ProviderOptions,
} from "../host/capabilities.ts";
export { PROVIDER_CODES } from "../host/capabilities.ts";
export { SkillError } from "../shared/error.ts";
export { type CheckOptions, checkProvider, type ProviderFinding } from "./check-provider.ts";
export {
  defineProvider,
  type OperationContext,
  type OperationDefinition,
  type ProviderDefinition,
} from "./provider.ts";
export { type ServedBy, serveProvider } from "./serve-provider.ts";
