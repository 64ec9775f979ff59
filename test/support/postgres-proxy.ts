import { rmSync } from "node:fs";
import { createServer, Socket } from "node:net";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { temporaryFolder } from "./folder.ts";
import type { PostgresServer } from "./postgres.ts";

/** A socket between a program and the server, which loses answers or stops passing data. */
export interface PostgresProxy {
  urlOf(url: string): string;
  /** Closes the connection instead of passing the next answer to a statement with this text. The server has run the statement. */
  loseAnswerTo(statement: string): void;
  /** Passes this number of messages of programs, and closes the connection of the last one instead of passing its answer. */
  breakAfter(messages: number): void;
  /** The number of messages since `breakAfter`. */
  readonly messages: number;
  /** Passes no data, and closes nothing, as a cut cable does. */
  cut(): void;
  /** Passes data again on new connections. */
  restore(): void;
  /** The number of statements and transactions that the server has answered. */
  readonly answers: number;
  readonly lost: number;
}

/** `ReadyForQuery`: the server ends each answer with it. */
const READY = 0x5a;

export async function startPostgresProxy(server: PostgresServer): Promise<PostgresProxy> {
  const folder = temporaryFolder();
  const state = {
    answers: 0,
    lost: 0,
    isCut: false,
    messages: 0,
    breakAt: 0,
    statement: undefined as string | undefined,
  };
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    // Connected with the first data: a starting server that gets a connection and no data waits a minute for it before it can stop.
    const upstream = new Socket();
    const framer = createFramer();
    let isArmed = false;
    let rest = Buffer.alloc(0);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        if (state.isCut) return;
        client.destroy();
        upstream.destroy();
      });
    }
    client.on("data", (bytes) => {
      if (state.isCut) return;
      const text = bytes.toString("latin1");
      if (state.statement !== undefined && text.includes(state.statement)) {
        isArmed = true;
        state.statement = undefined;
      }
      if (upstream.pending && !upstream.connecting) upstream.connect(join(server.folder, ".s.PGSQL.5432"));
      for (const message of framer.take(bytes)) {
        upstream.write(message.bytes);
        if (message.isStartup || ++state.messages !== state.breakAt) continue;
        // The server executes what it received; the program gets no answer.
        upstream.end();
        client.destroy();
        return;
      }
    });
    upstream.on("data", (bytes) => {
      if (state.isCut) return;
      if (isArmed) {
        state.lost++;
        client.destroy();
        upstream.destroy();
        return;
      }
      rest = Buffer.concat([rest, bytes]);
      while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
        if (rest[0] === READY) state.answers++;
        rest = rest.subarray(1 + rest.readUInt32BE(1));
      }
      client.write(bytes);
    });
  });
  const path = join(folder, ".s.PGSQL.5432");
  await new Promise<void>((resolve) => proxy.listen(path, resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    proxy.close();
    rmSync(path, { force: true });
  });
  return {
    urlOf: (url) => {
      const changed = new URL(url);
      changed.searchParams.set("host", folder);
      return changed.href;
    },
    loseAnswerTo: (statement) => {
      state.statement = statement;
    },
    breakAfter: (messages) => {
      state.messages = 0;
      state.breakAt = messages;
    },
    get messages() {
      return state.messages;
    },
    cut: () => {
      state.isCut = true;
    },
    restore: () => {
      state.isCut = false;
      for (const socket of sockets) socket.destroy();
    },
    get answers() {
      return state.answers;
    },
    get lost() {
      return state.lost;
    },
  };
}

/** Splits a program's bytes into messages: a length, after a type in all except the first one. */
function createFramer() {
  let [rest, isStarted] = [Buffer.alloc(0), false];
  return {
    take(bytes: Buffer): { bytes: Buffer; isStartup: boolean }[] {
      rest = Buffer.concat([rest, bytes]);
      const messages: { bytes: Buffer; isStartup: boolean }[] = [];
      for (;;) {
        const header = isStarted ? 1 : 0;
        const length = rest.length < header + 4 ? Number.POSITIVE_INFINITY : header + rest.readUInt32BE(header);
        if (rest.length < length) return messages;
        messages.push({ bytes: rest.subarray(0, length), isStartup: !isStarted });
        rest = rest.subarray(length);
        isStarted = true;
      }
    },
  };
}
