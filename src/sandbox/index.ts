export {
  type Endpoint,
  FIXED_VARIABLES,
  ISOLATION_LEVELS,
  type Isolation,
  type IsolationLevel,
  type Mount,
  type ProcessEnding,
  type ProcessStream,
  type Sandbox,
  type SandboxCommand,
  type SandboxLimits,
  type SandboxOutcome,
  type SandboxRunOptions,
} from "../host/sandbox-contract.ts";
export { createNoSandbox, createSandbox, type SandboxOptions } from "./create-sandbox.ts";
export { type ProbeOptions, type ProbeResult, probeSandbox } from "./probes.ts";
