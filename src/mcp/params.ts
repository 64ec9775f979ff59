import {
  isJSONRPCErrorResponse,
  type JSONRPCMessage,
  type McpServer,
  ProtocolErrorCode,
} from "@modelcontextprotocol/server";
import { oneLine } from "../shared/text.ts";

/** Returns why a tool is gone that a client may still have on its list. */
type Revocation = (tool: string) => { code: string; message: string; fix: string } | undefined;

/**
 * Answers wrong params with -32602 and a sentence: the SDK says "internal error", and gives its validator's whole report. Of a tool that
 * is gone it says only that there is none.
 */
export function sayInvalidParams(mcp: McpServer, revocationOf: Revocation): void {
  const connect = mcp.connect.bind(mcp);
  mcp.connect = (transport) => {
    const send = transport.send.bind(transport);
    transport.send = (message, options) => send(mended(message, revocationOf), options);
    return connect(transport);
  };
}

function mended(sent: JSONRPCMessage, revocationOf: Revocation): JSONRPCMessage {
  if (!isJSONRPCErrorResponse(sent)) return sent;
  const message = { ...sent, error: { ...sent.error, message: asUnknown(sent.error.message) } };
  const [, gone] = /^Tool (.+) not found$/.exec(message.error.message) ?? [];
  const revoked = gone === undefined ? undefined : revocationOf(gone);
  if (revoked) {
    const { code, message: why, fix } = revoked;
    const data = { "skillet/code": code };
    return { ...message, error: { ...message.error, message: oneLine(`${why}: ${fix}`, 300), data } };
  }
  const complaint = complaintIn(message.error.message);
  if (complaint === undefined) return message;
  const error = { code: ProtocolErrorCode.InvalidParams, message: `Invalid params: ${oneLine(complaint, 300)}` };
  return { ...message, error };
}

/** The SDK looks names up in plain objects, and finds what every object has: `constructor` is as unknown as any other name. */
function asUnknown(text: string): string {
  const [, kind, name = ""] = /^(Tool|Prompt) (.+) disabled$/.exec(text) ?? [];
  return kind !== undefined && name in Object.prototype ? `${kind} ${name} not found` : text;
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
