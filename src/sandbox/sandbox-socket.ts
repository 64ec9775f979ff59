import { chmod, chown, mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import type { Mount, SandboxCommand, SandboxOutcome, SandboxSocket } from "../host/sandbox-contract.ts";

interface SandboxSocketOptions extends UnixSocketOptions {
  /** Whether the sandbox puts it where the door says; else the code is told where it really is. */
  mapsPaths: boolean;
}

/** Runs a command with its doors: a unix socket each, which is in this one sandbox, and gone when the command ends. */
export async function withSandboxSockets(
  command: SandboxCommand,
  options: SandboxSocketOptions,
  run: (command: SandboxCommand, sockets: readonly string[]) => Promise<SandboxOutcome>,
): Promise<SandboxOutcome> {
  const { doors = [] } = command;
  if (doors.length === 0) return run(command, []);
  const opened: OpenSandboxSocket[] = [];
  try {
    for (const door of doors) opened.push(await openSandboxSocket(door, options));
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

interface OpenSandboxSocket {
  door: SandboxSocket;
  socket: string;
  /** Contract: every connection is gone when it resolves, and the socket too. */
  close(): Promise<void>;
}

async function openSandboxSocket(door: SandboxSocket, options: SandboxSocketOptions): Promise<OpenSandboxSocket> {
  const connections = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (connection) => {
    connections.add(connection);
    connection.on("error", () => connection.destroy());
    connection.once("close", () => connections.delete(connection));
    door.onConnection(connection);
  });
  server.maxConnections = MAX_CONNECTIONS;
  const { path, close } = await listenOnPrivateSocket(server, "door", options);
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

const MAX_CONNECTIONS = 64;

export interface UnixSocketOptions {
  /** Where the socket's own folder is made, which none but its owner can enter. Short: a socket's path has 107 bytes at most. */
  folder: string;
  /** Whose the socket is, where the sandbox runs as somebody else. */
  owner?: { uid: number; gid: number };
  /** 0666 for a container, whose users have other numbers outside. */
  socketMode?: number;
}

interface UnixSocket {
  path: string;
  /** Contract: the socket is gone when it resolves. It waits for connections, which are the caller's to end. */
  close(): Promise<void>;
}

/** Lets a server listen on a socket that one sandbox is given, and nobody else. */
export async function listenOnPrivateSocket(
  server: Server,
  name: string,
  options: UnixSocketOptions,
): Promise<UnixSocket> {
  const folder = await mkdtemp(join(options.folder, `skillet-${name}-`));
  const path = join(folder, `${name}.sock`);
  const close = async () => {
    await new Promise<void>((resolve) => server.close(() => resolve()));
    await rm(folder, { recursive: true, force: true });
  };
  try {
    if (Buffer.byteLength(path) > MAX_PATH_BYTES) throw createPathLengthError(path);
    // The handler stays: a connection that cannot be accepted is an error too, and the run goes on.
    await new Promise<void>((resolve, reject) => server.on("error", reject).listen(path, resolve));
    // The folder is its owner's alone until here, so that nobody else can be first.
    await chmod(path, options.socketMode ?? 0o600);
    if (options.owner) {
      await chown(path, options.owner.uid, options.owner.gid);
      await chown(folder, options.owner.uid, options.owner.gid);
    }
    return { path, close };
  } catch (error) {
    await close();
    throw error;
  }
}

const MAX_PATH_BYTES = process.platform === "darwin" ? 103 : 107;

function createPathLengthError(path: string): SkillError {
  return new SkillError("socket-path", {
    message: `The path of a socket has ${MAX_PATH_BYTES} bytes at most, and ${path} has more`,
    fix: "set TMPDIR to a shorter folder",
  });
}
