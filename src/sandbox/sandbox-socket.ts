import { chmod, chown, mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import type { Mount, SandboxCommand, SandboxOutcome, SandboxSocket } from "../host/sandbox-contract.ts";

interface SandboxSocketOptions extends UnixSocketOptions {
  /** True if the sandbox mounts the socket at its declared path; otherwise the code gets the real path. */
  mapsPaths: boolean;
}

/** A command with its sockets, until they are closed. */
export interface OpenedSandboxSockets {
  command: SandboxCommand;
  /** The paths of the sockets. */
  sockets: readonly string[];
  close(): Promise<void>;
}

/** Opens the sockets of a command. Each is a unix socket that exists only in this sandbox. */
export async function openSandboxSockets(
  command: SandboxCommand,
  options: SandboxSocketOptions,
): Promise<OpenedSandboxSockets> {
  const opened: OpenSandboxSocket[] = [];
  const close = async () => void (await Promise.all(opened.map((socket) => socket.close())));
  try {
    for (const definition of command.sockets ?? []) opened.push(await openSandboxSocket(definition, options));
  } catch (error) {
    await close();
    throw error;
  }
  if (opened.length === 0) return { command, sockets: [], close };
  const mounts = opened.map(({ socket, definition }): Mount => ({ from: socket, to: definition.path, access: "read" }));
  const env = opened.map(
    ({ socket, definition }) => [definition.variable, options.mapsPaths ? definition.path : socket] as const,
  );
  return {
    command: {
      ...command,
      mounts: [...command.mounts, ...mounts],
      env: { ...command.env, ...Object.fromEntries(env) },
    },
    sockets: opened.map(({ socket }) => socket),
    close,
  };
}

/** Runs a command with its sockets, until it ends. */
export async function withSandboxSockets(
  command: SandboxCommand,
  options: SandboxSocketOptions,
  run: (command: SandboxCommand, sockets: readonly string[]) => Promise<SandboxOutcome>,
): Promise<SandboxOutcome> {
  const opened = await openSandboxSockets(command, options);
  try {
    return await run(opened.command, opened.sockets);
  } finally {
    await opened.close();
  }
}

interface OpenSandboxSocket {
  definition: SandboxSocket;
  socket: string;
  /** Contract: all connections and the socket are gone when it resolves. */
  close(): Promise<void>;
}

async function openSandboxSocket(definition: SandboxSocket, options: SandboxSocketOptions): Promise<OpenSandboxSocket> {
  const connections = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (connection) => {
    connections.add(connection);
    connection.on("error", () => connection.destroy());
    connection.once("close", () => connections.delete(connection));
    definition.onConnection(connection);
  });
  server.maxConnections = MAX_CONNECTIONS;
  const { path, close } = await listenOnPrivateSocket(server, "door", options);
  return {
    definition,
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
  /**
   * The parent of the socket's folder, which only its owner can enter. Keep it short: a socket path has at most 107
   * bytes.
   */
  folder: string;
  /** The owner of the socket, if the sandbox runs as another user. */
  owner?: { uid: number; gid: number };
  /** 0666 for a container, whose users have other IDs outside. */
  socketMode?: number;
}

interface UnixSocket {
  path: string;
  /** Contract: the socket is gone when it resolves. It waits for open connections, which the caller must end. */
  close(): Promise<void>;
}

/** Makes a server listen on a socket that only one sandbox gets. */
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
    // The handler stays: a connection that cannot be accepted is an error too, and the run continues.
    await new Promise<void>((resolve, reject) => server.on("error", reject).listen(path, resolve));
    // Until here only its owner can enter the folder, so no other user can connect first.
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
    message: `The socket path ${path} is longer than ${MAX_PATH_BYTES} bytes`,
    fix: "set TMPDIR to a shorter folder",
  });
}
