import { StringDecoder } from "node:string_decoder";
import type { OutputStream } from "../host/sandbox.ts";
import type { Hiding } from "../shared/redact.ts";

export interface Output {
  stdout: string;
  stderr: string;
  /** Whether there was more than is here. */
  isTruncated: boolean;
}

export interface Collector {
  /** Contract: false once there is more than fits. */
  take(stream: OutputStream, bytes: Buffer): boolean;
  end(options: { isCut: boolean }): Output;
}

/** Gathers what is printed: without secrets, as valid text, and at most `limit` bytes of both streams together. */
export function collectOutput(
  limit: number,
  hiding: Hiding,
  onText: (stream: OutputStream, text: string) => void,
): Collector {
  const channels = { stdout: channel(hiding), stderr: channel(hiding) };
  let room = limit;
  let isTruncated = false;
  const add = (stream: OutputStream, text: string) => {
    if (text === "" || isTruncated) return;
    const size = Buffer.byteLength(text);
    isTruncated = size > room;
    const kept = isTruncated ? cut(text, room) : text;
    room -= Math.min(size, room);
    channels[stream].text.push(kept);
    if (kept !== "") onText(stream, kept);
  };
  return {
    take(stream, bytes) {
      const { plain, redactor, decoder } = channels[stream];
      add(stream, decoder.write(redactor.push(plain.push(bytes))));
      return !isTruncated;
    },
    end({ isCut }) {
      for (const stream of ["stdout", "stderr"] as const) {
        const { plain, redactor, decoder } = channels[stream];
        const last = Buffer.concat([redactor.push(plain.end()), redactor.end({ isCut })]);
        add(stream, decoder.write(last) + decoder.end());
      }
      return { stdout: channels.stdout.text.join(""), stderr: channels.stderr.text.join(""), isTruncated };
    },
  };
}

/** Gathers bytes as they are, at most `limit`. */
export function collectBytes(limit: number) {
  const pieces: Buffer[] = [];
  let room = limit;
  let isTruncated = false;
  return {
    /** Contract: false once there is more than fits. */
    take(bytes: Buffer): boolean {
      isTruncated ||= bytes.length > room;
      const kept = bytes.subarray(0, room);
      pieces.push(Buffer.from(kept)); // The piece itself is used again for what comes next.
      room -= kept.length;
      return !isTruncated;
    },
    end: (): { bytes: Buffer; isTruncated: boolean } => ({ bytes: Buffer.concat(pieces), isTruncated }),
  };
}

function channel(hiding: Hiding) {
  return {
    plain: openPlain(),
    redactor: hiding.stream(),
    decoder: new StringDecoder("utf8"),
    text: [] as string[],
  };
}

/** Without colours, which are not shown: between the letters of a secret they would hide it from the redactor alone. */
function openPlain() {
  let held = "";
  return {
    push(bytes: Buffer): Buffer {
      if (held === "" && !bytes.includes(ESCAPE)) return bytes;
      const text = held + bytes.toString("latin1");
      const [open = ""] = /\x1b(?:\[[\d;]{0,60})?$/.exec(text) ?? [];
      held = open;
      return Buffer.from(text.slice(0, text.length - open.length).replace(/\x1b\[[\d;]*m/g, ""), "latin1");
    },
    end: () => Buffer.from(held, "latin1"),
  };
}

const ESCAPE = 0x1b;

/** The beginning of a text that is at most so many bytes, without half a character at its end. */
function cut(text: string, bytes: number): string {
  const part = Buffer.from(text).subarray(0, bytes);
  return new StringDecoder("utf8").write(part);
}
