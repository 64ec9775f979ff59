export * from "../host/sandbox.ts";
