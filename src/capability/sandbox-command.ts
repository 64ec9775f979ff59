import { chmodSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Mount, Sandbox } from "../host/sandbox.ts";
import { packageVersion } from "../package.ts";
import { makeFolder } from "../sandbox/store.ts";
import { shortHash } from "../shared/hash.ts";
import { readRegularText } from "../shared/regular-file.ts";
import { CAPABILITY_SOCKET, LARGEST_FRAME, PROTOCOL, SOCKET_VARIABLE, TOKEN_VARIABLE } from "./protocol.ts";
import type { Given } from "./sandbox-program.ts";
import { PROGRAM, SPELLING, TELLING } from "./sandbox-text.ts";

/** What the command is called in a sandbox. */
const COMMAND_NAMES = ["skillet-sb", "ash-sb"] as const;

const PROGRAMS = "/opt/skillet/bin";

/** In bytes: what code in a sandbox takes from its broker. */
export const LARGEST_ANSWER = 8 * 1024 * 1024;

/**
 * Puts the command where code may read it, and says how a sandbox gets it. Where paths are not mapped, the folder of the `from` paths is
 * one for PATH. What is not as it was written is written anew: there, nothing keeps code from changing it.
 */
export function commandMounts(folder: string, { mapsPaths }: Pick<Sandbox, "mapsPaths">): Mount[] {
  const text = sandboxCommand(mapsPaths ? {} : { node: process.execPath });
  const place = join(folder, "furniture", `command-${shortHash(text)}`);
  return COMMAND_NAMES.map((name) => {
    const file = join(place, name);
    if (textOf(file) !== text) writeProgram(file, text);
    return { from: file, to: `${PROGRAMS}/${name}`, access: "read" };
  });
}

export interface SandboxCommandOptions {
  /** Where Node is looked for first; then in PATH, since an image has its own. */
  node?: string;
  /** How many seconds an answer may take. Providers have up to 300, and users think. */
  patience?: number;
}

/**
 * The command, in one text that needs nothing but Node. It begins as a script for the shell, which takes less than a millisecond: the
 * kernel would look for Node in one place only, and could not keep it from starting threads, which count against what a run may start.
 */
export function sandboxCommand({ node = `${PROGRAMS}/node`, patience = 900 }: SandboxCommandOptions = {}): string {
  const given: Given = {
    version: packageVersion(),
    protocol: PROTOCOL,
    socket: CAPABILITY_SOCKET,
    ...{ socketVariable: SOCKET_VARIABLE, tokenVariable: TOKEN_VARIABLE },
    ...{ largestRequest: LARGEST_FRAME, largestAnswer: LARGEST_ANSWER, patience },
  };
  const quoted = `'${node.replaceAll("'", "'\\''")}'`;
  const start = `for node in ${quoted} node; do command -v "$node" >/dev/null && exec "$node" --v8-pool-size=0 "$0" "$@"; done`;
  const parts = [JSON.stringify(given), LOAD, "process", SPELLING, TELLING];
  return `#!/bin/sh
':' //; ${start}; echo "${NO_NODE}" >&2; exit 1
"use strict";
(${PROGRAM})(${parts.join(", ")});
`;
}

const NO_NODE =
  "skillet-sb needs Node, and there is none here: the operator can choose an image that has node in its PATH";

// Also where a package.json above makes a module of the other kind of it.
const LOAD = `typeof require === "function" ? require : process.getBuiltinModule`;

function textOf(file: string): string | undefined {
  try {
    return readRegularText(file);
  } catch {
    return undefined;
  }
}

function writeProgram(file: string, text: string): void {
  makeFolder(dirname(file));
  writeFileSync(`${file}.${process.pid}`, text);
  chmodSync(`${file}.${process.pid}`, 0o755);
  renameSync(`${file}.${process.pid}`, file);
}
