import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { SkillError } from "../shared/error.ts";
import type { Data } from "../skill/data.ts";

/** As much of `@anthropic-ai/claude-agent-sdk` as is used here. It is a package of its own, which whoever evaluates with it installs. */
export interface ClaudeSdk {
  query(request: { prompt: AsyncIterable<SdkUserMessage>; options?: SdkOptions }): SdkQuery;
}

/** What the user says. */
export interface SdkUserMessage {
  type: "user";
  message: { role: "user"; content: string };
  parent_tool_use_id: null;
}

export interface SdkQuery extends AsyncIterable<SdkMessage> {
  /** Ends what the model does. */
  interrupt?(): Promise<unknown>;
  /** Resolves when its process has ended. */
  return?(): Promise<unknown>;
}

/** One of many; read by its `type`. */
export interface SdkMessage {
  type: string;
}

/** What skillet tells it. */
// biome-ignore lint/suspicious/noExplicitAny: what the SDK takes is for it to say, and changes with its versions
export type SdkOptions = any;

/** A call that is about to be made, as its hook hears of it. */
export interface SdkCall {
  tool_name: string;
  tool_input: unknown;
  tool_use_id: string;
}

/** One end of what MCP's messages go through. */
export interface SdkTransport {
  onmessage?: (message: unknown) => void;
  start?(): Promise<void>;
  send(message: Data): Promise<void>;
}

const PACKAGE = "@anthropic-ai/claude-agent-sdk";

/** Loads it from beside skillet, or else from beside the working folder. Throws a SkillError that says how to install it. */
export async function loadClaudeSdk(cwd: string): Promise<ClaudeSdk> {
  const from = [import.meta.url, join(cwd, "package.json")];
  const found = from.map(resolveFrom).find((path) => path !== undefined);
  if (found === undefined) {
    throw new SkillError("claude-sdk-missing", {
      message: `${PACKAGE} is not installed`,
      fix: `run: npm install ${PACKAGE}`,
    });
  }
  try {
    return (await import(/* webpackIgnore: true */ /* @vite-ignore */ pathToFileURL(found).href)) as ClaudeSdk;
  } catch (cause) {
    throw new SkillError("claude-sdk-broken", {
      message: `${PACKAGE} in ${found} cannot be loaded`,
      fix: `install it again: npm install ${PACKAGE}`,
      cause,
    });
  }
}

// Bundlers that write CommonJS leave `import.meta.url` undefined.
function resolveFrom(file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    return createRequire(file).resolve(PACKAGE);
  } catch {
    return undefined;
  }
}
