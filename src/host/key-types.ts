import { isAbsolute } from "node:path";
import { DISCLOSURE_MODES } from "../catalog/defaults.ts";
import { PACKAGE } from "../skill/needs.ts";
import { NPM_PACKAGE, PYTHON_PACKAGE } from "../skill/package-specifier.ts";
import { PROVIDERS } from "./models.ts";
import { LEVELS } from "./sandbox.ts";
import { ENGINES, WORKSPACE_ACCESS } from "./sandbox-settings.ts";

/** What a value of the configuration must be. */
interface Type {
  is(value: unknown): boolean;
  say: string;
  /** One, where words alone leave a doubt how it is written. */
  example?: string;
  /** A value as it is written on a command line. */
  read(written: string): unknown;
}

// What is exactly a host is judged where it is opened: that takes more than a start should load.
// The bracket by its number: editors read it in the schema, and their engines take it for a class of its own.
export const ENDPOINT = /^(?:unix:\S.*|(?:[^\s:/@\x5b\]]+|\[[\da-fA-F:.]+\]):\d{1,5})$/;

export const NAMESPACE = /^[a-z][a-z0-9_-]*$/;
export const CAPABILITY = /^[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)*\.(?:\*|[a-z][a-z0-9_-]*)$/;

/** How many packages of a kind a skill is given at most. */
export const MOST_PACKAGES = 32;

export const TYPES = {
  text: text(() => true, 'text in quotes, "…"'),
  path: text(isAbsolute, 'a whole path in quotes, "/…"'),
  address: text(isAddress, 'a web address in quotes, "https://…", without a name or password in it'),
  alias: text((value) => !value.includes("/"), "an alias of the user's configuration"),
  access: oneOf(WORKSPACE_ACCESS),
  mode: oneOf(DISCLOSURE_MODES),
  engine: oneOf(ENGINES),
  level: oneOf(LEVELS),
  provider: oneOf(PROVIDERS),
  search: oneOf(["searxng", "brave", "tavily"]),
  flag: {
    is: (value) => typeof value === "boolean",
    say: "true or false",
    read: (written) => ({ true: true, false: false })[written] ?? written,
  },
  number: number((value) => Number.isSafeInteger(value) && value >= 0, "a whole number", "20"),
  size: number((value) => Number.isSafeInteger(value) && value >= 1, "a whole number above 0", "20"),
  patience: number(
    (value) => Number.isSafeInteger(value) && value >= 1 && value <= 300,
    "a whole number, 1 to 300",
    "30",
  ),
  price: number((value) => Number.isFinite(value) && value >= 0, "a number of dollars", "2.5"),
  texts: list(() => true, 'a list of texts, ["…"]'),
  command: list((item) => item !== "", 'a program and its arguments, ["…"]', 1),
  capabilities: list((item) => CAPABILITY.test(item), 'a list of capabilities, ["gog.email"]; `gog.*` is all of gog'),
  namespace: text((value) => NAMESPACE.test(value), 'a name of small letters, digits, `-` and `_` in quotes, "gog"'),
  endpoints: list(
    (item) => ENDPOINT.test(item),
    'a list of hosts with their ports, or of sockets of the workspace, ["api.example.com:443", "unix:db.sock"]',
  ),
  systemPackages: packages(PACKAGE, 'a list of Debian packages by their exact names, ["poppler-utils"]'),
  pythonPackages: packages(
    PYTHON_PACKAGE,
    'a list of Python packages, ["pypdf", "pillow>=10"]; no URL, path or option',
  ),
  npmPackages: packages(NPM_PACKAGE, 'a list of npm packages, ["docx", "pptxgenjs@^3"]; no URL, path or alias'),
} satisfies Record<string, Type>;

/** Whether a workspace's word counts beside what the user said, or what holds where the user said nothing. */
export const RULES = {
  always: () => true,
  "not what is switched off": (_: unknown, ours: unknown) => ours !== false,
  "only less": (theirs: unknown, ours: unknown) => ours === undefined || Number(theirs) < Number(ours),
};

function text(is: (value: string) => boolean, say: string): Type {
  return { is: (value) => typeof value === "string" && is(value), say, read: (written) => written };
}

function oneOf(choices: readonly string[]): Type {
  return text((value) => choices.includes(value), choices.map((choice) => `"${choice}"`).join(", "));
}

function number(is: (value: number) => boolean, say: string, example: string): Type {
  const read = (written: string) => (/^[\d.]+$/.test(written) ? Number(written) : written);
  return { is: (value) => typeof value === "number" && is(value), say, example, read };
}

function list(is: (item: string) => boolean, say: string, least = 0, most = Number.POSITIVE_INFINITY): Type {
  const isItem = (item: unknown) => typeof item === "string" && is(item);
  const isList = (value: unknown) =>
    Array.isArray(value) && value.length >= least && value.length <= most && value.every(isItem);
  return { is: isList, say, read: itemsOf };
}

function packages(pattern: RegExp, say: string): Type {
  return list((item) => pattern.test(item), `${say}; at most ${MOST_PACKAGES}`, 0, MOST_PACKAGES);
}

/** `a,b`, or JSON where an item holds a comma. */
function itemsOf(written: string): unknown {
  if (!written.trimStart().startsWith("[")) {
    return written.split(",").flatMap((item) => item.trim() || []);
  }
  try {
    return JSON.parse(written);
  } catch {
    return undefined;
  }
}

function isAddress(value: string): boolean {
  const address = URL.parse(value);
  return /^https?:$/.test(address?.protocol ?? "") && `${address?.username}${address?.password}` === "";
}
