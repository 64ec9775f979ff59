import { SkillError } from "../shared/error.ts";

/** A piece of an answer as it comes from a provider of the AI SDK. */
export interface AnswerPart {
  type: string;
  id?: string;
  /** Of text, of thoughts, or of the input of the call `id`. */
  delta?: unknown;
  /** Of a call that is whole. */
  input?: unknown;
}

const MIB = 1024 * 1024;
const MOST_SAID = 4 * MIB;
const MOST_INPUT = MIB;

/** Counts what one answer comes to. Throws a SkillError, `model-broken`, when that is more than anybody can use. */
export function boundAnswer(name: string): (part: AnswerPart) => void {
  let said = 0;
  const inputs = new Map<string, number>();
  const refuse = (what: string): never => {
    throw new SkillError("model-broken", {
      message: `${name} said more than ${what}`,
      fix: "set max_tokens of the model in config.toml, or use another model",
    });
  };
  return ({ type, id = "", delta, input }) => {
    const size = sizeOf(delta);
    said += size;
    if (said > MOST_SAID) refuse("4 MiB in one answer");
    if (type === "tool-input-delta") inputs.set(id, (inputs.get(id) ?? 0) + size);
    if (Math.max(inputs.get(id) ?? 0, sizeOf(input)) > MOST_INPUT) refuse("1 MiB for one call of a tool");
  };
}

function sizeOf(text: unknown): number {
  return typeof text === "string" ? Buffer.byteLength(text) : 0;
}
