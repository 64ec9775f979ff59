export { createSandbox, type SandboxOptions } from "./create-sandbox.ts";
export { createNoSandbox } from "./no-sandbox.ts";
export { type ProbeOptions, type ProbeResult, probeSandbox } from "./probes.ts";
