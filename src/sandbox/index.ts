export { bareSandbox } from "./bare.ts";
export { openSandbox, type SandboxOptions } from "./open.ts";
export { type ProbeOptions, type ProbeResult, probeSandbox } from "./probes.ts";
