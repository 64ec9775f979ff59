import { PromptValidationError } from "../shared/error.ts";

/** What a template's placeholders stand for. */
export type Params = Readonly<Record<string, unknown>>;

/** What a placeholder can stand for. */
export type Value = string | number | boolean | bigint;

/** The names that a template takes, where its text is known to the compiler. One call at the end, so that a text may hold hundreds. */
export type NamesIn<T extends string, Found extends string = never> = string extends T
  ? never
  : T extends `${string}$${infer Rest}`
    ? Rest extends `$${infer More}`
      ? NamesIn<More, Found>
      : Rest extends `{${infer Name}}${infer More}`
        ? NamesIn<More, Found | Name>
        : NamesIn<Rest, Found | Exclude<Head<Rest>, "">>
    : Found;
type Head<T extends string, Read extends string = ""> = T extends `${infer First}${infer Rest}`
  ? Lowercase<First> extends Letter
    ? Head<Rest, `${Read}${First}`>
    : Read
  : Read;
type Letter = Spelled<"abcdefghijklmnopqrstuvwxyz0123456789_">;
type Spelled<T extends string> = T extends `${infer First}${infer Rest}` ? First | Spelled<Rest> : never;

/** A text with placeholders: `$name`, `${name}`, and `$$` for a dollar sign. */
export interface Template {
  /** The parameters that it takes, each once. */
  readonly names: readonly string[];
  /** Throws a PromptValidationError that names a parameter which is missing, or no text. `where` is whose it is. */
  check(params: Params, where: string): void;
  /** Throws as `check` does. Contract: values are put in as they are, and not looked at again. */
  fill(params: Params, where: string): string;
}

/** Throws a PromptValidationError when a `$` in it begins no placeholder. `where` is whose it is, for the error. */
export function openTemplate(written: string, where: string): Template {
  const text = dedent(written);
  const texts: string[] = [];
  const slots: string[] = [];
  let literal = "";
  let at = 0;
  for (const found of text.matchAll(DOLLAR)) {
    literal += text.slice(at, found.index);
    at = found.index + found[0].length;
    const name = found[1] ?? found[2];
    if (name !== undefined) {
      texts.push(literal);
      slots.push(name);
      literal = "";
    } else if (found[0] === "$$") literal += "$";
    else throw stray(text, found.index, where);
  }
  texts.push(literal + text.slice(at));
  const names = [...new Set(slots)];
  return {
    names,
    check(params, whose) {
      for (const name of names) textOf(params, name, whose);
    },
    fill: (params, whose) =>
      texts
        .map((part, index) => (index === 0 ? part : `${textOf(params, slots[index - 1] ?? "", whose)}${part}`))
        .join(""),
  };
}

/** A text without placeholders, whatever it holds. */
export function literal(text: () => string): Template {
  return { names: [], check: () => {}, fill: text };
}

const DOLLAR = /\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\}|\$)?/g;

/** Without the indentation that all lines share, and without blank lines around it. */
export function dedent(written: string): string {
  const lines = written.replace(/\r\n?/g, "\n").split("\n");
  let shared: string | undefined;
  for (const line of lines) {
    if (line.trim() === "") continue;
    const indent = /^[ \t]*/.exec(line)?.[0] ?? "";
    shared = shared === undefined ? indent : commonStart(shared, indent);
  }
  const width = shared?.length ?? 0;
  return lines
    .map((line) => (line.trim() === "" ? "" : line.slice(width)))
    .join("\n")
    .trim();
}

function commonStart(a: string, b: string): string {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return a.slice(0, length);
}

function textOf(params: Params, name: string, where: string): string {
  const value = Object.hasOwn(params, name) ? params[name] : undefined;
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (value === undefined || value === null) {
    throw new PromptValidationError("parameter-missing", {
      message: `${where}: the parameter "${name}" is missing`,
      fix: `give it a value: bind({ ${name}: … }), or defaultParams; a dollar sign is written as $$`,
    });
  }
  throw new PromptValidationError("parameter-type", {
    message: `${where}: the parameter "${name}" is neither a text, a number nor a boolean`,
    fix: "say it as a text before it is bound",
  });
}

function stray(text: string, at: number, where: string): PromptValidationError {
  const line = text.slice(0, at).split("\n").length;
  return new PromptValidationError("template-invalid", {
    message: `${where}: the dollar sign in line ${line} begins no placeholder`,
    fix: "write $$ for a dollar sign, and $name for a parameter, or its name in braces after the $",
  });
}
