import { chmodSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Mount, Sandbox } from "../host/sandbox-contract.ts";
import { packageVersion } from "../package.ts";
import { makeReadableFolder } from "../sandbox/sandbox-folders.ts";
import { readRegularText } from "../util/file-access.ts";
import { shortHash } from "../util/text.ts";
import {
  BROKER_PROTOCOL_VERSION,
  CAPABILITY_SOCKET,
  MAX_BROKER_REQUEST_BYTES,
  SOCKET_VARIABLE,
  TOKEN_VARIABLE,
} from "./broker-protocol.ts";
import type { SandboxProgramSettings } from "./sb-program.ts";
import { ARGUMENT_PARSER_SOURCE, OUTPUT_FORMATTER_SOURCE, PROGRAM_SOURCE } from "./sb-source.ts";

/** What the command is called in a sandbox. */
const COMMAND_NAMES = ["skillet-sb", "ash-sb"] as const;

const PROGRAM_FOLDER = "/opt/skillet/bin";

/** In bytes: what code in a sandbox takes from its broker. */
export const MAX_BROKER_ANSWER_BYTES = 8 * 1024 * 1024;

/**
 * Puts the command where code may read it, and says how a sandbox gets it. Where paths are not mapped, the folder of the `from` paths is
 * one for PATH. What is not as it was written is written anew: there, nothing keeps code from changing it.
 */
export function prepareCommandMounts(folder: string, { mapsPaths }: Pick<Sandbox, "mapsPaths">): Mount[] {
  const text = formatSandboxCommand(mapsPaths ? {} : { node: process.execPath });
  const place = join(folder, "furniture", `command-${shortHash(text)}`);
  return COMMAND_NAMES.map((name) => {
    const file = join(place, name);
    if (readProgramText(file) !== text) writeProgram(file, text);
    return { from: file, to: `${PROGRAM_FOLDER}/${name}`, access: "read" };
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
export function formatSandboxCommand({
  node = `${PROGRAM_FOLDER}/node`,
  patience = 900,
}: SandboxCommandOptions = {}): string {
  const given: SandboxProgramSettings = {
    version: packageVersion(),
    protocol: BROKER_PROTOCOL_VERSION,
    socket: CAPABILITY_SOCKET,
    ...{ socketVariable: SOCKET_VARIABLE, tokenVariable: TOKEN_VARIABLE },
    ...{ largestRequest: MAX_BROKER_REQUEST_BYTES, largestAnswer: MAX_BROKER_ANSWER_BYTES, patience },
  };
  const quoted = `'${node.replaceAll("'", "'\\''")}'`;
  const start = `for node in ${quoted} node; do command -v "$node" >/dev/null && exec "$node" --v8-pool-size=0 "$0" "$@"; done`;
  const parts = [JSON.stringify(given), LOAD_EXPRESSION, "process", ARGUMENT_PARSER_SOURCE, OUTPUT_FORMATTER_SOURCE];
  return `#!/bin/sh
':' //; ${start}; echo "${NO_NODE_MESSAGE}" >&2; exit 1
"use strict";
(${PROGRAM_SOURCE})(${parts.join(", ")});
`;
}

const NO_NODE_MESSAGE =
  "skillet-sb needs Node, and there is none here: the operator can choose an image that has node in its PATH";

// Also where a package.json above makes a module of the other kind of it.
const LOAD_EXPRESSION = `typeof require === "function" ? require : process.getBuiltinModule`;

function readProgramText(file: string): string | undefined {
  try {
    return readRegularText(file);
  } catch {
    return undefined;
  }
}

function writeProgram(file: string, text: string): void {
  makeReadableFolder(dirname(file));
  writeFileSync(`${file}.${process.pid}`, text);
  chmodSync(`${file}.${process.pid}`, 0o755);
  renameSync(`${file}.${process.pid}`, file);
}
