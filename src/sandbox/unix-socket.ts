import { chmod, chown, mkdtemp, rm } from "node:fs/promises";
import type { Server } from "node:net";
import { join } from "node:path";
import { SkillError } from "../shared/error.ts";

export interface UnixSocketOptions {
  /** Where the socket's own folder is made, which none but its owner can enter. Short: a socket's path has 107 bytes at most. */
  folder: string;
  /** Whose the socket is, where the sandbox runs as somebody else. */
  owner?: { uid: number; gid: number };
  /** 0666 for a container, whose users have other numbers outside. */
  socketMode?: number;
}

export interface UnixSocket {
  path: string;
  /** Contract: the socket is gone when it resolves. It waits for connections, which are the caller's to end. */
  close(): Promise<void>;
}

/** Lets a server listen on a socket that one sandbox is given, and nobody else. */
export async function listenAlone(server: Server, name: string, options: UnixSocketOptions): Promise<UnixSocket> {
  const folder = await mkdtemp(join(options.folder, `skillet-${name}-`));
  const path = join(folder, `${name}.sock`);
  const close = async () => {
    await new Promise<void>((resolve) => server.close(() => resolve()));
    await rm(folder, { recursive: true, force: true });
  };
  try {
    if (Buffer.byteLength(path) > MOST_PATH_BYTES) throw tooLong(path);
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

const MOST_PATH_BYTES = process.platform === "darwin" ? 103 : 107;

function tooLong(path: string): SkillError {
  return new SkillError("socket-path", {
    message: `The path of a socket has ${MOST_PATH_BYTES} bytes at most, and ${path} has more`,
    fix: "set TMPDIR to a shorter folder",
  });
}
