import { isDeepStrictEqual } from "node:util";
import { SkillError } from "../../shared/error.ts";
import type { Entry } from "./clients.ts";
import { isTable } from "./entry.ts";
import { CALL_KEYS, type JsonHook } from "./hook-config.ts";
import { type JsonPath, removeInJsonc, setInJsonc } from "./jsonc.ts";
import { inTheWay, JSON_LANGUAGE, withObject } from "./merge.ts";

/** A hook of a client, and how to tell a handler that is skillet's. */
export interface HookPlace {
  hook: JsonHook;
  isOurs(handler: Entry): boolean;
}

/**
 * Puts a handler into a text and keeps all else: other hooks, comments, formatting, and settings that the user changed in the handler.
 * Contract: the same text when it was there already. Throws a SkillError when the text does not parse, or something else is in the way.
 */
export function mergeHook(text: string, handler: Entry, place: HookPlace): string {
  const { event, version, isGrouped } = place.hook;
  const [known] = ourHandlers(text, place);
  if (known) return withHandler(text, known, handler);
  const document = JSON_LANGUAGE.parse(text);
  const start = withObject(text);
  const isVersioned = version === undefined || Object.hasOwn(document, "version");
  const versioned = isVersioned ? start : setInJsonc(start, ["version"], version);
  const { length } = entriesOf(document, event);
  const next = setInJsonc(versioned, ["hooks", event, length], isGrouped ? { hooks: [handler] } : handler);
  const added = ourHandlers(next, place);
  if (added.length !== 1 || !isDeepStrictEqual(added[0]?.handler, handler)) throw unchangeable();
  return next;
}

/** Removes skillet's handlers from a text, and nothing else; a group goes with its last handler. */
export function removeHook(text: string, place: HookPlace): string {
  let next = text;
  for (let [known] = ourHandlers(next, place); known; [known] = ourHandlers(next, place)) {
    const before = next;
    next = removeInJsonc(before, known.isAlone ? known.path.slice(0, 3) : known.path);
    if (next === before) throw unchangeable();
  }
  return next;
}

/** Returns skillet's handlers in a text. Throws a SkillError when the text does not parse, or something else is in the way. */
export function ourHandlers(text: string, { hook, isOurs }: HookPlace): OurHandler[] {
  const { event, isGrouped } = hook;
  return entriesOf(JSON_LANGUAGE.parse(text), event).flatMap((entry, index): OurHandler[] => {
    const path = ["hooks", event, index];
    if (!isTable(entry)) return [];
    if (!isGrouped) return isOurs(entry) ? [{ path, handler: entry, isAlone: true }] : [];
    const handlers: unknown = entry["hooks"];
    if (!Array.isArray(handlers)) return [];
    const isBare = Object.keys(entry).every((key) => key === "hooks" || key === "matcher");
    return handlers.flatMap((handler, at) =>
      isTable(handler) && isOurs(handler)
        ? [{ path: [...path, "hooks", at], handler, isAlone: isBare && handlers.length === 1 }]
        : [],
    );
  });
}

export interface OurHandler {
  path: JsonPath;
  handler: Entry;
  /** Nothing else is in its group. */
  isAlone: boolean;
}

function entriesOf(document: Record<string, unknown>, event: string): unknown[] {
  const hooks = Object.hasOwn(document, "hooks") ? document["hooks"] : {};
  if (!isTable(hooks)) throw inTheWay(["hooks"]);
  const entries = Object.hasOwn(hooks, event) ? hooks[event] : [];
  if (!Array.isArray(entries)) {
    throw new SkillError("config-edit", {
      message: `has hooks.${event}, which is not a list`,
      fix: "correct it by hand: nothing was written",
    });
  }
  return entries;
}

/** Key by key, so that what the user added stays where it is. */
function withHandler(text: string, { path, handler: there }: OurHandler, handler: Entry): string {
  const changed = Object.entries(handler).filter(
    ([key, value]) => (CALL_KEYS.includes(key) || !Object.hasOwn(there, key)) && !isDeepStrictEqual(there[key], value),
  );
  const gone = CALL_KEYS.filter((key) => Object.hasOwn(there, key) && !Object.hasOwn(handler, key));
  const set = changed.reduce((written, [key, value]) => setInJsonc(written, [...path, key], value), text);
  return gone.reduce((written, key) => removeInJsonc(written, [...path, key]), set);
}

function unchangeable(): SkillError {
  return new SkillError("config-edit", {
    message: "has its hooks written in a way that only a person can change",
    fix: "change them by hand: nothing was written",
  });
}
