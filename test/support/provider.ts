import { join } from "node:path";
import { type CommandProviderOptions, createCommandProvider } from "../../src/capabilities/command-provider.ts";
import { defineProvider } from "../../src/capabilities/define-provider.ts";
import type { SkillError } from "../../src/errors/problem.ts";
import type { CapabilityProvider, ProviderCall } from "../../src/host/capability-contract.ts";
import { temporaryFolder } from "./folder.ts";

/** A provider whose program is this JavaScript: `request` is its input, `answer(result)` and `refuse(error)` print. */
export function createProgramProvider(source: string, more: Partial<CommandProviderOptions> = {}): CapabilityProvider {
  const folder = temporaryFolder({ "program.cjs": `${PRELUDE}\n${source}` });
  const command = [process.execPath, join(folder, "program.cjs")];
  return createCommandProvider({ namespace: "notes", command, env: {}, folder, seconds: 10, ...more });
}

const PRELUDE = `
const request = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const print = (value) => require("node:fs").writeSync(1, typeof value === "string" ? value : JSON.stringify(value));
const answer = (result) => print({ version: 1, id: request.id, ok: true, result });
const refuse = (error) => print({ version: 1, id: request.id, ok: false, error });
`;

/** A provider that serves one capability, and does nothing. */
export function createIdleProvider(namespace: string): CapabilityProvider {
  const operations = { get: { description: "Gives nothing.", input: { type: "object" }, execute: () => ({}) } };
  return defineProvider({ namespace, capabilities: { thing: { description: "A thing.", operations } } });
}

/** A call as the broker makes one. */
export function callOf(operation: string, input: unknown = {}, more: Partial<ProviderCall> = {}): ProviderCall {
  const context = {
    run: "run_1",
    skill: "note-taker",
    source: "user",
    user: "ada",
    chat: { id: "7", type: "private" },
  };
  return { capability: "notes.notes", operation, input, context, key: "key_1", ...more };
}

/** The signal of a call that is not aborted. */
export function createCallContext(): { signal: AbortSignal } {
  return { signal: new AbortController().signal };
}

/** Returns the error of a call that must fail. */
export async function catchProviderError(work: Promise<unknown>): Promise<SkillError> {
  try {
    await work;
  } catch (error) {
    return error as SkillError;
  }
  throw new Error("it did not fail");
}
