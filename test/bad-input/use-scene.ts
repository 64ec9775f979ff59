import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import type { Host } from "../../src/config/host.ts";
import { type Model, type ModelReply, type ModelRequest, NO_USAGE } from "../../src/host/model-contract.ts";
import type { Tool } from "../../src/skill/tool.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";

type Say = Partial<ModelReply> | ((request: ModelRequest) => Partial<ModelReply>);

export interface OddModel extends Model {
  /** Its requests, each as it was at that time. */
  readonly asked: ModelRequest[];
}

/** A model of the host: content that a provider's SDK would refuse passes. The last turn is repeated. */
export function oddModel(...words: readonly Say[]): OddModel {
  const asked: ModelRequest[] = [];
  return {
    name: "odd",
    asked,
    async respond(request) {
      asked.push({ ...request, messages: [...request.messages] });
      const word = words[Math.min(asked.length, words.length) - 1] ?? {};
      return {
        text: "",
        calls: [],
        usage: NO_USAGE,
        finish: "stop",
        ...(typeof word === "function" ? word(request) : word),
      };
    },
  };
}

/** One call, then an answer. */
export function callsOnce(tool: string, input: unknown): OddModel {
  return oddModel({ calls: [{ id: "1", tool, input }] }, { text: "end" });
}

export function hostWith(model: Model, more: Partial<Host> = {}): Partial<Host> {
  return { models: { default: model }, hasBuiltInTools: false, ...more };
}

export function toolOf(name: string, execute: (input: unknown) => unknown): Tool {
  return {
    name,
    description: `Does ${name}.`,
    category: "mine",
    inputSchema: { type: "object", properties: {} },
    execute: execute as Tool["execute"],
  };
}

/** The text of the latest results that a model received. */
export function resultsFor({ asked }: OddModel): string[] {
  const last = asked.at(-1)?.messages.findLast(({ role }) => role === "tool");
  return last?.role === "tool" ? last.results.map(({ content }) => content) : [];
}

export function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = { a: value };
  return value;
}

export const KEY = "key-abcdef-123";

/** An OpenAI-compatible server that answers as scripted; with the skill `x` that uses it. */
export async function oddServer(answer: RequestListener, more = ""): Promise<Scene> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return discoverIn({
    "home/.skillet/skills/x/SKILL.md": skillText("x", { more }),
    "home/.skillet/config.toml": `[models.default]\nprovider = "openai-compatible"\nmodel = "m"\nbase_url = "${url}"\napi_key = "${KEY}"\nretries = 1\n`,
  });
}

/** One chunk of a stream in OpenAI's protocol. */
export function piece(delta: object, finish: string | null = null): string {
  return `data: ${JSON.stringify({ id: "1", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
}
