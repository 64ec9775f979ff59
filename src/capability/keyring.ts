import { existsSync } from "node:fs";
import { join } from "node:path";
import { systemProgram } from "../host/programs.ts";
import { askProgram } from "../sandbox/ask-program.ts";
import { defined } from "../shared/defined.ts";

/** Where the system keeps secrets of its users. */
export interface Keyring {
  /** What it is called, for people. */
  readonly name: string;
  /** Nothing when it has none of this name, is locked, or does not answer. */
  get(id: string): string | undefined;
  /** Contract: whether it has it is known by asking again. */
  set(id: string, secret: string): void;
}

type Env = Readonly<Record<string, string | undefined>>;
type Find = (name: string) => string | undefined;

/** The one of this machine. Nothing where there is none, or nobody's session that it belongs to. */
export function openKeyring(
  env: Env,
  platform: NodeJS.Platform = process.platform,
  find: Find = systemProgram,
): Keyring | undefined {
  const { program, isUsable, ways } = KEYRINGS[platform] ?? {};
  const file = program !== undefined && isUsable?.(env) ? find(program) : undefined;
  return file === undefined || ways === undefined ? undefined : ways(file, passedOn(env));
}

interface Kind {
  program: string;
  isUsable(env: Env): boolean;
  ways(file: string, env: Record<string, string>): Keyring;
}

const KEYRINGS: { [Platform in NodeJS.Platform]?: Kind } = {
  linux: {
    program: "secret-tool",
    // Without a bus it would try to start one, and wait.
    isUsable: (env) =>
      Boolean(env["DBUS_SESSION_BUS_ADDRESS"]) || existsSync(join(env["XDG_RUNTIME_DIR"] || "/nonexistent", "bus")),
    ways: (file, env) => ({
      name: "the keyring (secret-tool)",
      get: (id) => answer(askProgram({ file, env, args: ["lookup", "skillet-vault", id] })),
      set: (id, secret) => {
        const args = ["store", "--label=skillet vault", "skillet-vault", id];
        askProgram({ file, env, args, input: secret });
      },
    }),
  },
  darwin: {
    program: "security",
    isUsable: () => true,
    // As commands on its stdin: given as an argument, everybody on the machine could see the key while it runs. Any program of the user's
    // can ask the same `security` for it afterwards.
    ways: (file, env) => ({
      name: "the login keychain (security)",
      get: (id) =>
        answer(askProgram({ file, env, args: ["find-generic-password", "-s", "skillet-vault", "-a", id, "-w"] })),
      set: (id, secret) => {
        const command = `add-generic-password -U -s skillet-vault -a ${id} -w ${secret}\n`;
        askProgram({ file, env, args: ["-i"], input: command });
      },
    }),
  },
};

const PASSED_ON = ["HOME", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"];

function passedOn(env: Env): Record<string, string> {
  return defined(Object.fromEntries(PASSED_ON.map((name) => [name, env[name]]))) as Record<string, string>;
}

function answer(text: string | undefined): string | undefined {
  return text?.trim() || undefined;
}
