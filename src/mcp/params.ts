import {
  isJSONRPCErrorResponse,
  type JSONRPCMessage,
  type McpServer,
  ProtocolErrorCode,
} from "@modelcontextprotocol/server";
import { oneLine } from "../shared/text.ts";

/** Answers wrong params with -32602 and a sentence: the SDK says "internal error", and gives its validator's whole report. */
export function sayInvalidParams(mcp: McpServer): void {
  const connect = mcp.connect.bind(mcp);
  mcp.connect = (transport) => {
    const send = transport.send.bind(transport);
    transport.send = (message, options) => send(mended(message), options);
    return connect(transport);
  };
}

function mended(message: JSONRPCMessage): JSONRPCMessage {
  if (!isJSONRPCErrorResponse(message)) return message;
  const complaint = complaintIn(message.error.message);
  if (complaint === undefined) return message;
  const error = { code: ProtocolErrorCode.InvalidParams, message: `Invalid params: ${oneLine(complaint, 300)}` };
  return { ...message, error };
}

/** The first one of a report on a request's params, which is a list of them as JSON. */
function complaintIn(text: string): string | undefined {
  const [, report] = /^(?:Invalid tools\/call request: )?(\[\s*\{.*\])$/s.exec(text) ?? [];
  if (report === undefined) return undefined;
  try {
    const [{ path, message }] = JSON.parse(report);
    return path[0] === "params" ? `${path.slice(1).join(".")}: ${message}` : undefined;
  } catch {
    return undefined;
  }
}
