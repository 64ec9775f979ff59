import { existsSync } from "node:fs";
import type { ErrorCode } from "../../codes/codes.ts";
import { SkillError } from "../../shared/error.ts";
import type { Secrets } from "../../shared/redact.ts";
import { skilletHome, userHome } from "../home.ts";
import type { Host } from "../host.ts";
import { resolved } from "../reference.ts";
import type { McpSettings } from "../settings.ts";

/** How a server is reached, with all values in place. */
export type Launch = { name: string; seconds: number } & (Program | Address);

interface Program {
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  /** Never the workspace: what lies there could be started in place of what was meant. */
  folder: string;
}

interface Address {
  url: string;
  token: string | undefined;
}

/** What values of the configuration are resolved with. */
export type LaunchContext = Pick<Host, "home" | "env">;

const SECONDS = 60;

/** Throws a SkillError when it is configured as none can be. */
export function launchOf(name: string, settings: McpSettings, host: LaunchContext): Launch {
  const { command, url, token, env, seconds = SECONDS } = settings;
  if ((command === undefined) === (url === undefined)) {
    const said = url === undefined ? "neither command nor url" : "both command and url";
    throw failed(name, `it has ${said}`, `give it one of them under ${tableOf(name)} in config.toml`);
  }
  if (url !== undefined) {
    const value = token === undefined ? undefined : givenBy(name, "token", token, host);
    return { name, seconds, url, token: value };
  }
  const values = [...env].map(([variable, written]) => [variable, givenBy(name, `env.${variable}`, written, host)]);
  const around = host.env ?? process.env;
  const own = host.home ?? skilletHome(around);
  const folder = existsSync(own) ? own : userHome(around);
  return { name, seconds, command: command ?? [], env: Object.fromEntries(values), folder };
}

/** What of it nobody is shown. */
export function secretsOf(launch: Launch): Secrets {
  if ("command" in launch) return new Map(Object.entries(launch.env));
  return new Map(launch.token === undefined ? [] : [[`${launch.name}.token`, launch.token]]);
}

/** What a server needs that cannot be had, or what it did. */
export function failed(name: string, why: string, fix: string, code: ErrorCode = "mcp-failed"): SkillError {
  return new SkillError(code, { message: `MCP server '${name}' cannot be used: ${why}`, fix });
}

export function tableOf(name: string): string {
  return `[tools.mcp.${name}]`;
}

function givenBy(name: string, key: string, written: string, host: LaunchContext): string {
  return resolved(written, host, (why) => {
    throw failed(name, `${key}: ${why}`, `correct ${key} under ${tableOf(name)} in config.toml`);
  });
}
