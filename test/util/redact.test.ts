import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRedactor, MIN_SECRET_BYTES, redact } from "../../src/util/redact.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { expectLinearSteps } from "../support/steps.ts";

const MEBIBYTE = 1 << 20;
const KEY = 'sk-Ab/9+z?"q\\&é';
const only = (value: string) => new Map([["KEY", value]]);
const secrets = only(KEY);

/** The output when the bytes arrive in pieces of these sizes, repeatedly. */
function stream(
  bytes: Uint8Array,
  of: ReadonlyMap<string, string>,
  { sizes = [MEBIBYTE], isCut = false }: { sizes?: number[]; isCut?: boolean } = {},
): Buffer {
  const redactor = createRedactor(of).createStream();
  const shown: Buffer[] = [];
  for (let from = 0, turn = 0; from < bytes.length; turn++) {
    const size = Math.max(1, sizes[turn % sizes.length] ?? 1);
    shown.push(redactor.push(bytes.subarray(from, from + size)));
    from += size;
  }
  return Buffer.concat([...shown, redactor.end({ isCut })]);
}

const digits = (number: number, width: number) => number.toString(16).padStart(width, "0");
const percent = (text: string) => Array.from(Buffer.from(text), (byte) => `%${digits(byte, 2)}`).join("");
const escaped = (text: string) => text.replace(/./gs, (unit) => `\\u${digits(unit.charCodeAt(0), 4)}`);
const wrapped = (text: string, width: number, end = "\n") => text.replace(new RegExp(`.{${width}}`, "g"), `$&${end}`);
const hex = (text: string) => Buffer.from(text).toString("hex");
const base64 = (text: string) => Buffer.from(text).toString("base64");

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" };

/** Encodings of programs; each one is redacted completely, except for its surroundings. */
const FORMS: Record<string, (text: string) => string> = {
  raw: (text) => text,
  "percent, all of it": percent,
  "percent, upper case": (text) => percent(text).toUpperCase(),
  encodeURIComponent,
  "a form's fields": (text) => new URLSearchParams([["", text]]).toString().slice(1),
  JSON: (text) => JSON.stringify(text).slice(1, -1),
  "JSON as ASCII": escaped,
  "JSON as ASCII, upper case": (text) => escaped(text).toUpperCase().replaceAll("\\U", "\\u"),
  "JSON of PHP": (text) => JSON.stringify(text).slice(1, -1).replaceAll("/", "\\/"),
  "C and Python": (text) => percent(text).replaceAll("%", "\\x"),
  "a shell's word": (text) => text.replace(/[^A-Za-z0-9\x80-\u{10ffff}]/gu, "\\$&"),
  "a shell's string": (text) => text.replaceAll("'", "'\\''"),
  HTML: (text) => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`),
  XML: (text) => text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? ""),
  hex,
  "hex, upper case": (text) => hex(text).toUpperCase(),
  "hex, as openssl has it": (text) => hex(text).replace(/(..)(?!$)/g, "$1:"),
  "hex, as od has it": (text) => hex(text).replace(/(..)(?!$)/g, "$1 "),
  "hex, as xxd has it": (text) => hex(text).replace(/(....)(?!$)/g, "$1 "),
  "hex, as C has it": (text) => hex(text).replace(/(..)(?!$)/g, "$1, 0x"),
};

describe("redact", () => {
  it.each(Object.entries(FORMS))("hides a secret that is encoded as %s", (_, write) => {
    expect(redact(`a ${write(KEY)} b`, secrets)).toBe("a [KEY] b");
  });

  it.each([0, 1, 2, 3, 4, 5])("hides a secret in base64 with %i bytes before it", (before) => {
    for (const value of [KEY, "abcd", "abcde", "abcdef", "seven77"]) {
      const text = Buffer.from(`${"x".repeat(before)}${value}yy`);
      for (const encoding of ["base64", "base64url"] as const) {
        const shown = redact(text.toString(encoding), only(value));
        expect(shown).toContain("[KEY]");
        // Only encoded text without a single bit of the secret remains.
        const [left = "", right = ""] = shown.split("[KEY]");
        expect(left).toBe(text.toString(encoding).slice(0, Math.floor((before * 8) / 6)));
        expect(right.replaceAll("=", "").length).toBeLessThanOrEqual(3);
      }
    }
  });

  it("hides a secret in base64 with a newline after it, and without padding", () => {
    expect(redact(base64("abcdefg\n"), only("abcdefg"))).toMatch(/^\[KEY\].{0,2}$/);
    expect(redact("YWJjZGVmZw==", only("abcdefg"))).toBe("[KEY]==");
    expect(redact("YWJjZGVmZw", only("abcdefg"))).toBe("[KEY]");
  });

  it("hides a secret in base64 that is part of an address or of JSON", () => {
    const value = "\u00fb\u00ff?>~\u00ff\u00fe";
    const text = base64(value);
    expect(text).toMatch(/[+/].*[+/]/);
    expect(redact(encodeURIComponent(text), only(value))).toMatch(/^\[KEY\](?:%3D)*$/);
    expect(redact(text.replaceAll("/", "\\/"), only(value))).toMatch(/^\[KEY\]=*$/);
  });

  it("hides both of two secrets that share a letter of base64", () => {
    const both = new Map(Object.entries({ A: "first-secret", B: "second-secrets" }));
    for (const before of ["", "x", "xx"]) {
      expect(redact(base64(`${before}first-secretsecond-secretsfirst-secret`), both)).toMatch(
        /^\w{0,2}\[A\]\[B\]\[A\]=*$/,
      );
    }
  });

  it.each(["\n", "\r\n"])("hides a secret that is wrapped with %j, wherever the break falls", (end) => {
    const value = "a-secret-of-some-length";
    for (let before = 0; before < 80; before++) {
      const text = "x".repeat(before) + value;
      for (const lines of [
        wrapped(base64(text), 76, end),
        wrapped(base64(text), 64, end),
        wrapped(hex(text), 60, end),
      ]) {
        expect(redact(lines + end, only(value)), `${before} before`).toMatch(/\[KEY\]=*\s*$/);
      }
    }
  });

  it("hides a mixture of encodings", () => {
    expect(redact('%73k\\u002dA\\x62%2F9%2bz?\\"q\\\\&amp;%C3%a9', secrets)).toBe("[KEY]");
    expect(redact("p+ss+w%6Frd", only("p ss word"))).toBe("[KEY]");
  });

  it("hides emoji, control characters and line breaks in secrets", () => {
    const value = "🔑\u0000\u001b[8m\u007f\r\n👨‍👩‍👧é\tend";
    for (const [name, write] of Object.entries(FORMS)) {
      if (name === "a form's fields") continue; // It turns every line break into \r\n.
      expect(redact(`<${write(value)}>`, only(value)), name).toBe("<[KEY]>");
    }
    expect(redact("one\r\ntwo", only("one\ntwo"))).toBe("[KEY]");
    const pem = `${"A".repeat(64)}\n${"B".repeat(64)}`;
    expect(redact(`${pem}\n`, only(pem))).toBe("[KEY]\n");
  });

  it("hides a value that ends in a newline with it and without it", () => {
    const value = only("a-value\n");
    expect(redact("a-value and a-value\n", value)).toBe("[KEY] and [KEY]\n");
    expect(redact(JSON.stringify("a-value\n"), value)).toBe('"[KEY]\\n"');
  });

  it("prefers the longest of those that start first, and of equal ones the first by name", () => {
    const nested = new Map(Object.entries({ SHORT: "bcde", LONG: "bcdefgh", EARLY: "abcd" }));
    expect(redact("bcde bcdef bcdefgh abcdefgh", nested)).toBe("[SHORT] [SHORT]f [LONG] [EARLY]efgh");
    const alike = new Map(Object.entries({ Z: "the-same", A: "the-same" }));
    expect(redact("the-same", alike)).toBe("[A]");
  });

  it("hides 7 and 4 bytes, and nothing shorter", () => {
    const short = new Map(Object.entries({ SEVEN: "hunter2", FOUR: "abé", THREE: "xyz", NONE: "" }));
    expect(Buffer.byteLength("abé")).toBe(MIN_SECRET_BYTES);
    expect(redact("hunter2 abé xyz", short)).toBe("[SEVEN] [FOUR] xyz");
  });

  it("distinguishes a hundred secrets", () => {
    const many = new Map(Array.from({ length: 100 }, (_, index) => [`KEY_${index}`, `value-${index}-of-many`]));
    const written = [...many.values()].map((value, index) => Object.values(FORMS)[index % 12]?.(value) ?? value);
    expect(redact(written.join("\n"), many)).toBe([...many.keys()].map((name) => `[${name}]`).join("\n"));
  });

  it("does not change a text without a secret, including lone surrogates", () => {
    expect(redact("a \ud800 b", secrets)).toBe("a \ud800 b");
    expect(redact("sk-Ab/9+z", secrets)).toBe("sk-Ab/9+z");
  });
});

describe("a redactor", () => {
  it("finds a secret that is split at any byte", () => {
    for (const write of [...Object.values(FORMS), base64]) {
      const bytes = Buffer.from(`a ${write(KEY)} b`);
      for (let at = 1; at < bytes.length; at++) {
        expect(stream(bytes, secrets, { sizes: [at, bytes.length] }).toString()).toMatch(/^a \[KEY\]=* b$/);
      }
      expect(stream(bytes, secrets, { sizes: [1] }).toString()).toMatch(/^a \[KEY\]=* b$/);
    }
  });

  it("emits at once what can no longer become a secret", () => {
    const redactor = createRedactor(only("hunter2")).createStream();
    for (const line of ["Your name? ", "Done\n", "h\n", "hunting\n", "aGVsbG8=\n", "68:65\n", "100 %\n"]) {
      expect(redactor.push(Buffer.from(line)).toString()).toBe(line);
    }
    expect(redactor.push(Buffer.from("a hunt")).toString()).toBe("a ");
    expect(redactor.push(Buffer.from("er2")).toString()).toBe("[KEY]");
  });

  it("drops a prefix of a secret at a cut, and emits it at a natural end", () => {
    for (const [name, write] of [...Object.entries(FORMS), ["base64", base64] as const]) {
      const bytes = Buffer.from(write(KEY));
      for (let length = 1; length < bytes.length; length++) {
        const cut = Buffer.concat([Buffer.from("a "), bytes.subarray(0, length)]);
        expect(stream(cut, secrets, { isCut: true }).toString(), `${name}, ${length}`).toMatch(/^a (?:\[KEY\]=?)?$/);
        if (name === "raw") expect(stream(cut, secrets)).toEqual(cut);
      }
    }
    const nested = new Map(Object.entries({ SHORT: "abcd", LONG: "abcdefgh" }));
    expect(stream(Buffer.from("abcdef"), nested, { isCut: true }).toString()).toBe("[SHORT]");
    expect(stream(Buffer.from("abcdef"), nested).toString()).toBe("[SHORT]ef");
  });

  it("passes bytes through without copying when there is nothing to hide", () => {
    const bytes = Uint8Array.of(0, 255, 10);
    for (const nothing of [new Map<string, string>(), only("abc")]) {
      const redactor = createRedactor(nothing).createStream();
      expect(redactor.push(bytes).buffer).toBe(bytes.buffer);
      expect([...redactor.push(bytes)]).toEqual([0, 255, 10]);
      expect(redactor.end()).toHaveLength(0);
    }
  });

  it("forgets its state of a secret that is too long to keep, and still finds it", () => {
    const value = Array.from({ length: 20_000 }, (_, index) => (index * index * 7919).toString(36))
      .join("")
      .slice(0, 20_000);
    expect(
      stream(Buffer.from(`a ${value} ${value.slice(0, -1)} ${value}`), only(value), { sizes: [4096] }).toString(),
    ).toBe(`a [KEY] ${value.slice(0, -1)} [KEY]`);
  });

  it("passes any bytes without a secret through, one for one", () => {
    const bytes = fc.uint8Array({ maxLength: 400 });
    fc.assert(
      fc.property(bytes, fc.integer({ min: 1, max: 99 }), (given, size) => {
        expect(stream(given, only("never-in-there"), { sizes: [size] })).toEqual(Buffer.from(given));
      }),
      { numRuns: 1000 },
    );
  });
});

describe("redaction of any secrets and text in any pieces", () => {
  const character = fc.oneof(
    fc.constantFrom(..."aab%\\+ /&\"'<=-_:u0x6", "\n", "\r", "\0", "é", "€", "🔑"),
    fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
  );
  // Without the brackets of a name, or the inserted text could complete a secret.
  const anyText = (minLength: number, maxLength: number) =>
    fc.array(character, { minLength, maxLength }).map((parts) => parts.join("").toWellFormed().replace(/[[\]]/g, "."));
  const value = anyText(4, 12).filter(
    (text) => Buffer.byteLength(text.trim()) >= MIN_SECRET_BYTES && !/KEY/i.test(text),
  );
  const shifted = [1, 2].map((by) => (text: string) => base64(`${"x".repeat(by)}${text}y`));
  const write = fc.constantFrom(...Object.values(FORMS), base64, ...shifted);
  const piece = fc.record({ text: anyText(0, 8), write, which: fc.nat(), isSecret: fc.boolean() });
  const example = fc.record({
    values: fc.array(value, { minLength: 1, maxLength: 4 }),
    pieces: fc.array(piece, { maxLength: 6 }),
    sizes: fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 8 }),
  });

  it("has the same result for a stream and its whole, with no secret in any form", () => {
    fc.assert(
      fc.property(example, ({ values, pieces, sizes }) => {
        const of = new Map(values.map((text, index) => [`KEY${index}`, text]));
        const written = pieces.map(({ text, write, which, isSecret }) =>
          isSecret ? write(values[which % values.length] ?? "") : text,
        );
        const text = written.join("");
        const whole = redact(text, of);
        expect(stream(Buffer.from(text), of, { sizes }).toString()).toBe(whole);
        for (const hidden of values) {
          for (const write of Object.values(FORMS)) expect(whole.includes(write(hidden.trim()))).toBe(false);
          for (const encoding of ["base64", "base64url"] as const) {
            expect(whole.includes(Buffer.from(hidden.trim()).toString(encoding).replace(/=+$/, ""))).toBe(false);
          }
        }
      }),
      { numRuns: IS_LONG ? 1500 : 500 },
    );
  });
});

describe("the number of steps", () => {
  const KIBIBYTE = 1024;
  const one = "sk-ant-api03-abcdefghijKLMNOP1234567890";
  const many = Array.from({ length: 100 }, (_, index) => `${one}-${index}`);
  const ROWS: [title: string, secrets: string[], text: string][] = [
    ["the first letter repeated", [one], "s"],
    ["the only letter repeated", ["aaaaaaaa"], "a"],
    ["the letter repeated, with the last one at the end", ["aaaaaaab"], "a"],
    ["a run next to a long secret", [`${"a".repeat(1000)}b`], "a"],
    ["prefixes of the secret", [one], one.slice(0, -1)],
    ["only the secret", [one], one],
    ["a mixture of escapes", ["aaaaaaaa"], "a%61\\u0061\\x61%61a\\x6"],
    ["ordinary lines", [one], "The quick brown fox jumps over the lazy dog.\n"],
    ["base64 next to a hundred secrets", many, base64("any bytes whatever, and more of them".repeat(99))],
  ];

  it("is linear in the length, whatever the text is", async () => {
    const sizes = [32, 64, 128].map((size) => size * KIBIBYTE);
    const counts = await expectLinearSteps(
      ["src/util/redact.ts"],
      ({ createRedactor }: typeof import("../../src/util/redact.ts"), [secrets, text, size]) => {
        const redactor = createRedactor(
          new Map(secrets.map((secret, index) => [`KEY${index}`, secret])),
        ).createStream();
        const bytes = Buffer.alloc(size, text);
        for (let from = 0; from < size; from += 8192) redactor.push(bytes.subarray(from, from + 8192));
        redactor.end({ isCut: false });
      },
      ROWS.map(([title, ...row]) => [title, sizes.map((size) => [...row, size] as const)] as const),
    );
    for (const own of counts) expect((own.at(-1) ?? 0) / (128 * KIBIBYTE), "steps for each byte").toBeLessThan(60);
  });
});
