export { SkillError } from "../errors/problem.ts";
export {
  type AuthCallback,
  type AuthChallenge,
  type AuthCompletion,
  type AuthRequest,
  type CapabilityDescription,
  type CapabilityProvider,
  type Credential,
  type OperationDescription,
  PROVIDER_ERROR_CODES,
  type ProviderAnswer,
  type ProviderAuth,
  type ProviderCall,
  type ProviderContext,
  type ProviderDescription,
  type ProviderHealth,
  type ProviderOptions,
} from "../host/capability-contract.ts";
export { checkProvider, type ProviderCheckOptions, type ProviderFinding } from "./check-provider.ts";
export {
  defineProvider,
  type OperationContext,
  type OperationDefinition,
  type ProviderDefinition,
  type ProviderStreams,
  serveProvider,
} from "./define-provider.ts";
