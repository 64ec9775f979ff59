import { isJSONRPCResultResponse, type JSONRPCMessage, type McpServer } from "@modelcontextprotocol/server";
import { HOOK_FORMATS, type HookFormat, readHookInput, writeHookAnswer } from "../session/prompt-hooks.ts";
import type { Session } from "../session/session.ts";
import { skillTool as tool } from "../session/skill-tool.ts";
import { defined } from "../shared/defined.ts";
import type { Tool } from "../skill/tool.ts";

/** The clients whose hooks call tools of MCP servers, by the names that they give themselves. */
const HOOK_CALLERS: readonly { name: RegExp; format: HookFormat }[] = [
  { name: /^claude/i, format: HOOK_FORMATS.claude },
  { name: /^codex/i, format: HOOK_FORMATS.codex },
];

/** Answers a client's prompt hook in the client's own format. A problem gives the answer that adds nothing: a hook that fails may block the prompt. */
export function adviseTool(session: Session, clientName: () => string | undefined): Tool {
  return tool(
    "advise",
    "For prompt hooks only: the client calls it with each prompt. Do not call it.",
    {
      prompt: { type: "string", says: "the user's prompt" },
      session_id: { type: "string", says: "the conversation" },
      source: { type: "string", says: "who wrote the prompt" },
      hook_event_name: { type: "string", says: "the event" },
    },
    async (sent) => {
      const format = formatFor(clientName()) ?? HOOK_FORMATS.claude;
      const { limit, counts, gives } = format;
      try {
        const { prompt = "", conversation, isSummarized } = readHookInput(format, sent) ?? {};
        const more = defined({ conversation, isSummarized });
        const advice = await session.advise(prompt, { limit, counts, gives, ...more });
        return { content: JSON.stringify(writeHookAnswer(format, advice.text)), isError: false };
      } catch {
        return { content: JSON.stringify(format.neutral), isError: false };
      }
    },
  );
}

function formatFor(client = ""): HookFormat | undefined {
  return HOOK_CALLERS.find(({ name }) => name.test(client))?.format;
}

/** Leaves tools for hooks out of the lists that other clients receive: their models would only pay for them. They can call them all the same. */
export function hideHookTools(
  mcp: McpServer,
  clientName: () => string | undefined,
  isForHooks: (tool: unknown) => boolean,
): void {
  const connect = mcp.connect.bind(mcp);
  mcp.connect = (transport) => {
    const send = transport.send.bind(transport);
    transport.send = (message, options) =>
      send(formatFor(clientName()) ? message : withoutTools(message, isForHooks), options);
    return connect(transport);
  };
}

function withoutTools(message: JSONRPCMessage, isLeftOut: (tool: unknown) => boolean): JSONRPCMessage {
  if (!isJSONRPCResultResponse(message) || !Array.isArray(message.result["tools"])) return message;
  const tools = message.result["tools"].filter(({ name }) => !isLeftOut(name));
  return { ...message, result: { ...message.result, tools } };
}
