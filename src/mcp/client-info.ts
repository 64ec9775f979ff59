import {
  CLIENT_INFO_META_KEY,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type JSONRPCRequest,
  type McpServer,
} from "@modelcontextprotocol/server";

export interface ClientFollower {
  /** Called with each name by which the client announces itself, before its request is handled. */
  onClient(name: string): void;
  /** Called before a list of tools is made. */
  onList(): void;
  /** Returns the instructions for the client that has announced itself. */
  instructions(): string;
}

/**
 * Gives a server instructions that depend on the client. The SDK takes one text when a server is made; the client announces itself
 * afterwards, in `initialize` or, since the revision 2026-07-28, in every request.
 */
export function followClient(mcp: McpServer, { onClient, onList, instructions }: ClientFollower): void {
  const connect = mcp.connect.bind(mcp);
  mcp.connect = (transport) => {
    const { onmessage } = transport;
    const send = transport.send.bind(transport);
    const opening = new Set<JSONRPCRequest["id"]>();
    // The SDK calls the handler that it finds before its own.
    transport.onmessage = (message, extra) => {
      onmessage?.(message, extra);
      if (!isJSONRPCRequest(message)) return;
      const name = clientName(message);
      if (name !== undefined) onClient(name);
      if (OPENING.includes(message.method)) opening.add(message.id);
      if (message.method === "tools/list") onList();
    };
    const withInstructions = (message: JSONRPCMessage): JSONRPCMessage => {
      if (!isJSONRPCResultResponse(message) || !opening.delete(message.id)) return message;
      return { ...message, result: { ...message.result, instructions: instructions() } };
    };
    transport.send = (message, options) => send(withInstructions(message), options);
    return connect(transport);
  };
}

const OPENING = ["initialize", "server/discover"];

function clientName({ params }: JSONRPCRequest): string | undefined {
  const { clientInfo, _meta } = Object(params) as { clientInfo?: unknown; _meta?: Record<string, unknown> };
  const { name } = Object(clientInfo ?? _meta?.[CLIENT_INFO_META_KEY]) as { name?: unknown };
  return typeof name === "string" ? name : undefined;
}
