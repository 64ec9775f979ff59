import type { Duplex } from "node:stream";
import { LARGEST_FRAME } from "./protocol.ts";

/** How long a request may take to arrive. An answer may take as long as it needs. */
const PATIENCE_MS = 10_000;

const GRACE_MS = 2000;

/** What came in place of a request. */
export type Unread = "frame-too-large" | "frame-timeout" | "frame-cut";

/** Reads one line of a connection, answers it with one, and closes. Contract: `answer` does not throw. */
export function answerOnce(
  connection: Duplex,
  answer: (line: string | { unread: Unread }) => Promise<string>,
  patienceMs = PATIENCE_MS,
): void {
  const pieces: Buffer[] = [];
  let size = 0;
  let isRead = false;
  const done = (line: string | { unread: Unread }) => {
    if (isRead) return;
    isRead = true;
    clearTimeout(timer);
    connection.removeAllListeners("data");
    connection.resume(); // What else is sent is nobody's.
    void answer(line).then((reply) => {
      if (connection.destroyed) return;
      // Who reads slowly gets the whole of it, for as long as the door is open; who goes on sending is not listened to.
      connection.end(reply, () => setTimeout(() => connection.destroy(), GRACE_MS).unref());
    });
  };
  const timer = setTimeout(() => done({ unread: "frame-timeout" }), patienceMs);
  timer.unref();
  connection.on("data", (bytes: Buffer) => {
    const end = bytes.indexOf(10);
    pieces.push(end === -1 ? bytes : bytes.subarray(0, end));
    size += pieces.at(-1)?.length ?? 0;
    if (size > LARGEST_FRAME) done({ unread: "frame-too-large" });
    else if (end !== -1) done(Buffer.concat(pieces).toString());
  });
  connection.once("end", () => (size === 0 ? done({ unread: "frame-cut" }) : done(Buffer.concat(pieces).toString())));
  connection.once("close", () => {
    clearTimeout(timer);
    isRead = true;
  });
}
