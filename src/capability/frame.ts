import { inLine } from "../shared/prompt.ts";
import { isData } from "../skill/data.ts";
import { DEEPEST, isTooDeep } from "./envelope.ts";
import { type Frame, METHODS, type Method, PROTOCOL } from "./protocol.ts";

/** What may stand in the params of each method, and what must. */
const PARAMS: Readonly<Record<Method, { must: readonly string[]; may: readonly string[] }>> = {
  list: { must: [], may: [] },
  invoke: { must: ["capability", "operation"], may: ["input", "account", "key", "approval"] },
  "auth.begin": { must: ["capability"], may: ["scopes"] },
  "auth.complete": { must: ["flow", "callback"], may: [] },
  "auth.poll": { must: ["flow"], may: [] },
};

const TOP = ["v", "token", "nonce", "method", "params"];

/** A request as it was sent, or why it is none. What nobody asked for is no part of one: an identity, for instance. */
export function readFrame(line: string): Frame | { problem: string } {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return problem("it is no JSON");
  }
  if (!isData(value)) return problem("it is no object");
  if (isTooDeep(value)) return problem(`it is nested more than ${DEEPEST} levels deep`);
  const { v, token = "", nonce, method, params = {} } = value;
  if (v !== PROTOCOL) return problem(`it is not of version ${PROTOCOL}`);
  const unknown = Object.keys(value).find((key) => !TOP.includes(key));
  if (unknown !== undefined) return problem(`"${inLine(unknown, 64)}" is no part of one`);
  if (typeof token !== "string") return problem("its token is no text");
  if (typeof nonce !== "string" || !/^[\w-]{8,64}$/.test(nonce)) return problem("its nonce is none");
  const known = METHODS.find((one) => one === method);
  if (!known) return problem("its method is none");
  if (!isData(params)) return problem("its params are no object");
  return paramsProblem(known, params) ?? { v, token, nonce, method: known, params };
}

function paramsProblem(method: Method, params: Record<string, unknown>): { problem: string } | undefined {
  const { must, may } = PARAMS[method];
  const missing = must.find((key) => params[key] === undefined);
  if (missing !== undefined) return problem(`${method} needs "${missing}"`);
  for (const [key, value] of Object.entries(params)) {
    if (!must.includes(key) && !may.includes(key)) return problem(`"${inLine(key, 64)}" is no part of ${method}`);
    if (key === "input") continue;
    const isFit = key === "scopes" ? isTexts(value) : typeof value === "string" && value.length <= longest(key);
    if (!isFit) return problem(`"${key}" of ${method} is not what it should be`);
  }
  return undefined;
}

function longest(key: string): number {
  return key === "callback" ? 16_384 : 256;
}

function isTexts(value: unknown): boolean {
  return (
    Array.isArray(value) && value.length <= 50 && value.every((item) => typeof item === "string" && item.length <= 256)
  );
}

function problem(why: string): { problem: string } {
  return { problem: `The request is none: ${why}` };
}
