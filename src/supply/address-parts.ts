import type { ErrorCode } from "../codes/codes.ts";
import { SkillError } from "../shared/error.ts";
import { findHidden } from "../shared/hidden.ts";
import { shown } from "./refusal.ts";

/** What an address is made of, whatever it is of. */
export interface Parts {
  main: string;
  inside?: string | undefined;
  ref?: string | undefined;
}

/** `main//inside#ref` or `main#ref//inside`; two slashes before `from` are none of these. */
export function partsOf(text: string, from: number): Parts {
  const hash = text.indexOf("#");
  const before = hash === -1 ? text : text.slice(0, hash);
  const after = hash === -1 ? undefined : text.slice(hash + 1);
  const slashes = before.indexOf("//", from);
  const afterSlashes = after?.indexOf("//") ?? -1;
  const folder =
    slashes !== -1 ? before.slice(slashes + 2) : afterSlashes !== -1 ? after?.slice(afterSlashes + 2) : undefined;
  const ref = slashes === -1 && afterSlashes !== -1 ? after?.slice(0, afterSlashes) : after;
  return {
    main: slashes === -1 ? before : before.slice(0, slashes),
    inside: folder === undefined ? undefined : judgedInside(decoded(folder)),
    ref: ref === undefined ? undefined : judgedRef(ref),
  };
}

export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw wrong("address-subfolder", text, "has a % that no number follows", "write %25 for a % in a name");
  }
}

/** These mean something in an address. */
export function encodeInside(inside: string): string {
  return inside.replace(/[%#? ]/g, encodeURIComponent);
}

export function judgedInside(text: string): string | undefined {
  const parts = text.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..") || /\\/.test(text) || findHidden(text).length > 0 || /[\t\n\r]/.test(text)) {
    throw wrong("address-subfolder", text, "is no folder inside a source", "name the folder by its path from the top");
  }
  return parts.length === 0 ? undefined : parts.join("/");
}

/** A branch, tag or commit as `git check-ref-format` has it, with nothing that a refspec or a revision is written with. Throws a SkillError. */
export function judgedRef(ref: string): string {
  const isBad =
    !/^[^\s\x00-\x20\x7f~^:?*[\\]+$/.test(ref) ||
    /^[-/.]|\.\.|@\{|\/\/|\/\.|\.lock(?:\/|$)|[/.]$|^@$/.test(ref) ||
    ref.length > 255;
  if (isBad) throw wrong("address-ref", ref, "is no branch, tag or commit", "write it as in ADDRESS#main");
  return ref;
}

export function wrong(code: ErrorCode, text: string, why: string, fix: string): SkillError {
  return new SkillError(code, { message: `${shown(text)} ${why}`, fix });
}
