import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import type { Duplex } from "node:stream";
import type { SandboxSocket } from "../../src/host/sandbox-contract.ts";
import type { Check, Scene } from "./scene.ts";

/** Answers with the received text, and the owner of the socket. */
const ASK = `const socket = require("node:net").connect(process.env.THE_DOOR);
  socket.on("data", (bytes) => process.stdout.write(bytes));
  socket.on("error", (error) => console.log(error.code));
  socket.end("hello\\n");`;

function door(name: string, onConnection = (connection: Duplex) => echo(connection, name)): SandboxSocket {
  return { path: "/run/skillet/door.sock", variable: "THE_DOOR", onConnection };
}

function echo(connection: Duplex, name: string): void {
  connection.once("data", (bytes: Buffer) => connection.end(`${name}: ${bytes}`));
}

/** The promises for sockets of a command. */
export const SOCKET_CHECKS: readonly Check[] = [
  {
    title: "[Q-20] gives each command its own socket to the host",
    level: "none",
    async check({ run, node }: Scene) {
      const both = ["one", "two"].map((name) => run([node, "-e", ASK], { sockets: [door(name)] }));
      assert.deepEqual(
        (await Promise.all(both)).map(({ stdout }) => stdout),
        ["one: hello\n", "two: hello\n"],
      );
    },
  },
  {
    title: "[Q-20] closes the socket when the command ends, even if a process survives",
    level: "none",
    async check({ run, node }: Scene) {
      const { promise: ended, resolve } = Promise.withResolvers<void>();
      const open = door("x", (connection) => connection.resume().once("close", resolve));
      const stay =
        'require("node:net").connect(process.env.THE_DOOR, () => process.exit(console.log(process.env.THE_DOOR)))';
      const ran = await run([node, "-e", stay], { sockets: [open] });
      await ended;
      assert.match(ran.stdout, /^\/.*\.sock\n$/);
      assert.equal(existsSync(ran.stdout.trim()), false);
    },
  },
];
