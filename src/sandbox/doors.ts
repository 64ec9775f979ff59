import { createServer, type Socket } from "node:net";
import type { Command, Door, Mount, Outcome } from "../host/sandbox.ts";
import { listenAlone, type UnixSocketOptions } from "./unix-socket.ts";

export interface DoorOptions extends UnixSocketOptions {
  /** Whether the sandbox puts it where the door says; else the code is told where it really is. */
  mapsPaths: boolean;
}

/** Runs a command with its doors: a unix socket each, which is in this one sandbox, and gone when the command ends. */
export async function withDoors(
  command: Command,
  options: DoorOptions,
  run: (command: Command, sockets: readonly string[]) => Promise<Outcome>,
): Promise<Outcome> {
  const { doors = [] } = command;
  if (doors.length === 0) return run(command, []);
  const opened: OpenDoor[] = [];
  try {
    for (const door of doors) opened.push(await openDoor(door, options));
    const mounts = opened.map(({ socket, door }): Mount => ({ from: socket, to: door.to, access: "read" }));
    const env = opened.map(({ socket, door }) => [door.variable, options.mapsPaths ? door.to : socket] as const);
    return await run(
      { ...command, mounts: [...command.mounts, ...mounts], env: { ...command.env, ...Object.fromEntries(env) } },
      opened.map(({ socket }) => socket),
    );
  } finally {
    await Promise.all(opened.map(({ close }) => close()));
  }
}

interface OpenDoor {
  door: Door;
  socket: string;
  /** Contract: every connection is gone when it resolves, and the socket too. */
  close(): Promise<void>;
}

async function openDoor(door: Door, options: DoorOptions): Promise<OpenDoor> {
  const connections = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (connection) => {
    connections.add(connection);
    connection.on("error", () => connection.destroy());
    connection.once("close", () => connections.delete(connection));
    door.onConnection(connection);
  });
  server.maxConnections = MOST_CONNECTIONS;
  const { path, close } = await listenAlone(server, "door", options);
  return {
    door,
    socket: path,
    async close() {
      const closed = close();
      for (const connection of connections) connection.destroy();
      await closed;
    },
  };
}

const MOST_CONNECTIONS = 64;
