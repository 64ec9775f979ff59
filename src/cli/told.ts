import { SkillError } from "../shared/error.ts";
import type { Io } from "./io.ts";

/** An end that people were told of already, in more words. A program is told it as any other. */
export class Told extends SkillError {}

/** Somebody said no, or there was nobody who could say yes. `fix`: what whoever cannot be asked does. */
export function notAgreed({ ask }: Pick<Io, "ask">, message: string, fix: string): SkillError {
  return ask
    ? new SkillError("not-agreed", { message })
    : new SkillError("not-agreed", { message: `${message}: nobody was asked, since this is no terminal`, fix });
}
