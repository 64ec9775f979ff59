import { StringDecoder } from "node:string_decoder";
import type { OutputStream } from "../host/sandbox.ts";
import { openRedactor, type Secrets } from "../shared/redact.ts";

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
  secrets: Secrets,
  onText: (stream: OutputStream, text: string) => void,
): Collector {
  const channels = { stdout: channel(secrets), stderr: channel(secrets) };
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
      const { redactor, decoder } = channels[stream];
      add(stream, decoder.write(redactor.push(bytes)));
      return !isTruncated;
    },
    end({ isCut }) {
      for (const stream of ["stdout", "stderr"] as const) {
        const { redactor, decoder } = channels[stream];
        add(stream, decoder.write(redactor.end({ isCut })) + decoder.end());
      }
      return { stdout: channels.stdout.text.join(""), stderr: channels.stderr.text.join(""), isTruncated };
    },
  };
}

function channel(secrets: Secrets) {
  return { redactor: openRedactor(secrets), decoder: new StringDecoder("utf8"), text: [] as string[] };
}

/** The beginning of a text that is at most so many bytes, without half a character at its end. */
function cut(text: string, bytes: number): string {
  const part = Buffer.from(text).subarray(0, bytes);
  return new StringDecoder("utf8").write(part);
}
