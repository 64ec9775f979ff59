import { SkillError } from "../../shared/error.ts";
import { codeOf, reason } from "../../shared/inside.ts";
import { inLine } from "../../shared/prompt.ts";
import { openHiding } from "../../shared/redact.ts";
import type { Notice } from "../sandbox.ts";
import { isAnswer, isLate, Unconnected } from "./connect.ts";
import { failed, type Launch, secretsOf, tableOf } from "./launch.ts";

/** What went wrong with a server, in words. */
export interface Failures {
  /** It cannot be had. `last`: what is known of its end. */
  ofStart(error: unknown, last?: string): SkillError;
  ofCall(error: unknown, last?: string): Notice;
}

export const START_MS = 10_000;
const LONGEST = 300;

export function openFailures(launch: Launch): Failures {
  const { name, seconds } = launch;
  const table = tableOf(name);
  const hiding = openHiding(secretsOf(launch));
  // Hidden before it is cut.
  const say = (...parts: readonly string[]) => inLine(hiding.text(parts.filter(Boolean).join("; ")), LONGEST);

  function ofStart(error: unknown, last = ""): SkillError {
    if (error instanceof Unconnected) return ofStart(error.cause, error.last);
    if (error instanceof SkillError && error.code === "package-missing") return error;
    if (isLate(error)) {
      const fix =
        "url" in launch
          ? `see whether it runs at the url under ${table} in config.toml`
          : `start it once by hand, if it must be fetched first; or correct command under ${table} in config.toml`;
      return failed(name, say(`it did not answer within ${START_MS / 1000} s`, last), fix, "mcp-timeout");
    }
    const keys = "url" in launch ? "url and token" : "command and env";
    return failed(name, say(why(error), last), `correct ${keys} under ${table} in config.toml, or set enabled = false`);
  }

  function ofCall(error: unknown, last = ""): Notice {
    if (error instanceof Unconnected) {
      const { code, message, fix = "" } = ofStart(error);
      return { code, message, fix };
    }
    if (isLate(error)) {
      return {
        code: "mcp-timeout",
        message: `MCP server '${name}' did not answer within ${seconds} s`,
        fix: `ask it for less, or raise timeout_seconds under ${table} in config.toml`,
      };
    }
    if (isAnswer(error)) {
      const message = `MCP server '${name}' refused the call: ${say(why(error))}`;
      return { code: "mcp-failed", message, fix: "correct the input, or do without" };
    }
    return {
      code: "mcp-failed",
      message: `MCP server '${name}' failed: ${say(why(error), last)}`,
      fix: "it is started again at the next call; `skillet doctor --tools` says how it is",
    };
  }

  return { ofStart, ofCall };
}

/** What is behind it all: that something was not fetched says little. */
function why(error: unknown): string {
  if (error instanceof Error && error.cause instanceof Error) return why(error.cause);
  return reason(error) || codeOf(error);
}
